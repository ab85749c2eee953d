// Who has a server, and for what, in words.
import { ago } from '../../lib/format';
import { kept } from '../../lib/pins';
import { identifier, quoted } from '../../lib/quote';
import type { Connection } from '../../lib/types';

const WHY: Record<string, string> = {
  copy: 'COPY into the server',
  'replies outstanding': 'waits for replies',
  'in transaction': 'idle in transaction',
  'failed transaction': 'idle in a failed transaction',
  'waiting for Sync': 'batch not ended (no Sync yet)',
};

/** Seconds between a transaction's begin and a query that needs no mention of it. */
const ALONE = 0.001;

/** What is done with a server that somebody has. */
export function doing(server: Connection): string {
  const { query_at: query, transaction_at: begun } = server;
  // A query alone is a transaction, too.
  const transaction = begun && !(query && query - begun < ALONE) ? `${ago(begun)} into its transaction` : '';
  if (query) return [`query running for ${ago(query)}`, transaction].filter(Boolean).join(', ');
  if (server.pinned && !transaction) return `idle, pinned by ${kept(server.pinned)}`;
  if (server.held_for) return [WHY[server.held_for] ?? server.held_for, transaction].filter(Boolean).join(', ');
  return 'idle; session mode keeps it until the client disconnects';
}

/** Who has it. */
export function holder(client: Connection): string {
  return `${client.application_name ? quoted(client.application_name) : 'a client'} of ${identifier(client.user)}`;
}
