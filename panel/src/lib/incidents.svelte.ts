// The causes of what is broken now, for every page: the bar on top, the page of incidents, the window's title. Asks for the
// list of pools where events have too little: which server a pool has, and all problems of very many.
import { causesOf, type Cause } from './causes';
import { health } from './health.svelte';
import { pools } from './pools.svelte';
import type { Problem } from './types';

/** Between two requests for the list, in milliseconds. */
const AGAIN = 5000;

/** One that has ended. */
export interface Over {
  title: string;
  state: string;
  at: number;
  seconds: number;
}

/** It was over when it was last seen, and not when its state ended. */
const overAt = ({ title, state, since }: Cause, at: number): Over => ({ title, state, at, seconds: Math.max(0, at - (since ?? at)) });

class Incidents {
  /** Whether there are more problems than events have. */
  private cut = $derived(health.brokenPools > health.problems.length);
  readonly problems = $derived(this.cut ? this.all() : health.problems);
  readonly causes: Cause[] = $derived(causesOf(this.problems, health.faults, (pool) => this.serverOf(pool)));
  readonly bad = $derived(this.causes.filter(({ ink }) => ink === 'bad'));
  /** The last one that has ended since the page was opened, while there is none now. */
  over = $state.raw<Over | null>(null);
  private asked = 0;

  /** Keeps what the causes need up to date, until the answer is called. */
  watch(): () => void {
    return $effect.root(() => {
      $effect(() => this.fill());
      let before: Cause | null = null;
      $effect(() => {
        const [first] = this.bad;
        if (first) this.over = null;
        else if (before && !health.stale) this.over = overAt(before, before.unseen ?? health.last);
        before = first ?? null;
      });
    });
  }

  private serverOf(pool: string): string {
    // Rows are replaced when the list has come.
    void pools.rows;
    return pools.get(pool)?.hosts.join(', ') ?? '';
  }

  /** The list's, and what events have of the first of them. */
  private all(): Problem[] {
    const sent = new Map(health.problems.map((problem) => [problem.pool, problem]));
    const others = pools.rows.flatMap(({ pool, now }) => {
      const of = now.health ?? pool.health;
      return of.problem && !sent.has(pool.name) ? [{ pool: pool.name, health: of }] : [];
    });
    return [...health.problems, ...others];
  }

  private fill() {
    const unknown = health.problems.some(({ pool }) => pools.get(pool) === null);
    if ((!unknown && !this.cut) || Date.now() - this.asked < AGAIN) return;
    this.asked = Date.now();
    void pools.refresh();
  }
}

export const incidents = new Incidents();
