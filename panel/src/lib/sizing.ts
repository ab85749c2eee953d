// What helps to choose a pool's size: the server's machine, for rules of thumb, and what load has needed.
import { get, poolPath } from './api';
import type { History } from './types';

/** The machine of the server, as whoever sizes pools on it has said; kept in the browser by host. */
export interface Machine {
  cores: string;
  gigabytes: string;
}

const key = (host: string) => `weir-machine ${host}`;

export function machineOf(host: string): Machine {
  try {
    return { cores: '', gigabytes: '', ...JSON.parse(localStorage.getItem(key(host)) ?? '{}') };
  } catch {
    return { cores: '', gigabytes: '' };
  }
}

export function keepMachine(host: string, machine: Machine) {
  try {
    localStorage.setItem(key(host), JSON.stringify(machine));
  } catch {
    // It holds for this page then.
  }
}

/** So many servers, by so many transactions a second that took so many milliseconds each. */
export interface Needed {
  size: number;
  tps: number;
  ms: number;
}

/** Little's law: transactions a second times the seconds that one lasts are the servers that are busy at once. The most of
    the last day; null where nothing was measured. */
export async function needed(pool: string): Promise<Needed | null> {
  const history = await get<History>(poolPath(pool, '/history'), { range: '1d' }).catch(() => null);
  if (!history) return null;
  const tps = history.series.transactions_per_second ?? [];
  const ms = history.series.transaction_ms_mean ?? [];
  let most: Needed | null = null;
  tps.forEach((rate, index) => {
    const lasts = ms[index];
    if (rate === null || lasts === null || lasts === undefined) return;
    const size = Math.ceil((rate * lasts) / 1000);
    if (size > 0 && size > (most?.size ?? 0)) most = { size, tps: rate, ms: lasts };
  });
  return most;
}
