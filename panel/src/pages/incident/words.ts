// The words of the incident page.
import { span } from '../../lib/format';
import type { IncidentClient, Process } from '../../lib/types';

export const TITLES: Record<string, string> = {
  blocked: 'blocked by a lock',
  idle_in_transaction: 'idle in transaction',
  one_application: 'one application has the servers',
  long_queries: 'long queries',
  server_down: 'server down',
  fewer_servers: 'fewer servers than allowed',
};

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

/** What it does, and for how long. */
export function does(process: Process): string {
  const for_ = process.state_seconds === null ? '' : ` for ${span(process.state_seconds)}`;
  if (process.blocked_by.length > 0) return `waits${for_} for process ${process.blocked_by.join(', ')}`;
  if (runs(process)) return `runs a query${for_}`;
  if (process.state) return `${process.state}${for_}`;
  return 'its state is hidden';
}
