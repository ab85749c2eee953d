// The last hour of all pools by the minute, for the overview: as one, and of each pool that Weir keeps a history of. The
// current minute is made of the latest figures.
import { get } from './api';
import { every } from './every';
import { shown } from './feed';
import type { Figures, OverviewPast, OverviewSeries } from './types';

const REFRESH = 60_000;
/** Minutes that are shown: the past ones, and the current one. */
export const MINUTES = 60;

/** A minute of a pool, or of all. */
export interface Minute {
  at: number;
  /** Whether anything is known of it. */
  known: boolean;
  active: number;
  idle: number;
  waiting: number;
  /** The most clients and open servers at one moment, where that is known: the others are means, but for the waits. */
  clients: number;
  /** Seconds of the longest wait. */
  longest: number;
  busy: number;
  open: number;
  servers: number;
  tps: number | null;
  problems: number;
}

class Hour {
  private past = $state.raw<OverviewPast | null>(null);
  readonly all = $derived(this.past ? minutes(this.past.at, this.past.all) : []);
  private pools = new Map<string, { of: OverviewPast; minutes: Minute[] }>();

  /** Requested until the answer is called; first when the page has painted what it knows without it. */
  watch(): () => void {
    let [ended, stop] = [false, () => {}];
    void shown().then(() => {
      if (ended) return;
      stop = every(REFRESH, async () => {
        // A Weir that has none shows the present alone.
        this.past = await get<OverviewPast>('history', { range: '1h' }).catch(() => this.past);
      });
    });
    return () => {
      ended = true;
      stop();
    };
  }

  /** A pool's minutes, the oldest first; none where no history is kept of it. */
  of(pool: string): Minute[] {
    const { past } = this;
    const series = past?.pools[pool];
    if (!past || !series) return [];
    const kept = this.pools.get(pool);
    if (kept?.of === past) return kept.minutes;
    const made = minutes(past.at, series);
    this.pools.set(pool, { of: past, minutes: made });
    return made;
  }
}

function minutes(times: number[], series: OverviewSeries): Minute[] {
  return times.map((at, index) => {
    const of = (name: string) => series[name]?.[index] ?? 0;
    const active = series.clients_active?.[index] ?? null;
    return {
      at,
      known: active !== null,
      active: active ?? 0,
      idle: of('clients_idle'),
      clients: series.clients_peak?.[index] ?? (active ?? 0) + of('clients_idle') + of('clients_waiting'),
      waiting: of('clients_waiting'),
      longest: of('oldest_wait_seconds'),
      busy: of('servers_active'),
      open: of('servers_active') + of('servers_idle'),
      servers: series.servers_peak?.[index] ?? of('servers_active') + of('servers_idle'),
      tps: series.transactions_per_second?.[index] ?? null,
      problems: of('problems'),
    };
  }).slice(1 - MINUTES);
}

/** The latest figures as the current minute. */
export function nowAs(figures: Figures, problems: number): Minute {
  return {
    at: Date.now() / 1000,
    known: true,
    active: figures.clients_active,
    idle: figures.clients_idle,
    clients: figures.clients_active + figures.clients_idle + figures.clients_waiting,
    waiting: figures.clients_waiting,
    longest: figures.oldest_wait_seconds,
    busy: figures.servers_active,
    open: figures.servers_active + figures.servers_idle,
    servers: figures.servers_active + figures.servers_idle,
    tps: figures.transactions_per_second,
    problems,
  };
}

export const hour = new Hour();
