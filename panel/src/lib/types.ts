// What the API answers, as docs/api.md and its openapi.json have it.

export interface Clients {
  active: number;
  waiting: number;
  canceling: number;
}

export interface Servers {
  active: number;
  idle: number;
  used: number;
  tested: number;
  login: number;
  canceling: number;
}

export interface Totals {
  transactions: number;
  queries: number;
  received_bytes: number;
  sent_bytes: number;
  transaction_seconds: number;
  query_seconds: number;
  wait_seconds: number;
}

export type Mode = 'session' | 'transaction' | 'statement' | 'auto';

export type HealthState =
  | 'not tried yet'
  | 'healthy'
  | 'waiting'
  | 'disabled'
  | 'paused'
  | 'slow'
  | 'cannot grow'
  | 'saturated'
  | 'stalled'
  | 'blocked'
  | 'failing'
  | 'not answering'
  | 'cannot connect'
  | 'login rejected';

export interface Health {
  state: HealthState;
  /** Something is broken, and no operator wants it so; a pause for whose end clients wait too long, too. */
  problem: boolean;
  /** Seconds since 1970. */
  since: number | null;
  /** When the figures last showed the state, which lasts for some seconds more; null while they show it. */
  not_seen_since: number | null;
  /** Clients that feel it, at least. */
  clients: number;
  waiting: number;
  /** Refusals since then: who tries again is refused again; and of how many clients at least. */
  refused: number;
  refused_clients: number;
  unanswered: number;
  /** Those whose query waits for a lock. */
  blocked: number;
  /** Those whose queries end in errors, of a pool that is failing. */
  failed: number;
  /** Those whose query runs at the moment, of a pool that is slow. */
  slowed: number;
  affected: Affected[];
  error: { sqlstate: string; message: string; at: number } | null;
  /** Why it is slow, blocked, stalled or saturated, where times or a look at its server have shown it. */
  cause: string | null;
  advice: string;
}

/** Clients of one user and application. */
export interface Affected {
  user: string;
  application_name: string;
  clients: number;
}

export interface Problem {
  pool: string;
  health: Health;
}

export interface Pool {
  name: string;
  configured: boolean;
  hosts: string[];
  database: string;
  user: string | null;
  mode: Mode;
  on_dirty: string;
  size: number;
  min_size: number;
  reserve_size: number;
  paused: boolean;
  disabled: boolean;
  health: Health;
  clients: Clients;
  servers: Servers;
  /** Clients that keep their servers between transactions, by kind of state; absent where an older Weir answers. */
  pinned?: { clients: number; by: Record<string, number>; applications: Affected[] };
  longest_wait_seconds: number;
  totals: Totals;
  refusals: Record<string, number>;
  users: { user: string; clients: Clients; servers: Servers; longest_wait_seconds: number }[];
}

export interface PoolPage {
  pools: Pool[];
  next: string | null;
}

export interface Connection {
  id: number;
  user: string;
  pool: string;
  state: string;
  address: string;
  port: number;
  connected_at: number;
  requested_at: number;
  wait_seconds: number;
  close_needed: boolean;
  link: number;
  linked_to: number | null;
  process_id: number | null;
  tls: string | null;
  application_name: string;
  prepared_statements: number;
  /** Of a server that a client has: what holds it, and since when. */
  held_for?: string | null;
  /** Of both ends of a link: why the client keeps the server between transactions. */
  pinned?: Pinned | null;
  transaction_at?: number | null;
  query_at?: number | null;
}

/** A client that keeps its server for the state that it has left there; times in seconds since 1970. */
export interface Pinned {
  since: number;
  idle_since: number | null;
  by: { kind: string; since: number; statement: string | null }[];
}

export interface ConnectionPage {
  connections: Connection[];
  next: string | null;
}

export interface Status {
  version: string;
  state: 'active' | 'paused' | 'suspended';
  draining: boolean;
  workers: number;
  configuration: string;
  pools: number;
  clients: number;
  waiting_clients: number;
  login_clients: number;
  console_clients: number;
  max_clients: number;
  servers: number;
  /** The name of its cluster; empty: none. */
  cluster: string;
}

/** A cluster, as one of its nodes sees it. */
export interface Cluster {
  cluster: string;
  node: string;
  member_state: '' | 'joining' | 'name in use' | 'member' | 'floor';
  config_revision: number;
  config_refused: string;
  nodes: ClusterNode[];
  pools: ClusterPool[];
}

export interface ClusterNode {
  name: string;
  version: string;
  state: 'member' | 'late' | 'lost' | 'left' | 'name in use';
  config_revision: number;
  config_refused: string;
  heartbeat_unchanged_seconds: number;
}

export interface ClusterPool {
  name: string;
  budget: number;
  shares: ClusterShare[];
}

export interface ClusterShare {
  node: string;
  share: number;
  floor: number;
  shortfall: number;
  oldest_wait_seconds: number;
}

export interface Setting {
  key: string;
  value: string;
  default: string | null;
  changeable: boolean;
  /** What it is, from the table of settings. */
  section?: string;
  purpose?: string;
  name?: string;
  of_pgbouncer?: boolean;
  kind?: string;
  words?: string[];
  effect?: 'reload' | 'reconnect' | 'restart';
  description?: string;
}

export interface Percentiles {
  p50: number | null;
  p95: number | null;
  p99: number | null;
}

/** A second of a pool, as an event has it; what is not known is null, and may be absent where there are no events. */
export interface Figures {
  /** With a server, without, and in the queue. */
  clients_active: number;
  clients_idle: number;
  clients_waiting: number;
  servers_active: number;
  servers_idle: number;
  servers_login: number;
  servers_idle_in_transaction?: number | null;
  servers_pinned?: number | null;
  oldest_wait_seconds: number;
  transactions_per_second: number | null;
  queries_per_second: number | null;
  logins_per_second?: number | null;
  connects_per_second?: number | null;
  errors_per_second?: number | null;
  refusals_per_second?: number | null;
  idle_in_transaction_share?: number | null;
  statement_hit_share?: number | null;
  wait_ms?: Percentiles;
  query_ms?: Percentiles;
  transaction_ms?: Percentiles;
  /** Since the start, by SQLSTATE. */
  errors?: Record<string, number>;
  health?: Health;
}

/** What is wrong with Weir itself. */
export interface Fault {
  kind: 'certificate' | 'cluster' | 'disk' | 'limit' | 'login' | 'look' | 'read_only' | 'reload' | 'unread';
  /** Now; otherwise it will be. */
  problem: boolean;
  summary: string;
  advice: string;
  /** Seconds since 1970: since when, or when it begins. */
  since: number;
  /** When it was last seen, where it lasts for some seconds more. */
  not_seen_since: number | null;
  /** The pool whose clients feel it, if it is one pool's. */
  pool: string | null;
  /** Clients that feel it, and who they are, the most first. */
  clients: number;
  affected: Affected[];
}

export interface Event {
  at: number;
  pools: Record<string, Figures>;
  /** All pools as one. */
  all?: Figures;
  workers?: { worker: number; cpu: number }[];
  /** The pools with a problem, whatever pools were requested; the worst first. */
  problems?: Problem[];
  problem_pools?: number;
  faults?: Fault[];
}

export interface History {
  step: number;
  at: number[];
  series: Record<string, (number | null)[]>;
}

/** A value for each moment, null where nothing is known. */
export type OverviewSeries = Record<string, (number | null)[]>;

/** A few figures of all pools as one, and of each that a history is kept of. */
export interface OverviewPast {
  step: number;
  at: number[];
  all: OverviewSeries;
  pools: Record<string, OverviewSeries>;
}

export interface Tested {
  ok: boolean;
  error?: string;
  /** The same in plain words, made by the page. */
  plain?: string;
  version?: string;
  milliseconds?: number;
  max_connections?: number;
  superuser_reserved_connections?: number;
  /** The host that answered, with its port. */
  server?: string;
  /** What to know though the test succeeded. */
  notes?: string[];
  connections?: number;
}

export type PoolConfig = Record<string, unknown>;

export interface Changed {
  pool?: Pool;
  persisted: boolean;
  reason?: string;
  /** The version that it has made. */
  version: number;
}

export interface Advice {
  pool: string;
  sign: string;
  cause: string;
  evidence: Record<string, unknown>;
  change: Record<string, unknown> | null;
  text: string;
}

/** A client of a pool that has an incident. */
export interface IncidentClient {
  id: number;
  user: string;
  application_name: string;
  address: string;
  port: number;
  wait_seconds: number;
}

/** A backend of a database's server. */
export interface Process {
  process_id: number;
  of_pool: boolean;
  client: IncidentClient | null;
  user: string;
  application_name: string;
  address: string | null;
  state: string | null;
  waits_for: string | null;
  statement: string | null;
  transaction_seconds: number | null;
  state_seconds: number | null;
  blocked_by: number[];
  pinned: Pinned | null;
  pinned_idle_seconds: number | null;
  /** What a request that signals it sends; null where it may not be seen. */
  key: unknown;
}

export interface Incident {
  pool: string;
  cause: string;
  /** The cause in a few words. */
  title: string;
  text: string;
  advice: string;
  seconds: number;
  clients_waiting: number;
  clients_affected: number;
  affected: Affected[];
  oldest_wait_seconds: number;
  size: number;
  servers_in_use: number;
  seen: { by: string | null; complete: boolean; reason: string | null };
  holders: (Process & { blocks: Process[]; blocks_total: number })[];
  waiting: IncidentClient[];
}

interface Waits {
  wait_ms_p95: number;
  clients_waiting: number;
}

/** A change that advice made. */
export interface AppliedChange {
  pool: string;
  change: PoolConfig;
  before: PoolConfig;
  at: number;
  until: number;
  state: 'watched' | 'helped' | 'taken_back' | 'stays' | 'overtaken';
  waits_before: Waits;
  waits_after: Waits | null;
  text: string;
}

/** An incident, in short. */
export interface Live {
  pool: string;
  cause: string;
  title: string;
  text: string;
  advice: string;
  seconds: number;
  clients_waiting: number;
}

/** How one may log in; single sign-on has the text of its button. */
export interface LoginWays {
  password: boolean;
  single_sign_on: string | null;
}

export interface Me {
  user: string | null;
  role: 'viewer' | 'operator' | 'admin';
  login_needed: boolean;
}

/** A pool's share of a database server. */
export interface Share {
  name: string;
  database: string;
  user: string | null;
  mode: Mode;
  most: number | null;
  open: number;
  /** The name of the limit that it shares with other pools. */
  limit: string | null;
  guaranteed: number;
  weight: number;
  giving_back: number;
  clients: number;
  waiting: number;
  hosts: number;
  health: HealthState;
}

/** A limit under which pools share the connections of a database server. */
export interface SharedLimit {
  name: string;
  max_connections: number;
  guaranteed: number;
  open: number;
}

export interface DatabaseServer {
  address: string;
  pools: Share[];
  pools_total: number;
  most: number | null;
  open: number;
  limits: SharedLimit[];
  capacity: {
    max_connections: number;
    reserved: number;
    connections: number;
    others: number;
    looks: number;
    free: number;
    asked_at: number;
    asked_by: string;
    top: { database: string; user: string; connections: number }[];
  } | null;
  unknown: string | null;
  warning: string | null;
}

export interface User {
  name: string;
  listed: boolean;
  /** The form in which the secret is stored. */
  secret: 'scram-sha-256' | 'md5' | 'plain' | 'empty' | null;
  /** Whether a pool logs in to its server with the user's own password. */
  server_needs_password: boolean;
  /** When the password before the present one ends, in seconds since 1970. */
  former_secret_until: number | null;
  disabled: boolean;
  console: 'admin' | 'stats' | null;
  rules: Record<string, unknown>;
  max_connections: number;
  max_client_connections: number;
  hba_lines: number[];
  clients: number;
  waiting: number;
  servers: number;
  pools: { name: string; mode: Mode; size: number; clients: number; waiting: number; servers: number }[];
  pools_total: number;
}

export interface HbaRule {
  line: number;
  connection: string;
  databases: string[];
  users: string[];
  more: number;
  address: string | null;
  method: string;
  map: string | null;
}

/** Who may log in. */
export interface AccessRules {
  listen: string[];
  tls: string;
  method: string;
  users_file: string | null;
  users_listed: number;
  auth_query: { user: string; database: string | null; pools: string[] | null }[];
  hba_file: string | null;
  rules: HbaRule[] | null;
  rules_total: number;
  max_client_connections: number;
  max_user_client_connections: number;
  max_user_connections: number;
  max_address_connections: number;
}
