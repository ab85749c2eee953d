// Who has a server, and for what, in words.
import { ago } from '../../lib/format';
import type { Connection } from '../../lib/types';

const WHY: Record<string, string> = {
  copy: 'copies into the server',
  'replies outstanding': 'waits for replies',
  'in transaction': 'asks nothing in its transaction',
  'failed transaction': 'has not ended its failed transaction',
  'waiting for Sync': 'has not ended its batch (no Sync yet)',
};

/** Seconds between a transaction's begin and a query that needs no mention of it. */
const ALONE = 0.001;

/** What is done with a server that somebody has. */
export function doing(server: Connection): string {
  const { query_at: query, transaction_at: begun } = server;
  // A query alone is a transaction, too.
  const transaction = begun && !(query && query - begun < ALONE) ? `${ago(begun)} into its transaction` : '';
  if (query) return [`its query runs for ${ago(query)}`, transaction].filter(Boolean).join(', ');
  if (server.held_for) return [WHY[server.held_for] ?? server.held_for, transaction].filter(Boolean).join(', ');
  return 'asks nothing; the mode keeps it until the client leaves';
}

/** Who has it. */
export function holder(client: Connection): string {
  return `${client.application_name || 'a client'} of ${client.user}`;
}
