// The keys of a pool's table in weir.toml as a form has them: texts in fields, values in requests. docs/settings.md says
// what each means; the server judges them.
import type { PoolConfig } from './types';

export type Kind = 'text' | 'number' | 'time' | 'list' | 'numbers' | 'yesno' | 'secret' | string[];

export interface Key {
  key: string;
  label: string;
  kind: Kind;
  hint: string;
  /** The process's setting that holds where nothing is given, as SHOW CONFIG names it. */
  setting?: string;
}

export const KEYS: Key[] = [
  { key: 'host', label: 'Host', kind: 'list', hint: 'An address, a name, or a socket’s folder; several with commas.' },
  { key: 'port', label: 'Port', kind: 'numbers', hint: '' },
  { key: 'database', label: 'Database', kind: 'text', hint: 'On the server. The pool’s name, if empty.' },
  { key: 'user', label: 'User', kind: 'text', hint: '' },
  { key: 'password', label: 'Password', kind: 'secret', hint: '' },
  { key: 'mode', label: 'Mode', kind: ['session', 'transaction', 'statement'], hint: '', setting: 'pool_mode' },
  { key: 'size', label: 'Size', kind: 'number', hint: '', setting: 'default_pool_size' },
];

export const GROUPS: { title: string; keys: Key[] }[] = [
  {
    title: 'How many',
    keys: [
      { key: 'min_size', label: 'Kept open', kind: 'number', hint: 'Servers that stay open even when idle.', setting: 'min_pool_size' },
      { key: 'reserve_size', label: 'Reserve', kind: 'number', hint: 'Servers beyond the size, for those who have waited long.', setting: 'reserve_pool_size' },
      { key: 'reserve_timeout', label: 'Reserve after', kind: 'time', hint: 'A wait of this long opens the reserve.', setting: 'reserve_pool_timeout' },
      { key: 'max_db_connections', label: 'Most of the database', kind: 'number', hint: 'Servers of this database over all users; 0 is any number.', setting: 'max_db_connections' },
      { key: 'max_db_client_connections', label: 'Most clients', kind: 'number', hint: 'Clients of this database over all users; 0 is any number.', setting: 'max_db_client_connections' },
    ],
  },
  {
    title: 'How long',
    keys: [
      { key: 'query_wait_timeout', label: 'Wait at most', kind: 'time', hint: 'Then a client that waits for a server is refused.', setting: 'query_wait_timeout' },
      { key: 'query_timeout', label: 'Query at most', kind: 'time', hint: 'Then client and server are disconnected; 0 is any time.', setting: 'query_timeout' },
      { key: 'transaction_timeout', label: 'Transaction at most', kind: 'time', hint: 'As above, of a whole transaction.', setting: 'transaction_timeout' },
      { key: 'idle_transaction_timeout', label: 'Idle in transaction at most', kind: 'time', hint: 'As above, while nothing is asked.', setting: 'idle_transaction_timeout' },
      { key: 'client_idle_timeout', label: 'Idle client at most', kind: 'time', hint: 'Of clients without a server; 0 is any time.', setting: 'client_idle_timeout' },
    ],
  },
  {
    title: 'Life of a server connection',
    keys: [
      { key: 'server_lifetime', label: 'Lifetime', kind: 'time', hint: 'Then it is replaced, once it is free.', setting: 'server_lifetime' },
      { key: 'server_idle_timeout', label: 'Idle at most', kind: 'time', hint: 'Unused for so long, it is closed; 0 is any time.', setting: 'server_idle_timeout' },
      { key: 'server_check_delay', label: 'Checked after', kind: 'time', hint: 'Unused for longer, it is asked before it is used.', setting: 'server_check_delay' },
      { key: 'on_dirty', label: 'State left behind', kind: ['reset', 'close', 'keep'], hint: 'What happens to a server on which a client left some.', setting: 'on_dirty' },
      { key: 'connect_query', label: 'First query', kind: 'text', hint: 'Run on each new server before its first client.' },
      { key: 'max_prepared_statements', label: 'Prepared statements', kind: 'number', hint: 'Kept on each server.', setting: 'max_prepared_statements' },
    ],
  },
  {
    title: 'Several hosts',
    keys: [
      { key: 'target_session_attrs', label: 'Wanted host', kind: ['any', 'read-write', 'read-only', 'primary', 'standby', 'prefer-standby'], hint: 'As libpq’s setting of that name.' },
      { key: 'load_balance_hosts', label: 'Order', kind: ['round-robin', 'disable'], hint: 'In turn, or all to the first that answers.' },
    ],
  },
];

export const ALL: Key[] = [...KEYS, ...GROUPS.flatMap(({ keys }) => keys)];

export type Fields = Record<string, string>;

/** What stands in the fields for a pool that is there. Keys that the form has no field for are left alone. */
export function fieldsOf(config: PoolConfig): Fields {
  const fields: Fields = {};
  for (const { key, kind } of ALL) {
    const value = config[key];
    if (value === undefined || value === null || kind === 'secret') fields[key] = '';
    else fields[key] = Array.isArray(value) ? value.join(', ') : String(value);
  }
  return fields;
}

/** The keys that differ, as a request has them: null where one is to go back to its default. */
export function changes(before: Fields, now: Fields): PoolConfig {
  const changed: PoolConfig = {};
  for (const { key, kind } of ALL) {
    const text = (now[key] ?? '').trim();
    if (text === (before[key] ?? '').trim()) continue;
    changed[key] = text === '' ? null : valueOf(kind, text);
  }
  return changed;
}

/** A text as the value that it means. What can't be meant goes as it is: the server says what is wrong with it. */
function valueOf(kind: Kind, text: string): unknown {
  const number = (one: string) => (/^\d+$/.test(one) ? Number(one) : one);
  const list = text.split(',').map((one) => one.trim()).filter((one) => one !== '');
  if (kind === 'number') return number(text);
  if (kind === 'numbers') return list.length > 1 ? list.map(number) : number(text);
  if (kind === 'list') return list.length > 1 ? list : text;
  if (kind === 'time') return number(text);
  if (kind === 'yesno') return text === 'true';
  return text;
}

const UNITS: Record<string, number> = { us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400 };

/** A time as settings have it, in seconds; null if it is none. */
export function secondsOf(text: string): number | null {
  const match = /^\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)?\s*$/.exec(text);
  return match ? Number(match[1]) * (UNITS[match[2] ?? 's'] ?? 1) : null;
}
