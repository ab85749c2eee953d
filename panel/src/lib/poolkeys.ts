// The keys of a pool's section in weir.toml as a form has them: texts in fields, values in requests. Which keys there are and
// what each takes and does is asked of the server (pool-keys); here are only their names and their order in the form.
import type { PoolConfig } from './types';

export type Kind = 'number' | 'time' | 'size' | 'flag' | 'word' | 'text' | 'query' | 'secret' | 'list' | 'numbers';

/** A key of a pool as the API describes it, from the one table of settings. */
export interface PoolKey {
  key: string;
  kind: Kind;
  /** What one of kind word may be. */
  words: string[];
  /** The process's setting that holds where nothing is given, as SHOW CONFIG names it. */
  setting: string | null;
  /** Its name in a pgbouncer.ini; null where PgBouncer has none. */
  pgbouncer: string | null;
  /** What it does, in Markdown. */
  description: string;
}

/** A key with its name in the form. */
export interface Key extends PoolKey {
  label: string;
}

/** Names of keys in the form, in its order. */
type Labels = [key: string, label: string][];

export const BASICS: Labels = [
  ['host', 'Host'],
  ['port', 'Port'],
  ['database', 'Database'],
  ['user', 'User'],
  ['password', 'Password'],
  ['mode', 'Mode'],
  ['size', 'Size'],
];

export const GROUPS: { title: string; labels: Labels }[] = [
  {
    title: 'Limits',
    labels: [
      ['min_size', 'Minimum size'],
      ['reserve_size', 'Reserve size'],
      ['reserve_timeout', 'Reserve timeout'],
      ['max_db_connections', 'Max connections to the database'],
      ['max_db_client_connections', 'Max clients'],
    ],
  },
  {
    title: 'Timeouts',
    labels: [
      ['query_wait_timeout', 'Query wait timeout'],
      ['query_timeout', 'Query timeout'],
      ['transaction_timeout', 'Transaction timeout'],
      ['idle_transaction_timeout', 'Idle in transaction timeout'],
      ['client_idle_timeout', 'Client idle timeout'],
    ],
  },
  {
    title: 'Life of a server connection',
    labels: [
      ['server_lifetime', 'Lifetime'],
      ['server_idle_timeout', 'Server idle timeout'],
      ['server_check_delay', 'Check delay'],
      ['on_dirty', 'Leftover session state'],
      ['connect_query', 'Connect query'],
      ['max_prepared_statements', 'Prepared statements'],
    ],
  },
  {
    title: 'Several hosts',
    labels: [
      ['target_session_attrs', 'Target session attributes'],
      ['load_balance_hosts', 'Load balancing'],
    ],
  },
];

const ALL: Labels = [...BASICS, ...GROUPS.flatMap(({ labels }) => labels)];

/** The keys that have these names, as far as the server knows them. */
export function named(labels: Labels, keys: PoolKey[]): Key[] {
  return labels.flatMap(([name, label]) => keys.filter(({ key }) => key === name).map((key) => ({ ...key, label })));
}

export type Fields = Record<string, string>;

/** What is in the fields for a pool that is there. Keys that the form has no field for are left alone. */
export function fieldsOf(config: PoolConfig): Fields {
  const fields: Fields = {};
  for (const [key] of ALL) {
    const value = config[key];
    if (Array.isArray(value)) fields[key] = value.join(', ');
    // Of a secret it is only known that there is one.
    else fields[key] = value === undefined || value === null || typeof value === 'object' ? '' : String(value);
  }
  return fields;
}

/** The keys that differ, as a request has them: null where one is to go back to its default. */
export function changes(before: Fields, now: Fields, keys: PoolKey[]): PoolConfig {
  const changed: PoolConfig = {};
  for (const { key, kind } of named(ALL, keys)) {
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
  if (kind === 'number' || kind === 'size' || kind === 'time') return number(text);
  if (kind === 'numbers') return list.length > 1 ? list.map(number) : number(text);
  if (kind === 'list') return list.length > 1 ? list : text;
  if (kind === 'flag') return text === 'true';
  return text;
}

const UNITS: Record<string, number> = { us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400 };

/** A time as settings have it, in seconds; null if it is none. */
export function secondsOf(text: string): number | null {
  const match = /^\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)?\s*$/.exec(text);
  return match ? Number(match[1]) * (UNITS[match[2] ?? 's'] ?? 1) : null;
}
