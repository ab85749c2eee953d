// Every page in both themes and on a phone: under load, without any pool, and when Weir does not answer. Each page is
// accessible, fits its screen, and is saved as a picture.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { client, load } from './load.mjs';
import { looks } from './looks.mjs';
import { inBrowser, server, words } from './stage.mjs';
import { accounts, PASSWORD, serve } from './weir.mjs';

const { env } = process;
const uri = (pool) => `postgresql://${server.user}@${env.WEIR_HOST}:${env.WEIR_PORT}/${pool}?sslmode=disable`;
const loads = [];

before(() => loads.push(load(uri('app'), 12), load(uri('session'), 3)));
after(async () => {
  for (const stop of loads) assert.deepEqual(await stop(), []);
});

/** Paths, and an element that is there when the page is complete. */
const PAGES = {
  pools: (page) => page.getByRole('link', { name: 'session' }),
  'pools/app': (page) => page.getByRole('img', { name: /^Wait for a server:.*p95 \d/ }),
  'pools/app/clients': (page) => page.getByRole('cell', { name: /^waiting/ }).first(),
  'pools/app/servers': (page) => page.getByRole('cell', { name: /: (query running|idle)/ }).first(),
  'pools/app/dry-run': (page) => page.getByRole('button', { name: 'Record traffic' }),
  'pools/app/connect': (page) => page.getByRole('button', { name: 'Copy URI' }),
  'pools/app/change': (page) => page.getByRole('button', { name: 'Save' }),
  new: (page) => page.getByRole('button', { name: 'Create pool' }),
  databases: (page) => page.getByText(/^max_connections \d/),
  users: (page) => page.getByRole('table', { name: 'Users' }),
  statements: (page) => page.getByRole('heading', { name: 'Statements', exact: true }),
  alerts: (page) => page.getByRole('table', { name: 'Targets' }),
  history: (page) => page.getByRole('table'),
  log: (page) => page.getByRole('table'),
  incidents: (page) => page.getByRole('heading', { level: 2 }).first(),
  advice: (page) => page.getByRole('heading', { level: 2 }).first(),
  settings: (page) => page.getByText('query_wait_timeout', { exact: true }),
  'docs/settings': (page) => page.getByRole('heading', { name: '[listen]' }),
  'docs/pooling': (page) => page.getByRole('article').getByRole('heading').first(),
  lab: (page) => page.getByRole('heading', { name: 'Reports' }),
  audit: (page) => page.getByRole('table'),
  'pools/nowhere': (page) => page.getByRole('alert'),
  nowhere: (page) => page.getByText('Page not found'),
};

for (const [path, whole] of Object.entries(PAGES)) {
  test(`the page ${path} is accessible and fits`, () => inBrowser({}, async ({ page, goTo }) => {
    await goTo(path);
    await whole(page).waitFor();
    assert.deepEqual(await looks(page, path), []);
  }));
}

test('a new pool with a tested server, and all of its fields, is accessible and fits', () => inBrowser({}, async ({ page, goTo }) => {
  const on = words(page);
  await goTo('new');
  const fields = { Name: 'shop', Host: server.host, Port: server.port, Database: server.database, User: server.user, Password: server.password };
  for (const [label, text] of Object.entries(fields)) await on.field(label).fill(text);
  await page.locator('#field-size').fill('12');
  await on.field('Cores of the server').fill('4');
  await on.field('Gigabytes of memory of the server').fill('2');
  await page.getByText('More', { exact: true }).click();
  await on.button('Test connection').click();
  await page.getByText(/answered in/).waitFor();
  assert.deepEqual(await looks(page, 'new-tested'), []);
}));

test('a pool’s traffic is recorded, and its page says what other modes would do, is accessible and fits', () => inBrowser({}, async ({ page, goTo }) => {
  const on = words(page);
  await goTo('pools/session/dry-run');
  await on.button('Record traffic').click();
  await on.button('Stop recording').waitFor();
  const session = client(uri('session'));
  await session.connect();
  await session.query('CREATE TEMP TABLE scratch (n int)');
  await session.end();
  const row = page.getByRole('row', { name: /create temp table scratch/ });
  await row.waitFor();
  assert.match(await row.innerText(), /leaves temporary objects\s+lost\s+pinned/);
  assert.deepEqual(await looks(page, 'dry-run'), []);
  await on.button('Stop recording').click();
  await page.getByText('Recorded in mode session').waitFor();
}));

test('a confirmation of a dangerous action is accessible and fits', () => inBrowser({}, async ({ page, goTo }) => {
  await goTo('pools/app');
  await words(page).button('Kill').click();
  await page.getByRole('dialog').waitFor();
  assert.deepEqual(await looks(page, 'question'), []);
}));

test('a Weir without pools, and one that does not answer, are reported', async () => {
  const weir = await serve('[auth]\ntype = "trust"\n');
  try {
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await page.getByRole('link', { name: 'Or fill in the fields' }).waitFor();
      const wrong = await looks(page, 'pools-none');
      await words(page).link('Audit').click();
      await page.getByText('Kept until the next restart only').waitFor();
      wrong.push(...(await looks(page, 'audit-none')));
      await page.route('**/api/v1/**', (route) => route.abort());
      await words(page).link('Settings').click();
      await page.getByText('Weir does not answer').first().waitFor();
      wrong.push(...(await looks(page, 'settings-lost')));
      assert.deepEqual(wrong, []);
    });
  } finally {
    await weir.stop();
  }
});

test('the login, and one that is refused, are accessible and fit', async () => {
  const weir = await serve(`${accounts({ ann: 'admin' })}[auth]\ntype = "trust"\n`);
  try {
    await inBrowser({ panel: weir.panel }, async ({ page, goTo, login }) => {
      await goTo('pools');
      await page.getByLabel('User').waitFor();
      const wrong = await looks(page, 'login');
      await login('ann', `${PASSWORD}?`);
      await page.getByRole('alert').waitFor();
      wrong.push(...(await looks(page, 'login-refused')));
      assert.deepEqual(wrong, []);
    });
  } finally {
    await weir.stop();
  }
});

test('the theme is switched by its button, and kept', () => inBrowser({}, async ({ page, goTo }) => {
  await goTo('pools');
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const bright = await ground();
  await page.getByRole('button', { name: /^Theme: as the system/ }).click();
  await page.getByRole('button', { name: /^Theme: light/ }).click();
  assert.notEqual(await ground(), bright);
  await page.reload();
  assert.notEqual(await ground(), bright);
}));
