// All pools, for the overview and whatever needs their names: the list, the latest figures, and a minute of each one's past.
// Rows are plain objects in an array that is replaced at each beat: ten thousand of them must not be watched one by one.
import { ApiError, get } from './api';
import { eachPage, figuresOf, follow, shown, type FeedState } from './feed';
import type { Event, Figures, OverviewPast, Pool } from './types';

/** Beats that a small graph shows. */
export const PAST = 60;
/** How often settings and states are requested beside the stream, which has only figures. */
const REFRESH = 15000;

/** Between two looks at a list that is still coming, in milliseconds. */
const LOOK = 500;

export interface Row {
  pool: Pool;
  now: Figures;
  /** Transactions a second, oldest first; null where it is not known. */
  tps: (number | null)[];
  /** The list's round in which an event last had it. */
  reported: number;
}

class Pools {
  rows = $state.raw<Row[]>([]);
  /** All of them as one, where events tell. */
  all = $state.raw<Figures | null>(null);
  state = $state<FeedState>('connecting');
  /** Whether all pages have come once. */
  complete = $state(false);
  error = $state<ApiError | null>(null);

  private known = new Map<string, Row>();
  private users = 0;
  private round = 0;
  private asking: Promise<void> | null = null;
  private stop = () => {};
  private begin = () => {};
  /** When the first of them have come, or an error instead. */
  readonly begun = new Promise<void>((done) => (this.begin = done));
  private shown = () => {};
  /** When the first of them are on the screen. */
  private some = new Promise<void>((done) => (this.shown = done));

  /** What is known of one. */
  get(name: string): Pool | null {
    return this.known.get(name)?.pool ?? null;
  }

  /** A row with its latest figures, wherever it is shown. */
  latest(row: Row): Row {
    return this.known.get(row.pool.name) ?? row;
  }

  /** Follows while somebody looks; call the answer when they don't any more. */
  watch(): () => void {
    this.users += 1;
    if (this.users === 1) this.start();
    return () => {
      this.users -= 1;
      if (this.users === 0) this.stop();
    };
  }

  /** Asks for the list again, as after a change. */
  refresh(): Promise<void> {
    const asked = this.ask();
    this.asking = asked;
    return asked.finally(() => {
      if (this.asking === asked) this.asking = null;
    });
  }

  private async ask() {
    const seen = new Set<string>();
    let next = 0;
    this.round += 1;
    try {
      await eachPage((pools) => {
        pools.forEach((pool) => seen.add(pool.name));
        this.merge(pools);
        // Each look at what there is so far costs a little of the time to the whole.
        if (!this.complete && performance.now() > next) {
          this.publish();
          this.begin();
          next = performance.now() + LOOK;
        }
        void shown().then(this.shown);
      });
      for (const name of this.known.keys()) if (!seen.has(name)) this.known.delete(name);
      this.complete = true;
      this.error = null;
      this.publish();
      this.begin();
    } catch (error) {
      this.begin();
      if (error instanceof ApiError) this.error = error;
      else throw error;
    }
  }

  private start() {
    let stopped = false;
    let unfollow = () => {};
    const timer = setInterval(() => {
      if (!document.hidden) void this.refresh();
    }, REFRESH);
    // Figures are requested once there is something to show them at.
    void Promise.race([this.asking ?? this.refresh(), this.some]).then(() => {
      if (stopped) return;
      void this.fill();
      unfollow = follow({
        pool: null,
        take: (event) => this.take(event),
        state: (state) => (this.state = state),
      });
    });
    this.stop = () => {
      stopped = true;
      clearInterval(timer);
      unfollow();
    };
  }

  /** What was measured before the page was there, so that small graphs begin full. */
  private async fill() {
    const past = await get<OverviewPast>('history', { range: '1m' }).catch(() => null);
    for (const [name, series] of Object.entries(past?.pools ?? {})) {
      const row = this.known.get(name);
      const before = series.transactions_per_second ?? [];
      if (row && row.tps.length < PAST) this.known.set(name, { ...row, tps: [...before, ...row.tps].slice(-PAST), reported: this.round });
    }
    this.publish();
  }

  private merge(pools: Pool[]) {
    for (const pool of pools) {
      const row = this.known.get(pool.name);
      // Of very many pools, events tell of the busiest only; the others' figures are those of the list.
      const reported = row !== undefined && row.reported >= this.round - 1;
      const now = reported ? row.now : figuresOf(pool, 0);
      this.known.set(pool.name, { pool, now, tps: reported ? row.tps : [], reported: row?.reported ?? -1 });
    }
  }

  private take({ pools, all }: Event) {
    let strangers = false;
    this.all = all ?? null;
    for (const [name, now] of Object.entries(pools)) {
      const row = this.known.get(name);
      if (!row) {
        strangers = true;
        continue;
      }
      const tps = [...row.tps.slice(1 - PAST), now.transactions_per_second];
      this.known.set(name, { ...row, now, tps, reported: this.round });
    }
    if (strangers && this.complete && !this.asking) void this.refresh();
    this.publish();
  }

  private publish() {
    this.rows = [...this.known.values()];
  }
}

export const pools = new Pools();
