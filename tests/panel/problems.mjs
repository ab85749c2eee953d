// Pools in every state of health at once, and a limit that refuses clients: each has the same word in the panel, the API and
// the console, and every page that shows them is accessible and fits. What is wrong with one page in one state is found here.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { after, before, test } from 'node:test';
import { client } from './load.mjs';
import { looks } from './looks.mjs';
import { api, open, server, until } from './stage.mjs';
import { serve } from './weir.mjs';

/** The state of each pool. */
const STATES = {
  blog: 'healthy',
  desk: 'blocked',
  fail: 'failing',
  gone: 'cannot connect',
  idle: 'not tried yet',
  lazy: 'stalled',
  mute: 'not answering',
  nope: 'login rejected',
  off: 'disabled',
  rest: 'paused',
  slow: 'saturated',
};
/** Paths, and what is there when the page is complete. */
const PAGES = {
  pools: (page) => page.getByRole('link', { name: 'slow', exact: true }),
  'pools?show=problems': (page) => page.getByRole('link', { name: 'lazy', exact: true }).last(),
  ...Object.fromEntries(Object.keys(STATES).map((name) => [`pools/${name}`, (page) => page.getByRole('heading', { name, level: 1 })])),
  'pools/desk/clients': (page) => page.getByRole('table').first(),
  'pools/desk/servers': (page) => page.getByRole('table').first(),
  'pools/lazy/clients': (page) => page.getByRole('cell', { name: /^waiting/ }).first(),
  'pools/mute/servers': (page) => page.getByRole('heading', { name: 'mute', level: 1 }),
  'pools/nope/change': (page) => page.getByRole('button', { name: 'Save' }),
  incidents: (page) => page.getByRole('region', { name: 'Incident of desk' }),
  advice: (page) => page.getByRole('heading', { name: 'Problems now' }),
  databases: (page) => page.getByRole('heading', { level: 2 }).first(),
  users: (page) => page.getByRole('table', { name: 'Users' }),
  statements: (page) => page.getByRole('heading', { name: 'Statements', exact: true }),
  alerts: (page) => page.getByRole('heading', { level: 1 }),
  history: (page) => page.getByRole('heading', { level: 1 }),
  log: (page) => page.getByRole('table'),
  settings: (page) => page.getByText('query_wait_timeout', { exact: true }),
  audit: (page) => page.getByRole('heading', { level: 1 }),
  new: (page) => page.getByRole('button', { name: 'Create pool' }),
};

const open_ = [];
let weir, mute, stage, refused, failing;

/** A client with the state of its session; its end is expected. */
async function connect(pool, application) {
  const one = client(`postgresql://app@127.0.0.1:${weir.port}/${pool}?sslmode=disable&application_name=${application}`);
  one.on('error', () => {});
  open_.push(one);
  await one.connect();
  return one;
}
const ask = (one, text) => void one.query(text).catch(() => {});

before(async () => {
  // It accepts connections, and says nothing.
  mute = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
  const closed = createServer().listen(0, '127.0.0.1');
  await Promise.all([once(mute, 'listening'), once(closed, 'listening')]);
  const { port: nobody } = closed.address();
  closed.close();
  const pool = (name, more = '', port = server.port, password = server.password) => `[pools.${name}]
host = "127.0.0.1"
port = ${port}
database = ${JSON.stringify(server.database)}
user = ${JSON.stringify(server.user)}
password = ${JSON.stringify(password)}
${more}
`;
  weir = await serve(`[general]
admin_users = ["app"]
track_statements = 100
[limits]
query_wait_timeout = "1h"
[auth]
type = "trust"
[auth.users]
app = ""
${pool('blog', 'max_db_client_connections = 1')}${pool('desk')}${pool('fail')}${pool('gone', '', nobody)}${pool('idle')}${pool('lazy', 'size = 1')}
${pool('mute', '', mute.address().port)}${pool('nope', '', server.port, 'not this one')}${pool('off')}${pool('rest')}${pool('slow', 'size = 1')}`);
  const [blog, holder, behind] = await Promise.all(['blog', 'desk', 'desk'].map((name) => connect(name, 'web')));
  await blog.query('SELECT 1');
  // One whose table is missing, and one that is refused by a limit, again and again.
  const orders = await connect('fail', 'orders');
  failing = setInterval(() => orders.query('SELECT * FROM missing').catch(() => {}), 100);
  refused = setInterval(() => connect('blog', 'eager').catch(() => {}), 1000);
  await holder.query('BEGIN; SELECT pg_advisory_xact_lock(20261125)');
  ask(behind, 'SELECT pg_advisory_xact_lock(20261125)');
  for (const name of ['gone', 'mute', 'nope']) void connect(name, 'web').catch(() => {});
  const [lazy, slow] = [await connect('lazy', 'orm'), await connect('slow', 'reports')];
  await lazy.query('BEGIN; SELECT 1');
  ask(slow, 'SELECT pg_sleep(3600)');
  for (const name of ['lazy', 'slow']) ask(await connect(name, 'web'), 'SELECT 1');
  const post = (path) => fetch(`${weir.panel}api/v1/pools/${path}`, { method: 'POST' });
  await Promise.all([post('off/disable'), post('rest/pause')]);
  stage = await open({ panel: weir.panel });
});

after(async () => {
  clearInterval(refused);
  clearInterval(failing);
  open_.forEach((one) => one.connection?.stream?.destroy());
  await stage?.close();
  await weir?.stop();
  mute?.close();
});

test('each pool has the same word in the API, the console and the panel, and each problem its cause', async () => {
  const states = async () => Object.fromEntries((await api('pools', weir.panel)).pools.map(({ name, health }) => [name, health.state]));
  await until('all pools are in their states', async () => {
    const now = await states();
    return Object.entries(STATES).every(([name, state]) => now[name] === state);
  });
  const console = await connect('pgbouncer', 'psql');
  const { rows } = await console.query('SHOW POOLS');
  for (const { database, health } of rows.filter((row) => row.database in STATES)) assert.equal(health, STATES[database], database);
  const { pools } = await api('pools', weir.panel);
  for (const { name, health } of pools.filter((pool) => pool.health.problem)) {
    assert.ok(health.advice, `${name} has advice`);
    await until(`${name} has an error or a cause`, async () => {
      const now = (await api(`pools/${name}`, weir.panel)).health;
      return now.error !== null || now.cause !== null;
    });
  }
  const { page, goTo } = stage;
  await goTo('pools');
  for (const [name, state] of Object.entries(STATES)) {
    if (state === 'healthy') continue;
    const row = page.locator('[role=row]').filter({ has: page.locator('.name').getByRole('link', { name, exact: true }) });
    await row.getByText(state, { exact: true }).first().waitFor();
  }
  // A limit that refuses clients is a fault of their pool.
  const limited = page.locator('[role=row]').filter({ has: page.locator('.name').getByRole('link', { name: 'blog', exact: true }) });
  await limited.getByText('limit reached', { exact: true }).waitFor();
  // One has the bar, the others are named, and a click away.
  const banner = page.getByRole('region', { name: 'Problems', exact: true });
  await banner.getByText(/^Also (\w+: [\w ]+; ){2}\w+: [\w ]+ and \d+ more$/).waitFor();
  await banner.getByRole('link', { name: /^\d+ incidents$/ }).click();
  await page.getByRole('region', { name: 'Incident of blog' }).getByText(/max_db_client_connections = 1 of blog is reached: .* "web" of app has 1\./).waitFor();
  // What the pool's health says is the incident's word, too.
  for (const name of ['desk', 'gone', 'mute', 'nope']) {
    await page.getByRole('region', { name: `Incident of ${name}` }).locator('.title').getByText(STATES[name], { exact: true }).waitFor();
  }
});

for (const [path, whole] of Object.entries(PAGES)) {
  test(`the page ${path} is accessible and fits while much is broken`, async () => {
    await stage.goTo(path);
    await whole(stage.page).waitFor();
    await stage.page.getByRole('region', { name: 'Problems', exact: true }).waitFor();
    assert.deepEqual(await looks(stage.page, `problems-${path.replace(/[?=]/g, '-')}`), []);
  });
}
