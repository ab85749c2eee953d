// Figures as they come: the stream of events where it is to be had, else the pools requested again and again, with rates
// made of what was counted between two answers.
import { ApiError, get, poolPath } from './api';
import { health } from './health.svelte';
import type { Event, Figures, Pool, PoolPage } from './types';

export type FeedState = 'connecting' | 'live' | 'polling' | 'lost';
export type Take = (event: Event) => void;

/** Pools of a page. The first has what a screen shows, and early.js has requested it. */
const FIRST = 50;
const PAGE = 1000;
/** Of more pools than these, events have the busiest; the list, which is requested now and then, has the others. */
const BUSIEST = 500;
/** Between two rounds of questions, and how much longer than a round took at least. */
const PAUSE = 2000;
const PATIENCE = 4;
/** Before a stream that was refused is requested again. */
const RETRY = 15000;

interface Follow {
  /** One pool, or all. */
  pool: string | null;
  /** Of all, how many are listed at most. */
  limit?: number;
  take: Take;
  state: (state: FeedState) => void;
}

/** Follows figures until the answer is called. Nothing is requested while the page is out of sight. */
export function follow({ pool, limit = BUSIEST, take, state }: Follow): () => void {
  let stop = () => {};
  const start = () => {
    stop();
    health.begin();
    stop = document.hidden ? () => {} : stream({ pool, limit, take: (event) => (health.take(event), take(event)), state });
  };
  document.addEventListener('visibilitychange', start);
  start();
  return () => {
    document.removeEventListener('visibilitychange', start);
    stop();
  };
}

function stream(follow: Follow): () => void {
  const query = follow.pool === null ? `?limit=${follow.limit ?? BUSIEST}` : `?pool=${encodeURIComponent(follow.pool)}`;
  const source = new EventSource(`api/v1/events${query}`);
  let after = () => {};
  follow.state('connecting');
  source.addEventListener('figures', (event) => {
    follow.state('live');
    follow.take(JSON.parse((event as MessageEvent<string>).data) as Event);
  });
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) {
      // It was there and broke off; the browser comes again by itself, and each try that fails comes here.
      health.broke();
      return;
    }
    const poll = polled(follow);
    const again = setTimeout(() => {
      poll();
      after = stream(follow);
    }, RETRY);
    after = () => {
      clearTimeout(again);
      poll();
    };
  };
  return () => {
    source.close();
    after();
  };
}

function polled({ pool, take, state }: Follow): () => void {
  let ended = false;
  let timer = 0;
  let before = new Map<string, { pool: Pool; at: number }>();
  const round = async () => {
    const begun = performance.now();
    try {
      const pools: Pool[] = [];
      if (pool === null) await eachPage((page) => pools.push(...page));
      else pools.push(await get<Pool>(poolPath(pool)));
      if (ended) return;
      const at = performance.now() / 1000;
      const figures = pools.map((now) => [now.name, figuresOf(now, at, before.get(now.name))] as const);
      before = new Map(pools.map((now) => [now.name, { pool: now, at }]));
      state('polling');
      const problems = pools.filter((now) => now.health?.problem).map((now) => ({ pool: now.name, health: now.health }));
      take({ at: Date.now() / 1000, pools: Object.fromEntries(figures), problems });
    } catch (error) {
      if (ended) return;
      const gone = !(error instanceof ApiError && error.status === 404);
      state(gone ? 'lost' : 'polling');
      if (gone) health.broke();
    }
    timer = setTimeout(round, Math.max(PAUSE, PATIENCE * (performance.now() - begun)));
  };
  void round();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

/** When the page has painted what it knows. Nothing is painted out of sight. */
export function shown(): Promise<void> {
  if (document.hidden) return Promise.resolve();
  return new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}

/** All pools, page by page, by name. */
export async function eachPage(take: (pools: Pool[]) => void, signal?: AbortSignal) {
  let after: string | null = '';
  let limit = FIRST;
  while (after !== null) {
    const page: PoolPage = await get<PoolPage>('pools', { after, limit }, signal);
    take(page.pools);
    after = page.next;
    // What is there is shown before more of it comes.
    if (after !== null && limit === FIRST) await shown();
    limit = PAGE;
  }
}

/** What one answer says, and, with the one before, what was done in between. */
export function figuresOf(pool: Pool, at: number, before?: { pool: Pool; at: number }): Figures {
  const since = (total: (pool: Pool) => number) => {
    if (!before) return null;
    // Less than before: the process was started anew.
    return Math.max(0, total(pool) - total(before.pool)) / Math.max(0.001, at - before.at);
  };
  const linked = Math.min(pool.clients.active, pool.servers.active);
  return {
    clients_active: linked,
    clients_idle: pool.clients.active - linked,
    clients_waiting: pool.clients.waiting,
    servers_active: pool.servers.active + pool.servers.canceling + pool.servers.tested,
    servers_idle: pool.servers.idle + pool.servers.used,
    servers_login: pool.servers.login,
    servers_pinned: pool.pinned?.clients ?? null,
    oldest_wait_seconds: pool.longest_wait_seconds,
    health: pool.health,
    transactions_per_second: since(({ totals }) => totals.transactions),
    queries_per_second: since(({ totals }) => totals.queries),
  };
}
