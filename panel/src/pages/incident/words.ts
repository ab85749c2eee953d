// The words of the incident page.
import { span } from '../../lib/format';
import { kept } from '../../lib/pins';
import type { IncidentClient, Process } from '../../lib/types';

export function waiter(client: IncidentClient): string {
  return `${client.application_name || 'a client'} of ${client.user} at ${client.address}${client.address === 'unix' ? '' : `:${client.port}`}`;
}

/** Who a backend works for. */
export function owner(process: Process): string {
  if (process.client) return waiter(process.client);
  if (process.process_id === 0) return 'a prepared transaction (pg_prepared_xacts lists them)';
  const name = process.application_name || (process.user ? 'a client' : 'a process of the server');
  return `${name}${process.user ? ` of ${process.user}` : ''}${process.address ? ` at ${process.address}` : ''}, not a client of this pool`;
}

export const runs = (process: Process) => process.state === 'active';

/** 0 is a prepared transaction, which has no process. */
function holders(blockedBy: number[]): string {
  const processes = blockedBy.filter((id) => id !== 0);
  const parts = processes.length > 0 ? [`process ${processes.join(', ')}`] : [];
  if (blockedBy.includes(0)) parts.push('a prepared transaction');
  return parts.join(' and ');
}

/** What it does, and for how long. */
export function does(process: Process): string {
  const for_ = process.state_seconds === null ? '' : ` for ${span(process.state_seconds)}`;
  if (process.blocked_by.length > 0) return `waits${for_} for ${holders(process.blocked_by)}`;
  if (process.pinned && process.pinned_idle_seconds !== null) return `pinned by ${kept(process.pinned)}, idle for ${span(process.pinned_idle_seconds)}`;
  if (runs(process)) return `runs a query${for_}`;
  if (process.state) return `${process.state}${for_}`;
  return process.process_id === 0 ? 'prepared, without a session' : 'its state is hidden';
}
