// The overview's columns: what each sorts by. Ties go by name, so that rows keep their places.
import { UNTRIED } from './health.svelte';
import type { Row } from './pools.svelte';
import type { Figures } from './types';

export type Column = 'name' | 'mode' | 'clients' | 'waiting' | 'servers' | 'wait' | 'errors' | 'tps';

export function clientsOf(now: Figures): number {
  return now.clients_active + now.clients_idle + now.clients_waiting;
}

const KEYS: Record<Column, (row: Row) => string | number> = {
  name: (row) => row.pool.name,
  mode: (row) => row.pool.mode,
  clients: (row) => clientsOf(row.now),
  waiting: (row) => row.now.clients_waiting,
  servers: (row) => row.now.servers_active / Math.max(1, row.pool.size),
  wait: (row) => row.now.oldest_wait_seconds,
  errors: (row) => row.now.errors_per_second ?? -1,
  tps: (row) => row.now.transactions_per_second ?? -1,
};

export function isColumn(name: string | null): name is Column {
  return name !== null && name in KEYS;
}

/** Words sort upwards at first, figures downwards: what one looks for is what is large. */
export function startsDown(column: Column): boolean {
  return column !== 'name' && column !== 'mode';
}

/** Problems come before all else, the worst first. */
const WORST = ['paused', 'slow', 'cannot grow', 'saturated', 'stalled', 'blocked', 'failing', 'not answering', 'cannot connect', 'login rejected'];
export const badness = (state: string): number => WORST.indexOf(state);
const badnessOf = ({ pool, now }: Row) => {
  const of = now.health ?? pool.health;
  return of?.problem ? badness(of.state) : -1;
};

export function sorted(rows: Row[], column: Column, down: boolean): Row[] {
  const key = KEYS[column];
  const sign = down ? -1 : 1;
  const compare = (a: string | number, b: string | number) => (a < b ? -1 : a > b ? 1 : 0);
  const keyed = rows.map((row) => [key(row), row, badnessOf(row)] as const);
  keyed.sort(([a, one, bad], [b, other, worse]) => worse - bad || sign * compare(a, b) || compare(one.pool.name, other.pool.name));
  return keyed.map(([, row]) => row);
}

/** Whether nothing is known of a pool's server yet. */
export function isUntried({ pool, now }: Row): boolean {
  return (now.health ?? pool.health)?.state === UNTRIED;
}

export type Filter = 'all' | 'problems' | 'waiting' | 'stopped' | 'untried';

export function matches(row: Row, search: string, filter: Filter): boolean {
  if (filter === 'problems' && badnessOf(row) < 0) return false;
  if (filter === 'waiting' && row.now.clients_waiting === 0) return false;
  if (filter === 'stopped' && !row.pool.paused && !row.pool.disabled) return false;
  if (filter === 'untried' && !isUntried(row)) return false;
  if (search === '') return true;
  const { name, database, hosts, user } = row.pool;
  const { state } = row.now.health ?? row.pool.health;
  return [name, database, user ?? '', state, ...hosts].some((text) => text.toLowerCase().includes(search));
}

/** What pools can be grouped by. */
export const GROUPS = ['incident', 'server', 'mode', 'state', 'user'] as const;
export type Group = (typeof GROUPS)[number];

export function groupOf(name: string | null): Group | null {
  return GROUPS.find((group) => group === name) ?? null;
}

/** A line of the overview: a pool, or the head of a group. */
export type Line = { row: Row } | { name: string; pools: number; clients: number; waiting: number; problems: number };

const OF: Record<Exclude<Group, 'incident'>, (row: Row) => string> = {
  server: ({ pool }) => pool.hosts.join(', '),
  mode: ({ pool }) => pool.mode,
  state: ({ pool, now }) => (now.health ?? pool.health)?.state ?? 'unknown',
  user: ({ pool }) => pool.user ?? 'each client’s own',
};

/** Sorted rows in groups, each under its head; those of closed groups are left out. Groups are in the order of their first row.
    `incidentOf`: what a pool's incident is called. */
export function grouped(rows: Row[], by: Group, closed: Set<string>, incidentOf: (pool: string) => string): Line[] {
  const nameOf = by === 'incident' ? ({ pool }: Row) => incidentOf(pool.name) : OF[by];
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    const name = nameOf(row);
    const group = groups.get(name);
    if (group) group.push(row);
    else groups.set(name, [row]);
  }
  return [...groups].flatMap(([name, of]): Line[] => {
    const sum = (figure: (row: Row) => number) => of.reduce((all, row) => all + figure(row), 0);
    const head = {
      name,
      pools: of.length,
      clients: sum(({ now }) => clientsOf(now)),
      waiting: sum(({ now }) => now.clients_waiting),
      problems: sum((row) => Number(badnessOf(row) >= 0)),
    };
    return [head, ...(closed.has(name) ? [] : of.map((row) => ({ row })))];
  });
}
