// How programs connect to a pool: each library's own way, and what it needs in the pool's mode. What is said of modes here
// was tried: docs/drivers.md has the runs, docs/pooling.md the reasons.
import type { Mode } from './types';

export interface Details {
  host: string;
  port: number;
  database: string;
  user: string;
  /** Where it is known: it was just chosen. */
  password?: string;
  sslmode: string;
  mode: Mode;
}

export interface Snippet {
  id: string;
  label: string;
  code: string;
  notes: string[];
}

type Make = (d: Details) => { code: string; notes?: string[] };

const STATE = 'LISTEN, a SET meant to last, temporary tables and session advisory locks need a pool in session mode.';
const KEPT = 'Settings follow the client; LISTEN, temporary tables, session advisory locks and the like keep its server until they are gone.';
const SINGLE = 'Single statements only: a transaction block is refused in statement mode.';
const PREPARED = 'Prepared statements work as they are: Weir prepares them on whichever server comes next.';

export function uri({ host, port, database, user, password, sslmode }: Details, scheme = 'postgresql'): string {
  const place = host.includes(':') ? `[${host}]` : host;
  const secret = password ? `:${encodeURIComponent(password)}` : '';
  return `${scheme}://${encodeURIComponent(user)}${secret}@${place}:${port}/${encodeURIComponent(database)}?sslmode=${sslmode}`;
}

export function psql(d: Details): string {
  return `psql ${shell(uri(d))}`;
}

export function environment({ host, port, database, user, password, sslmode }: Details): string {
  const secret = password ? { PGPASSWORD: password } : {};
  const pairs = { PGHOST: host, PGPORT: String(port), PGDATABASE: database, PGUSER: user, ...secret, PGSSLMODE: sslmode };
  return Object.entries(pairs).map(([name, value]) => `export ${name}=${shell(value)}`).join('\n');
}

const encrypts = (d: Details) => d.sslmode !== 'disable';
const verifies = (d: Details) => d.sslmode.startsWith('verify');
const only = (d: Details, mode: Mode, ...notes: string[]) => (d.mode === mode ? notes : []);

const MAKERS: [string, string, Make][] = [
  ['jdbc', 'JDBC', (d) => ({
    code: `spring.datasource.url=jdbc:postgresql://${d.host}:${d.port}/${encodeURIComponent(d.database)}?sslmode=${d.sslmode}
spring.datasource.username=${d.user}
spring.datasource.password=\${DB_PASSWORD}`,
    notes: [
      ...only(d, 'transaction',
        'Instead of setTransactionIsolation, which is a SET of the session: options=-c default_transaction_isolation=… in the address, or SET TRANSACTION in each transaction.',
        'prepareThreshold=0 where tables change under running programs that SELECT *.'),
      ...only(d, 'statement', 'Leave autoCommit on.'),
    ],
  })],
  ['psycopg', 'psycopg', (d) => ({
    code: `import os, psycopg

with psycopg.connect(
    host=${py(d.host)}, port=${d.port}, dbname=${py(d.database)},
    user=${py(d.user)}, password=os.environ["DB_PASSWORD"], sslmode=${py(d.sslmode)},${d.mode === 'statement' ? '\n    autocommit=True,' : ''}
) as connection:
    print(connection.execute("select now()").fetchone())`,
    notes: only(d, 'statement', 'autocommit=True: otherwise psycopg begins a transaction by itself.'),
  })],
  ['sqlalchemy', 'SQLAlchemy', (d) => ({
    code: `import os
from sqlalchemy import URL, create_engine

url = URL.create(
    "postgresql+psycopg", ${py(d.user)}, os.environ["DB_PASSWORD"],
    ${py(d.host)}, ${d.port}, ${py(d.database)}, {"sslmode": ${py(d.sslmode)}},
)
engine = create_engine(url, pool_pre_ping=True${d.mode === 'statement' ? ', isolation_level="AUTOCOMMIT"' : ''})`,
    notes: only(d, 'statement', 'isolation_level="AUTOCOMMIT": otherwise each connection begins a transaction.'),
  })],
  ['django', 'Django', (d) => ({
    code: `DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": ${py(d.host)},
        "PORT": ${d.port},
        "NAME": ${py(d.database)},
        "USER": ${py(d.user)},
        "PASSWORD": os.environ["DB_PASSWORD"],
        "OPTIONS": {"sslmode": ${py(d.sslmode)}},${d.mode === 'session' ? '' : '\n        "DISABLE_SERVER_SIDE_CURSORS": True,'}
    }
}`,
    notes: [
      ...only(d, 'transaction', 'DISABLE_SERVER_SIDE_CURSORS: outside of atomic(), iterator() opens a cursor that outlives its transaction.'),
      ...only(d, 'statement', 'atomic() is refused, and with it the admin and migrations.'),
    ],
  })],
  ['go', 'Go (pgx)', (d) => ({
    code: `// import "github.com/jackc/pgx/v5/pgxpool"
// The password comes from PGPASSWORD.
pool, err := pgxpool.New(ctx, ${JSON.stringify(uri(d))})`,
  })],
  ['node', 'node-postgres', (d) => ({
    code: `import pg from 'pg';

const pool = new pg.Pool({
  host: ${js(d.host)},
  port: ${d.port},
  database: ${js(d.database)},
  user: ${js(d.user)},
  password: process.env.DB_PASSWORD,${encrypts(d) && d.sslmode !== 'prefer' ? `\n  ssl: ${verifies(d) ? '{ ca: readFileSync("ca.crt") }' : '{ rejectUnauthorized: false }'},` : ''}
});`,
  })],
  ['prisma', 'Prisma', (d) => ({
    code: `import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from './generated/prisma/client';

// DATABASE_URL=${uri(d).replace('@', ':PASSWORD@')}
const adapter = new PrismaPg({ connectionString: process.env.DATABASE_URL });
export const prisma = new PrismaClient({ adapter });`,
    notes: [
      ...only(d, 'transaction', 'No pgbouncer=true is needed. Migrations take a lock of the session: run them against the server itself, or a pool in session mode.'),
      ...only(d, 'statement', 'Nested writes and $transaction are refused.'),
    ],
  })],
  ['rails', 'Rails', (d) => ({
    code: `production:
  adapter: postgresql
  host: ${d.host}
  port: ${d.port}
  database: ${yaml(d.database)}
  username: ${yaml(d.user)}
  password: <%= ENV["DB_PASSWORD"] %>
  sslmode: ${d.sslmode}${d.mode === 'session' ? '' : '\n  advisory_locks: false'}`,
    notes: [
      ...only(d, 'transaction', 'advisory_locks: false: migrations would take a lock of the session; let one process run them at a time.'),
      ...only(d, 'statement', 'Every save is a transaction, which statement mode refuses: give Rails a pool in transaction mode.'),
    ],
  })],
  ['php', 'PHP', (d) => ({
    code: `$pdo = new PDO(
    ${php(`pgsql:host=${d.host};port=${d.port};dbname=${d.database};sslmode=${d.sslmode}`)},
    ${php(d.user)},
    getenv('DB_PASSWORD'),
    [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION],
);`,
  })],
];

export function snippets(d: Details): Snippet[] {
  return MAKERS.map(([id, label, make]) => {
    const { code, notes = [] } = make(d);
    return { id, label, code, notes: [...notes, ...general(d.mode)] };
  });
}

function general(mode: Mode): string[] {
  if (mode === 'transaction') return [PREPARED, STATE];
  if (mode === 'statement') return [SINGLE, PREPARED];
  if (mode === 'auto') return [PREPARED, KEPT];
  return ['A server stays with its client until it disconnects, so close connections that are not used.'];
}

function shell(text: string): string {
  return /^[\w.:/@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

const py = (text: string) => JSON.stringify(text);
const yaml = (text: string) => JSON.stringify(text);
const js = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
const php = js;
