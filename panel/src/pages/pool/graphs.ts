// The graphs of a pool's page: what each shows, by the names that events and history have. Graph.svelte draws them.
import { count, milliseconds, percent, rate } from '../../lib/format';
import type { Line } from '../../parts/graph';

export interface Graphed {
  title: string;
  show: (value: number | null | undefined) => string;
  least?: number;
  /** Whether the pool's size is drawn as a level. */
  size?: boolean;
  /** Whether the lines stand on each other. */
  stack?: boolean;
  /** Lines of which nothing is known, now or ever, are left out, and a graph without lines too. */
  lines: Line[];
}

const percentiles = (name: string): Line[] => [
  { name: `${name}_p50`, label: 'p50', ink: 'idle' },
  { name: `${name}_p95`, label: 'p95', ink: 'accent' },
  { name: `${name}_p99`, label: 'p99', ink: 'text' },
];

/** The four that tell first how a pool is. */
export const FIRST: Graphed[] = [
  {
    title: 'Clients',
    show: count,
    least: 4,
    stack: true,
    lines: [
      { name: 'clients_active', label: 'with a server', ink: 'busy' },
      { name: 'clients_waiting', label: 'waiting', ink: 'wait' },
      { name: 'clients_idle', label: 'idle', ink: 'idle' },
    ],
  },
  {
    title: 'Servers',
    show: count,
    least: 4,
    size: true,
    stack: true,
    lines: [
      { name: 'servers_running', label: 'busy', ink: 'busy' },
      { name: 'servers_kept', label: 'pinned', ink: 'accent' },
      { name: 'servers_idle_in_transaction', label: 'idle in transaction', ink: 'wait' },
      { name: 'servers_login', label: 'logging in', ink: 'login' },
      { name: 'servers_idle', label: 'idle', ink: 'idle' },
    ],
  },
  {
    title: 'Wait for a server',
    show: milliseconds,
    least: 1,
    lines: [
      { name: 'still_waiting_ms', label: 'still waiting, longest', ink: 'wait', fill: true },
      { name: 'wait_ms_p95', label: 'p95', ink: 'accent' },
    ],
  },
  {
    title: 'Errors per second',
    show: rate,
    least: 2,
    lines: [
      { name: 'errors_per_second', label: 'server errors', ink: 'bad', fill: true },
      { name: 'refusals_per_second', label: 'refused clients', ink: 'bad', dash: true },
    ],
  },
];

export const MORE: Graphed[] = [
  {
    title: 'Throughput',
    show: rate,
    least: 5,
    lines: [
      { name: 'queries_per_second', label: 'queries', ink: 'idle' },
      // Above the other: often there are as many.
      { name: 'transactions_per_second', label: 'transactions', ink: 'accent', fill: true },
    ],
  },
  { title: 'Waits by percentile', show: milliseconds, lines: percentiles('wait_ms') },
  { title: 'Transaction duration', show: milliseconds, lines: percentiles('transaction_ms') },
  { title: 'Query duration', show: milliseconds, lines: percentiles('query_ms') },
  {
    title: 'Idle in transaction',
    show: percent,
    least: 0.2,
    lines: [{ name: 'idle_in_transaction_share', label: 'idle in transaction', ink: 'wait', fill: true }],
  },
  {
    title: 'Statement cache',
    show: percent,
    least: 1,
    lines: [{ name: 'statement_hit_share', label: 'found on the server', ink: 'busy', fill: true }],
  },
  {
    title: 'Connections per second',
    show: rate,
    lines: [
      { name: 'logins_per_second', label: 'client logins', ink: 'busy' },
      { name: 'connects_per_second', label: 'server connections', ink: 'login' },
    ],
  },
];

/** So many workers have a line each. */
const FEW = 4;
const INKS = ['accent', 'login', 'text', 'idle'];

/** Of many workers the busiest, and all of them on average. */
export function workersGraph(workers: number): Graphed {
  const each = (worker: number): Line => ({ name: `worker_${worker}`, label: `worker ${worker}`, ink: INKS[worker] ?? 'idle' });
  const lines: Line[] = workers <= FEW
    ? Array.from({ length: workers }, (_, worker) => each(worker))
    : [{ name: 'workers_busiest', label: 'the busiest', ink: 'text' }, { name: 'workers_mean', label: `mean of ${workers}`, ink: 'accent' }];
  return { title: 'CPU of Weir’s workers', show: percent, least: 1, lines };
}
