// The overview's columns: what each sorts by. Ties go by name, so that rows keep their places.
import type { Row } from './pools.svelte';
import type { Figures } from './types';

export type Column = 'name' | 'mode' | 'clients' | 'waiting' | 'servers' | 'wait' | 'tps';

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
  tps: (row) => row.now.transactions_per_second ?? -1,
};

export function isColumn(name: string | null): name is Column {
  return name !== null && name in KEYS;
}

/** Words sort upwards at first, figures downwards: what is asked for is what is large. */
export function startsDown(column: Column): boolean {
  return column !== 'name' && column !== 'mode';
}

/** Problems come before all else, the worst first. */
const WORST = ['saturated', 'stalled', 'cannot connect', 'login rejected'];
function badness({ pool, now }: Row): number {
  return WORST.indexOf((now.health ?? pool.health)?.state ?? '');
}

export function sorted(rows: Row[], column: Column, down: boolean): Row[] {
  const key = KEYS[column];
  const sign = down ? -1 : 1;
  const compare = (a: string | number, b: string | number) => (a < b ? -1 : a > b ? 1 : 0);
  const keyed = rows.map((row) => [key(row), row, badness(row)] as const);
  keyed.sort(([a, one, bad], [b, other, worse]) => worse - bad || sign * compare(a, b) || compare(one.pool.name, other.pool.name));
  return keyed.map(([, row]) => row);
}

export type Filter = 'all' | 'problems' | 'waiting' | 'stopped';

export function matches(row: Row, search: string, filter: Filter): boolean {
  if (filter === 'problems' && badness(row) < 0) return false;
  if (filter === 'waiting' && row.now.clients_waiting === 0) return false;
  if (filter === 'stopped' && !row.pool.paused && !row.pool.disabled) return false;
  if (search === '') return true;
  const { name, database, hosts, user } = row.pool;
  return [name, database, user ?? '', ...hosts].some((text) => text.toLowerCase().includes(search));
}
