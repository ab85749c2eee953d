// A pool made by an operator who has none yet: from a pasted URL to a driver that works through it; and what the page says
// when the server can not be reached.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { client } from './load.mjs';
import { looks } from './looks.mjs';
import { open, server, words } from './stage.mjs';
import { serve } from './weir.mjs';

/** What an operator who has never run a pooler may need, in milliseconds; the page needs seconds of it. */
const TWO_MINUTES = 120_000;
const url = ({ user = server.user, password = server.password, host = server.host, port = server.port, database = server.database } = {}) =>
  `postgres://${encodeURIComponent(user)}:${encodeURIComponent(password)}@${host}:${port}/${database}?sslmode=disable`;

let weir, stage, page, on;

before(async () => {
  // Without any user, too.
  weir = await serve('[auth]\ntype = "scram-sha-256"\n');
  stage = await open({ panel: weir.panel });
  ({ page } = stage);
  on = words(page);
});
after(async () => {
  await stage?.close();
  await weir?.stop();
});

const wrongAt = (key) => page.locator(`#field-${key}-wrong`).textContent();

test('a pasted URL becomes a pool that a driver works through, without any other page or file', async () => {
  const begun = Date.now();
  await stage.goTo('pools');
  await page.getByLabel(/^Paste the connection URL/).fill(url());
  await on.button('Continue').click();
  await on.field('Host').waitFor();
  assert.equal(await on.field('Host').inputValue(), server.host);
  assert.equal(await on.field('Port').inputValue(), server.port);
  assert.equal(await on.field('Password').inputValue(), server.password);
  assert.ok(!page.url().includes('secret'), 'the address bar has no password');
  assert.ok((await on.field('Connection URL').inputValue()).includes('••••'), 'nor has the screen');
  await page.getByRole('checkbox', { name: /^Clients may log in to Weir as/ }).waitFor();
  await on.button('Create pool').click();
  await on.notice(`${server.database} is created`).waitFor();
  await page.getByText('Waiting for the first client').waitFor();
  await on.button('Copy URI').click();
  const driver = client(await page.evaluate(() => navigator.clipboard.readText()));
  await driver.connect();
  assert.equal((await driver.query('SELECT 6 * 7 AS answer')).rows[0].answer, 42);
  await page.getByText(/client(s)? connected/).waitFor();
  await driver.end();
  assert.ok(Date.now() - begun < TWO_MINUTES);
});

test('each usual reason of a failed login is at its field, in plain words', async () => {
  await stage.goTo('new');
  await on.field('Name').fill('other');
  const reasons = [
    [{ password: 'not this one' }, 'password', /refused this password/],
    [{ database: 'nowhere' }, 'database', /no database “nowhere”/],
    [{ port: 1 }, 'port', /Nothing listens on port 1/],
    [{ host: 'no-such-machine.invalid' }, 'host', /No machine named/],
  ];
  for (const [parts, key, text] of reasons) {
    await on.field('Connection URL').fill(url(parts));
    await on.button('Create pool').click();
    await page.getByText('Not connected.').waitFor();
    assert.match(await wrongAt(key), text);
    await page.locator(`#field-${key}:focus`).waitFor();
  }
  await on.field('Connection URL').fill('mysql://shop@db/shop');
  await on.button('Create pool').click();
  await page.locator('#field-address:focus').waitFor();
  assert.match(await wrongAt('address'), /no connection URL of PostgreSQL/);
  await on.field('Connection URL').fill(url({ port: 1 }));
  await on.button('Create pool').click();
  await page.getByText('Not connected.').waitFor();
  assert.deepEqual(await looks(page, 'new-refused'), []);
});

test('a pool whose server is away can be created anyway', async () => {
  await on.field('Connection URL').fill(url({ port: 1 }));
  await on.button('Create pool').click();
  await on.button('Create anyway').click();
  await on.notice('other is created').waitFor();
  assert.equal((await (await fetch(`${weir.panel}api/v1/pools/other`)).json()).hosts[0], `${server.host}:1`);
});

test('its name in weir.toml stands beside each field, and then that of PgBouncer', async () => {
  await stage.goTo('new');
  await page.getByText('More', { exact: true }).click();
  for (const name of ['database', 'dbname', 'size', 'pool_size', 'pool_mode', 'min_pool_size', 'query_wait_timeout']) {
    await page.locator('form code').getByText(name, { exact: true }).first().waitFor();
  }
});
