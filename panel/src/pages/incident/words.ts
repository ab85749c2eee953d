// The words of the incident page.
import { kept } from '../../lib/pins';
import { identifier, quoted } from '../../lib/quote';
import type { IncidentClient, Process } from '../../lib/types';

export function waiter(client: IncidentClient): string {
  const name = client.application_name ? quoted(client.application_name) : 'a client';
  return `${name} of ${identifier(client.user)} at ${client.address}${client.address === 'unix' ? '' : `:${client.port}`}`;
}

/** Who a backend works for. */
export function owner(process: Process): string {
  if (process.client) return waiter(process.client);
  if (process.process_id === 0) return 'a prepared transaction (pg_prepared_xacts lists them)';
  const name = process.application_name ? quoted(process.application_name) : process.user ? 'a client' : 'a process of the server';
  return `${name}${process.user ? ` of ${identifier(process.user)}` : ''}${process.address ? ` at ${process.address}` : ''}, not a client of this pool`;
}

export const runs = (process: Process) => process.state === 'active';

/** 0 is a prepared transaction, which has no process. */
function holders(blockedBy: number[]): string {
  const processes = blockedBy.filter((id) => id !== 0);
  const [first, ...others] = processes;
  const parts = first === undefined ? [] : [`process ${first}${others.length > 0 ? ` and ${others.length} more` : ''}`];
  if (blockedBy.includes(0)) parts.push('a prepared transaction');
  return parts.join(' and ');
}

/** A backend of a pool's server, and how many queries are behind it where it holds a lock. */
export interface Backend {
  pool: string;
  process: Process;
  blocks: number | null;
}

/** Whether its client sends nothing in a transaction. */
export const idles = (process: Process) => process.state?.startsWith('idle in transaction') ?? false;

/** How long it does what it does, in seconds. */
export const age = (process: Process) => process.pinned_idle_seconds ?? process.state_seconds ?? process.transaction_seconds ?? 0;

export function application(process: Process): string {
  if (process.process_id === 0) return 'prepared transaction';
  return (process.client?.application_name ?? process.application_name) || 'no name';
}

/** What it does. */
export function does(process: Process): string {
  if (process.blocked_by.length > 0) return `waits for ${holders(process.blocked_by)}`;
  if (process.pinned && process.pinned_idle_seconds !== null) return `idle, pinned by ${kept(process.pinned)}`;
  if (runs(process)) return process.waits_for ? `runs, waits for ${process.waits_for}` : 'runs a query';
  if (process.state) return process.state;
  return process.process_id === 0 ? 'prepared, without a session' : 'hidden from this user';
}
