// One pool, followed: its latest figures, and the past that its graphs show. A history that the server keeps is requested
// first, so that the page does not begin empty; each second is added to it.
import { ApiError, get, poolPath } from './api';
import { follow, shown, type FeedState } from './feed';
import type { Figures, History } from './types';
import { COMPARE, RANGES, spanOf, type View } from './view';

/** How often what has minutes is requested again. */
const REFRESH = 60000;
/** The seconds that are kept, here and by the server. */
const KEPT = RANGES['1h'];

export interface Past {
  at: number[];
  series: Record<string, (number | null)[]>;
}

const EMPTY: Past = { at: [], series: {} };

export class PoolWatch {
  now = $state.raw<Figures | null>(null);
  workers = $state.raw<{ worker: number; cpu: number }[]>([]);
  state = $state<FeedState>('connecting');
  /** Whether the server keeps a history. */
  kept = $state(true);
  past = $state.raw<Past>(EMPTY);
  /** The same part of an earlier day, at the times of this one; what is compared with. */
  earlier = $state.raw<Past>(EMPTY);
  private view: View | null = null;
  private seconds: Past = EMPTY;
  private timer = 0;

  constructor(private name: string) {}

  start(): () => void {
    // An hour is a large answer; the page is there first.
    void shown().then(() => this.loadSeconds());
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

  /** Shows another part of the past. */
  show(view: View) {
    this.view = view;
    clearTimeout(this.timer);
    if (this.bySecond(view)) this.past = this.seconds;
    this.earlier = EMPTY;
    void this.load(view);
  }

  /** Whether the seconds that are kept here are what the view shows. */
  private bySecond({ range, fixed }: View): boolean {
    return fixed ? fixed.from >= Date.now() / 1000 - KEPT : RANGES[range] <= KEPT;
  }

  private async loadSeconds() {
    const past = await this.ask({ range: '1h' });
    if (!past) return;
    this.seconds = joined(past, this.seconds);
    if (this.view && this.bySecond(this.view)) this.past = this.seconds;
  }

  private async load(view: View) {
    const span = spanOf(view);
    const until = view.fixed?.to;
    const range = span <= RANGES['1d'] ? '1d' : '30d';
    if (!this.bySecond(view)) {
      const past = await this.ask({ range, until });
      if (this.view !== view) return;
      if (past) this.past = past;
    }
    if (view.compare) {
      const shift = COMPARE[view.compare];
      const past = await this.ask({ range, until: Math.floor((until ?? Date.now() / 1000) - shift) });
      if (this.view !== view) return;
      if (past) this.earlier = { ...past, at: past.at.map((at) => at + shift) };
    }
    if (!view.fixed && (view.compare || !this.bySecond(view))) this.timer = setTimeout(() => void this.load(view), REFRESH);
  }

  private async ask(query: { range: string; until?: number | undefined }): Promise<Past | null> {
    try {
      const { at, series } = await get<History>(poolPath(this.name, '/history'), query);
      return { at, series: derived(series) };
    } catch (error) {
      if (error instanceof ApiError && error.absent) this.kept = false;
      return null;
    }
  }

  private take(at: number, figures: Figures, cpu: Record<string, number>) {
    this.now = figures;
    const values = Object.entries({ ...flat(figures), ...cpu }).map(([name, value]) => [name, [value]] as [string, [number | null]]);
    const all = derived(Object.fromEntries(values));
    this.seconds = added(this.seconds, at, Object.fromEntries(Object.entries(all).map(([name, [value]]) => [name, value ?? null])));
    if (this.view && !this.view.fixed && this.bySecond(this.view)) this.past = this.seconds;
  }
}

/** With what follows from the other series: servers that run a query, or are pinned, and the longest present wait in the unit of waits. */
function derived(series: Past['series']): Past['series'] {
  const { servers_active: active, servers_idle_in_transaction: idle, servers_pinned: pinned, oldest_wait_seconds: wait } = series;
  const all = { ...series };
  if (active) {
    const used = active.map((value, index) => (value === null ? null : Math.max(0, value - (idle?.[index] ?? 0))));
    // One that is idle in a transaction may be pinned, too.
    const kept = used.map((value, index) => (value === null ? null : Math.min(value, pinned?.[index] ?? 0)));
    all.servers_kept = kept;
    all.servers_running = used.map((value, index) => (value === null ? null : value - (kept[index] ?? 0)));
  }
  if (wait) all.still_waiting_ms = wait.map((value) => (value === null ? null : value * 1000));
  return all;
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
  const from = past.at.length >= KEPT ? 1 : 0;
  const series: Past['series'] = {};
  for (const name of new Set([...Object.keys(past.series), ...Object.keys(values)])) {
    const before = past.series[name] ?? past.at.map(() => null);
    series[name] = [...before.slice(from), values[name] ?? null];
  }
  return { at: [...past.at.slice(from), at], series };
}

/** An older past, and what was received since. */
function joined(older: Past, newer: Past): Past {
  const last = older.at.at(-1) ?? -Infinity;
  let past = older;
  newer.at.forEach((at, index) => {
    if (at <= last) return;
    past = added(past, at, Object.fromEntries(Object.entries(newer.series).map(([name, of]) => [name, of[index] ?? null])));
  });
  return past;
}
