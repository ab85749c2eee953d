// What is broken, and whether what the page shows is fresh: the same for all pages, from whatever stream of figures one follows.
import { plural } from './format';
import { identifier, quoted } from './quote';
import type { Affected, Event, Fault, Figures, Problem } from './types';

/** After a connection broke off, the browser's next try takes about a second; only after this long it has failed. */
const BROKEN = 1800;
/** Without an answer, though the connection stands. Events come once a second, of very many pools less often. */
const STALE_AFTER = 2600;
const INTERVALS = 2.5;
/** How often the page looks at the clock. */
const LOOK = 250;

class Health {
  /** The pools with a problem, the worst first. */
  problems = $state.raw<Problem[]>([]);
  /** How many pools have one: the list is bounded. */
  brokenPools = $state(0);
  /** What is wrong with Weir itself, the worst first. */
  faults = $state.raw<Fault[]>([]);
  /** All pools as one, where events tell. */
  all = $state.raw<Figures | null>(null);
  /** Whether Weir gives no answer: what is shown is old. */
  stale = $state(false);
  /** Seconds since 1970, by this machine's clock: the last figures, and now. */
  last = $state(0);
  now = $state(Date.now() / 1000);

  private received = 0;
  private interval = 1000;
  private broken = 0;

  constructor() {
    setInterval(() => this.look(), LOOK);
  }

  /** Figures are requested from now on: what came before is not expected any more. */
  begin() {
    this.received = performance.now();
    this.broken = 0;
  }

  take({ problems, problem_pools, faults, all }: Event) {
    const now = performance.now();
    if (this.last > 0 && !this.stale) this.interval = Math.min(10_000, Math.max(1000, now - this.received));
    this.received = now;
    this.broken = 0;
    this.last = Date.now() / 1000;
    this.stale = false;
    this.problems = problems ?? [];
    this.brokenPools = problem_pools ?? this.problems.length;
    this.faults = faults ?? [];
    this.all = all ?? null;
  }

  /** The connection broke off, or could not be made again. */
  broke() {
    this.broken ||= performance.now();
  }

  private look() {
    this.now = Date.now() / 1000;
    if (document.hidden || this.received === 0) return;
    const now = performance.now();
    const overdue = now - this.received > Math.max(STALE_AFTER, INTERVALS * this.interval);
    this.stale = overdue || (this.broken > 0 && now - this.broken > BROKEN);
  }
}

export const health = new Health();

/** The users and applications that are affected, of this many clients; empty where none is known. */
export function names(affected: Affected[], clients: number): string {
  if (affected.length === 0) return '';
  const parts = affected.map(({ user, application_name }) => (application_name ? `${identifier(user)} (${quoted(application_name)})` : identifier(user)));
  const more = clients - affected.reduce((sum, of) => sum + of.clients, 0);
  if (more > 0) parts.push(plural(more, 'more client'));
  const last = parts.pop() ?? '';
  return parts.length > 0 ? `${parts.join(', ')} and ${last}` : last;
}

/** Faults of which clients get errors, though nothing is wrong with Weir. */
const OF_CLIENTS = ['limit', 'login', 'read_only', 'unread'];
export const isOfClients = ({ kind }: Fault): boolean => OF_CLIENTS.includes(kind);

/** A fault in a word, and in a sentence. */
const FAULTS: Record<Fault['kind'], [word: string, sentence: string]> = {
  certificate: ['certificate', 'A certificate has expired'],
  cluster: ['cluster', 'This node has a problem with its cluster'],
  disk: ['disk', 'A disk refuses what Weir writes'],
  limit: ['limit reached', 'A limit refuses clients'],
  login: ['login refused', 'Clients can’t log in'],
  look: ['not looked at', 'A slow server can’t be looked at'],
  read_only: ['read-only', 'A server refuses to write'],
  unread: ['results not read', 'Clients do not read their results'],
  reload: ['reload failed', 'The configuration could not be read again'],
};
export const faultWord = ({ kind }: Fault): string => FAULTS[kind]?.[0] ?? kind.replaceAll('_', ' ');
export const faultSentence = (fault: Fault): string => FAULTS[fault.kind]?.[1] ?? `Weir has a problem: ${faultWord(fault)}`;

/** The state of a pool of which nothing is known. */
export const UNTRIED = 'not tried yet';

/** The colour of a pool's state, the same everywhere: of kinds that are not known here, too. */
export function inkOf(state: string | undefined): 'busy' | 'wait' | 'bad' | '' {
  if (state === undefined || state === UNTRIED) return '';
  if (state === 'healthy') return 'busy';
  return ['waiting', 'paused', 'disabled'].includes(state) ? 'wait' : 'bad';
}

/** Whether a pool's state is out of the ordinary. */
export function isNotable(state: string | undefined): boolean {
  return state !== undefined && state !== 'healthy' && state !== 'waiting';
}
