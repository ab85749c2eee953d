// Incidents that are over or last, as Weir remembers them, and links to one of them.
import { to } from './router.svelte';
import type { Affected } from './types';

export interface PastIncident {
  id: number;
  what: string;
  pools: string[];
  pools_total: number;
  cause: string;
  advice: string;
  since: number;
  until: number | null;
  lasts: boolean;
  clients: number;
  affected: Affected[];
  /** What changed in the hour before, but for the configuration. */
  changed: { kind: 'upgrade' | 'deployment' | 'load'; at: number; text: string }[];
}

/** What a link leads to: an incident, or the one of a moment. */
export interface Aim {
  id: number | null;
  /** Seconds since 1970. */
  at: number | null;
}

/** Minutes are shown as a whole. */
const NEAR = 60;

export const toIncident = (id: number) => `${to('incidents')}?incident=${id}`;

/** The incident of a pool, or of any, at a moment. */
export function toIncidentAt(pool: string | null, at: number): string {
  const query = new URLSearchParams({ ...(pool === null ? {} : { pool }), at: String(Math.floor(at)) });
  return `${to('incidents')}?${query}`;
}

/** What the address leads to; none where it leads to no single incident. */
export function aimOf(query: URLSearchParams): Aim | null {
  const number = (name: string) => (query.has(name) ? Number(query.get(name)) : null);
  const aim = { id: number('incident'), at: number('at') };
  return aim.id === null && aim.at === null ? null : aim;
}

/** The incident that is meant: that with the number, or the newest of the moment. */
export function aimed(list: PastIncident[], { id, at }: Aim): PastIncident | null {
  if (id !== null) return list.find((one) => one.id === id) ?? null;
  const lasted = ({ since, until, lasts }: PastIncident) => at !== null && since <= at + NEAR && (lasts || (until ?? since) + NEAR >= at);
  return list.find(lasted) ?? null;
}
