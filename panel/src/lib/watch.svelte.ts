// One pool, followed: its latest figures, and the past that its graphs show. A history that the server keeps is asked for
// first, so that the page does not begin empty; each second is added to it.
import { ApiError, get, poolPath } from './api';
import { follow, shown, type FeedState } from './feed';
import type { Figures, History } from './types';

export type Range = 'live' | '1h' | '1d' | '30d';

/** Seconds that each range shows. */
export const SPAN: Record<Range, number> = { live: 300, '1h': 3600, '1d': 86400, '30d': 30 * 86400 };
/** How often a range of minutes is asked for anew. */
const REFRESH = 60000;

export interface Past {
  at: number[];
  series: Record<string, (number | null)[]>;
}

const EMPTY: Past = { at: [], series: {} };

export class PoolWatch {
  now = $state.raw<Figures | null>(null);
  workers = $state.raw<{ worker: number; cpu: number }[]>([]);
  state = $state<FeedState>('connecting');
  range = $state<Range>('live');
  /** Whether the server keeps a history. */
  kept = $state(true);
  past = $state.raw<Past>(EMPTY);
  private seconds: Past = EMPTY;
  private timer = 0;

  constructor(private name: string) {}

  start(): () => void {
    // An hour is a large answer; the page is there first.
    void shown().then(() => this.load('1h'));
    const stop = follow({
      pool: this.name,
      take: ({ at, pools, workers }) => {
        this.workers = workers ?? [];
        const figures = pools[this.name];
        if (figures) this.take(at, figures, cpuOf(this.workers));
      },
      state: (state) => (this.state = state),
    });
    return () => {
      stop();
      clearTimeout(this.timer);
    };
  }

  choose(range: Range) {
    this.range = range;
    clearTimeout(this.timer);
    if (range === 'live' || range === '1h') this.past = this.seconds;
    else void this.load(range);
  }

  private async load(range: '1h' | '1d' | '30d') {
    try {
      const { at, series } = await get<History>(poolPath(this.name, '/history'), { range });
      if (range === '1h') this.seconds = joined({ at, series }, this.seconds);
      if (range !== '1h' && this.range !== range) return;
      this.past = range === '1h' ? this.seconds : { at, series };
    } catch (error) {
      if (error instanceof ApiError && error.absent) this.kept = false;
    }
    if (range !== '1h') this.timer = setTimeout(() => void this.load(range), REFRESH);
  }

  private take(at: number, figures: Figures, cpu: Record<string, number>) {
    this.now = figures;
    this.seconds = added(this.seconds, at, { ...flat(figures), ...cpu });
    if (this.range === 'live' || this.range === '1h') this.past = this.seconds;
  }
}

/** `wait_ms: {p95}` as the series `wait_ms_p95`, as the history has it. */
function flat(figures: Figures): Record<string, number | null> {
  const values: Record<string, number | null> = {};
  for (const [name, value] of Object.entries(figures)) {
    if (name === 'errors' || name === 'health') continue;
    if (value === null || typeof value === 'number') values[name] = value;
    else for (const [part, number] of Object.entries(value as Record<string, number | null>)) values[`${name}_${part}`] = number;
  }
  return values;
}

/** The workers' part of each second: theirs, the most, and the mean. No history has it, as it is no pool's. */
function cpuOf(workers: { worker: number; cpu: number }[]): Record<string, number> {
  if (workers.length === 0) return {};
  const each = workers.map(({ worker, cpu }) => [`worker_${worker}`, cpu] as const);
  const cpus = workers.map(({ cpu }) => cpu);
  const mean = cpus.reduce((sum, cpu) => sum + cpu, 0) / cpus.length;
  return { ...Object.fromEntries(each), workers_busiest: Math.max(...cpus), workers_mean: mean };
}

function added(past: Past, at: number, values: Record<string, number | null>): Past {
  const last = past.at.at(-1);
  if (last !== undefined && at <= last) return past;
  const from = past.at.length >= SPAN['1h'] ? 1 : 0;
  const series: Past['series'] = {};
  for (const name of new Set([...Object.keys(past.series), ...Object.keys(values)])) {
    const before = past.series[name] ?? past.at.map(() => null);
    series[name] = [...before.slice(from), values[name] ?? null];
  }
  return { at: [...past.at.slice(from), at], series };
}

/** An older past, and what was heard since. */
function joined(older: Past, newer: Past): Past {
  const last = older.at.at(-1) ?? -Infinity;
  let past = older;
  newer.at.forEach((at, index) => {
    if (at <= last) return;
    past = added(past, at, Object.fromEntries(Object.entries(newer.series).map(([name, of]) => [name, of[index] ?? null])));
  });
  return past;
}
