// The worst minute: one client idle in a transaction holds a lock, queries wait behind it, and clients behind these for a
// server. The page says so within seconds; an admin ends it there, and a viewer can only look.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { client } from './load.mjs';
import { looks } from './looks.mjs';
import { open, server, until, words } from './stage.mjs';
import { accounts, PASSWORD, serve } from './weir.mjs';

const SECRET = 'hunter2';
/** How long a page may take to say what is wrong; the machine may be busy. */
const SOON = 5000 * Number(process.env.SLOWER ?? 1);
let weir, admin, viewer, uri;
const open_ = [];

before(async () => {
  weir = await serve(`${accounts({ ann: 'admin', vic: 'viewer' })}[auth.users]
${server.user} = ${JSON.stringify(server.password)}
[pools.shop]
host = "${server.host}"
port = ${server.port}
database = ${JSON.stringify(server.database)}
user = ${JSON.stringify(server.user)}
password = ${JSON.stringify(server.password)}
size = 5
`);
  uri = `postgresql://${server.user}@127.0.0.1:${weir.port}/shop?sslmode=disable`;
  const table = await connect('setup');
  await table.query('DROP TABLE IF EXISTS panel_incident');
  await table.query("CREATE TABLE panel_incident AS SELECT 1 AS id, 'a' AS name");
  admin = await open({ panel: weir.panel });
  await admin.login('ann', PASSWORD);
  await admin.page.getByRole('heading', { name: 'Pools', level: 1 }).waitFor();
  viewer = await open({ panel: weir.panel });
  await viewer.login('vic', PASSWORD);
  await viewer.page.getByRole('heading', { name: 'Pools', level: 1 }).waitFor();
});

after(async () => {
  for (const one of open_) await one.end().catch(() => {});
  await admin?.close();
  await viewer?.close();
  await weir?.stop();
});

async function connect(name) {
  const one = client(`${uri}&application_name=${name}`);
  one.on('error', () => {});
  await one.connect();
  open_.push(one);
  return one;
}

const UPDATE = `UPDATE panel_incident SET name = '${SECRET}' WHERE id = 1`;

/** One that holds the lock, and this many behind it; their results. */
async function lock(behind) {
  const holder = await connect('billing');
  await holder.query('BEGIN');
  await holder.query(UPDATE);
  const clients = await Promise.all(Array.from({ length: behind }, () => connect('web')));
  const results = clients.map((one) => one.query(UPDATE).then(() => 'done', (error) => error.message));
  return { holder, results };
}

test('within seconds the page names the holder, what it blocks, who waits, and for how long', async () => {
  const { holder, results } = await lock(6);
  const began = Date.now();
  const { page } = admin;
  // From the figure that is red.
  await page.getByRole('link', { name: 'Incidents', exact: true }).click();
  await page.getByRole('heading', { name: 'What is broken or slow?' }).waitFor();
  await page.getByRole('main').getByText(/^Blocked by process \d+ \("billing" of .*idle in its transaction for/).waitFor();
  const took = Date.now() - began;
  assert.ok(took <= SOON, `it took ${took} ms`);
  await page.getByText('4 queries behind it, longest wait first').waitFor();
  const incident = page.getByRole('region', { name: 'Incident of shop' });
  assert.equal(await incident.getByText('update panel_incident set name = ? where id = ?').count(), 5);
  assert.match(await incident.textContent(), /waits for process \d+/);
  await incident.getByRole('table', { name: /^Clients of .* waiting for a server$/ }).getByText('web', { exact: true }).first().waitFor();
  assert.equal(await incident.getByRole('table', { name: /^Clients of .* waiting for a server$/ }).locator('tbody tr').count(), 2);
  assert.ok(!(await page.content()).includes(SECRET), 'values are never shown');

  const wrong = await looks(page, 'incidents');
  await page.getByRole('link', { name: 'Advice', exact: true }).click();
  await page.getByRole('heading', { name: 'Problems now' }).waitFor();
  await page.getByRole('main').getByText(/^Blocked by process/).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Apply' }).count(), 0);
  wrong.push(...(await looks(page, 'advice-incident')));
  assert.deepEqual(wrong, []);

  // A red figure leads there.
  await page.getByRole('link', { name: 'Pools', exact: true }).click();
  await page.getByRole('table', { name: 'Pools' }).getByTitle('Why is it slow?').first().click();
  await page.getByRole('heading', { name: 'What is broken or slow?' }).waitFor();
  await incident.waitFor();

  // A viewer sees the same, and can do nothing.
  await viewer.goTo('incidents?pool=shop');
  await viewer.page.getByRole('main').getByText(/^Blocked by process/).waitFor();
  for (const name of [/^Cancel query/, /^Drop client/, /^Terminate backend/]) {
    assert.equal(await viewer.page.getByRole('button', { name }).count(), 0);
    assert.ok((await page.getByRole('button', { name }).count()) > 0, `an admin has ${name}`);
  }
  assert.deepEqual(await looks(viewer.page, 'incidents-viewer'), []);

  // A query is cancelled; then the holder is dropped, and all others go on.
  const on = words(page);
  await page.getByRole('button', { name: /^Cancel query/ }).first().click();
  await page.getByRole('dialog').getByText(/gets an error and stays connected/).waitFor();
  await on.confirm('Cancel query');
  await on.notice(/^Query cancelled/).waitFor();
  await page.getByRole('button', { name: /^Drop client/ }).first().click();
  await on.confirm('Drop client');
  await on.notice(/^Client dropped/).waitFor();
  const ends = await Promise.all(results);
  assert.deepEqual([ends.filter((end) => end === 'done').length, ends.filter((end) => /canceling statement/.test(end)).length], [5, 1], String(ends));
  await assert.rejects(holder.query('COMMIT'));
  await page.getByRole('heading', { name: /^Nothing is slow/ }).waitFor();
});

test('a backend is terminated, which frees its lock; the audit has it', async () => {
  const { results } = await lock(1);
  const { page } = admin;
  const on = words(page);
  await admin.goTo('incidents');
  await page.getByRole('button', { name: /^Terminate backend/ }).first().click();
  await on.confirm('Terminate backend');
  await on.notice(/^Backend terminated/).waitFor();
  assert.deepEqual(await Promise.all(results), ['done']);
  await on.link('Audit').click();
  await page.getByRole('row', { name: /ann.*terminate process \d+ of pool shop.*done/ }).first().waitFor();
  await until('the page is as usual', () => page.getByRole('table').count().then((count) => count === 1));
});
