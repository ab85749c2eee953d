// What the page of incidents remembers: the incidents that are over or last, and the audit log's entries around them, for who may
// see those.
import { get } from '../../lib/api';
import { whatOf, type Entry } from '../../lib/audit';
import type { Cause } from '../../lib/causes';
import { when } from '../../lib/format';
import type { PastIncident } from '../../lib/past';
import { session } from '../../lib/session.svelte';

const MOST = 300;
/** What was changed so long before, in seconds, may be why. */
const BEFORE = 3600;
/** What was done so long after the end, in seconds, belongs to it. */
const AFTER = 300;
/** Lines of changes, and of what was done. */
const LINES = 4;

/** What stops or moves pools, by whatever way. */
const STOPS = /\/(pause|resume|kill|suspend|disable|enable|reconnect|switch|shutdown)$/;
const isChange = ({ changes, path, method }: Entry) => (changes.length > 0 || path === '' || method !== 'POST' || STOPS.test(path)) && method !== 'START';
const said = (entry: Entry) => `${when(entry.at, 'second')} ${whatOf(entry)}${entry.user ? ` (${entry.user})` : ''}`;

export class Remembered {
  list = $state.raw<PastIncident[]>([]);
  private entries = $state.raw<Entry[]>([]);

  async load(pool: string | null, isWanted: () => boolean) {
    const [list, audit] = await Promise.all([
      get<{ incidents: PastIncident[] }>('incidents/past', { pool }).catch(() => null),
      session.may('operator') ? get<{ entries: Entry[] }>('audit', { limit: MOST, outcome: 'done' }).catch(() => null) : null,
    ]);
    if (!isWanted()) return;
    if (list) this.list = list.incidents;
    if (audit) this.entries = audit.entries;
  }

  /** What is remembered of a cause that lasts. */
  of({ state, pools, faults }: Cause): PastIncident | null {
    const lasts = this.list.filter((one) => one.lasts);
    const ofPools = lasts.filter((one) => pools.some(({ pool }) => one.pools.includes(pool)));
    return ofPools.find(({ what }) => what === state) ?? ofPools[0] ?? lasts.find(({ what }) => faults.some(({ kind }) => kind === what)) ?? null;
  }

  /** What changed in the hour before, in this order: the configuration, Weir itself, applications, the load. */
  changedBefore({ since, changed }: PastIncident): string[] {
    return [...this.lines(since - BEFORE, since, isChange), ...changed.map(({ kind, at, text }) => (kind === 'load' ? text : `${when(at, 'second')} ${text}`))];
  }

  doneMeanwhile({ since, until }: PastIncident): string[] {
    return this.lines(since, (until ?? since) + AFTER, ({ method }) => method !== 'START');
  }

  private lines(from: number, until: number, is: (entry: Entry) => boolean): string[] {
    return this.entries.filter((entry) => entry.at >= from && entry.at <= until && is(entry)).slice(0, LINES).map(said);
  }
}
