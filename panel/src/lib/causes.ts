// Problems by their cause: what is broken once, with the pools that suffer from it, instead of a copy for each pool. A cause is
// a state of one database server; problems of any kind are grouped by what they have in common, without a list of kinds.
import { capital, local, sentence } from './format';
import { faultWord, isOfClients } from './health.svelte';
import { badness } from './sorting';
import type { Affected, Fault, Health, Problem } from './types';

export interface Cause {
  /** The same while it lasts. */
  key: string;
  /** Broken now, or a warning. */
  ink: 'bad' | 'wait';
  /** What is broken: a pool, the server of several, Weir, or its clients. */
  title: string;
  state: string;
  /** Those that suffer from it, most affected clients first. */
  pools: Problem[];
  /** Instead of pools: what is wrong with Weir itself. */
  faults: Fault[];
  /** The sums of the pools. */
  felt: Felt;
  /** Users and applications of all pools, up to three, the most clients first. */
  affected: Affected[];
  /** Seconds since 1970: when the first of them began. */
  since: number | null;
  /** When it was last seen, where no pool shows it any more. */
  unseen: number | null;
  /** What went wrong, as the server says it, or what holds the pools up. */
  error: string | null;
  advice: string;
  /** Whether a new connection would show that it is over. */
  connects: boolean;
}

const FELT = ['clients', 'waiting', 'blocked', 'refused', 'refused_clients', 'unanswered', 'failed', 'slowed'] as const;
export type Felt = Pick<Health, (typeof FELT)[number]>;

const CONNECTS = ['cannot grow', 'not answering', 'cannot connect', 'login rejected'];
/** States of a pool that are one state of its server. */
const DOWN = ['not answering', 'cannot connect'];
/** SQLSTATE classes of a connection that is lost or refused, and of a server that stops. */
const LOST = /^(08|57)/;
const NAMED = 3;

/** What has the same key has the same cause. Of a server that is down, each pool may notice something else. */
function keyOf({ health: { state, error } }: Problem, server: string, down: Set<string>): string {
  const lost = LOST.test(error?.sqlstate ?? '');
  const one = lost && (DOWN.includes(state) || (state === 'failing' && down.has(server)));
  return [server, one ? 'down' : state, one ? '' : (error?.sqlstate ?? '')].join('\n');
}

/** The causes: what is broken now before what is seen no more and what will be broken; then the one with the most pools, the worst
    and the newest. `serverOf`: the database server of a pool, empty where it is not known. */
export function causesOf(problems: Problem[], faults: Fault[], serverOf: (pool: string) => string): Cause[] {
  const isDown = ({ health: { state, error } }: Problem) => DOWN.includes(state) && LOST.test(error?.sqlstate ?? '');
  const down = new Set(problems.filter(isDown).map(({ pool }) => serverOf(pool)));
  const groups = new Map<string, Problem[]>();
  for (const problem of problems) {
    const key = keyOf(problem, serverOf(problem.pool), down);
    groups.set(key, [...(groups.get(key) ?? []), problem]);
  }
  const causes = [...groups].map(([key, group]) => ofPools(key, group, serverOf));
  // The order follows from what changes seldom, so that nothing changes its place while figures do.
  const rank = ({ ink, unseen }: Cause) => (ink === 'wait' ? 2 : Number(unseen !== null));
  // Faults come with the worst first.
  const newer = (a: Cause, b: Cause) => (a.faults.length > 0 || b.faults.length > 0 ? 0 : (b.since ?? 0) - (a.since ?? 0) || (a.key < b.key ? -1 : 1));
  const all = [...causes, ...groupedFaults(faults)];
  return all.sort(
    (a, b) => rank(a) - rank(b) || b.pools.length - a.pools.length || badness(b.state) - badness(a.state) || newer(a, b),
  );
}

function ofPools(key: string, group: Problem[], serverOf: (pool: string) => string): Cause {
  const pools = [...group].sort((a, b) => b.health.clients - a.health.clients || (a.pool < b.pool ? -1 : 1));
  const worst = pools.reduce((worst, one) => (badness(one.health.state) > badness(worst.health.state) ? one : worst), pools[0] as Problem);
  const { state, error, cause, advice } = worst.health;
  const sinces = pools.flatMap(({ health: { since } }) => since ?? []);
  const server = serverOf(worst.pool);
  return {
    key,
    ink: 'bad',
    title: pools.length === 1 || server === '' ? worst.pool : server,
    state,
    pools,
    faults: [],
    felt: Object.fromEntries(FELT.map((name) => [name, pools.reduce((sum, { health }) => sum + health[name], 0)])) as unknown as Felt,
    affected: merged(pools.flatMap(({ health }) => health.affected)),
    since: sinces.length > 0 ? Math.min(...sinces) : null,
    unseen: unseenSince(pools),
    error: [error && `${reason(error.message)} (${error.sqlstate})`, cause && capital(local(cause))].map((text) => text && sentence(text)).filter((text) => text).join(' ') || null,
    advice,
    connects: CONNECTS.includes(state),
  };
}

/** When the last of them was last seen; null while one is. */
function unseenSince(pools: Problem[]): number | null {
  const seen = pools.map(({ health }) => health.not_seen_since ?? null);
  return seen.some((at) => at === null) ? null : Math.max(...seen.map((at) => at ?? 0));
}

function groupedFaults(faults: Fault[]): Cause[] {
  const groups = new Map<string, Fault[]>();
  for (const fault of faults) {
    const key = `weir\n${fault.kind}\n${fault.problem}\n${fault.pool ?? fault.advice}`;
    groups.set(key, [...(groups.get(key) ?? []), fault]);
  }
  return [...groups].map(([key, group]) => {
    const first = group[0] as Fault;
    return {
      key,
      ink: first.problem ? 'bad' : 'wait',
      title: first.pool ?? (isOfClients(first) ? 'Clients' : 'Weir'),
      state: faultWord(first),
      pools: [],
      faults: group,
      felt: { clients: group.reduce((sum, { clients }) => sum + clients, 0), waiting: 0, blocked: 0, refused: 0, refused_clients: 0, unanswered: 0, failed: 0, slowed: 0 },
      affected: merged(group.flatMap(({ affected }) => affected)),
      since: Math.min(...group.map(({ since }) => since)),
      unseen: group.every(({ not_seen_since: at }) => at !== null) ? Math.max(...group.map(({ not_seen_since: at }) => at ?? 0)) : null,
      error: local(first.summary),
      advice: first.advice,
      connects: false,
    };
  });
}

function merged(all: Affected[]): Affected[] {
  const sums = new Map<string, Affected>();
  for (const one of all) {
    const key = `${one.user}\n${one.application_name}`;
    const sum = sums.get(key);
    sums.set(key, { ...one, clients: one.clients + (sum?.clients ?? 0) });
  }
  return [...sums.values()].sort((a, b) => b.clients - a.clients).slice(0, NAMED);
}

/** What is wrong, without the server, whose name stands beside it, and the number of the system's error: a row that has little
    room keeps that. */
export function reason(message: string): string {
  return local((/^could not connect to server \S+: (.+)$/s.exec(message)?.[1] ?? message).replace(/ \(os error \d+\)/, ''));
}
