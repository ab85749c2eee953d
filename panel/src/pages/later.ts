// The pages that are fetched when they are wanted, or when nothing else is to be done: most come for the overview, which is
// part of the beginning.
import type { Component } from 'svelte';

type Page<Props extends Record<string, unknown>> = Promise<{ default: Component<Props> }>;
type Plain = Record<string, never>;

export const later = {
  advice: (): Page<Plain> => import('./Advice.svelte'),
  incidents: (): Page<Plain> => import('./Incidents.svelte'),
  statements: (): Page<Plain> => import('./Statements.svelte'),
  databases: (): Page<Plain> => import('./Databases.svelte'),
  cluster: (): Page<Plain> => import('./Cluster.svelte'),
  users: (): Page<Plain> => import('./Users.svelte'),
  newUser: (): Page<Plain> => import('./NewUser.svelte'),
  user: (): Page<{ name: string }> => import('./User.svelte'),
  audit: (): Page<Plain> => import('./Audit.svelte'),
  history: (): Page<Plain> => import('./History.svelte'),
  alerts: (): Page<Plain> => import('./Alerts.svelte'),
  log: (): Page<Plain> => import('./Log.svelte'),
  lab: (): Page<Plain> => import('./Lab.svelte'),
  settings: (): Page<Plain> => import('./Settings.svelte'),
  docs: (): Page<Plain> => import('./Docs.svelte'),
  pool: (): Page<{ name: string; tab: string }> => import('./Pool.svelte'),
  form: (): Page<{ name: string | null }> => import('./PoolForm.svelte'),
};

/** Fetches all of them, so that none has to be waited for. What fails is fetched again when it is wanted. */
export function prefetch() {
  for (const page of Object.values(later)) page().catch(() => {});
}
