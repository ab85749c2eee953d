// Causes instead of copies: one dead server is one incident with its pools below it, in a bar that moves nothing on the page; and
// clients that leak are dropped at once, in lists that keep their places while somebody works in them.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { client } from './load.mjs';
import { looks } from './looks.mjs';
import { inBrowser, server, until, words } from './stage.mjs';
import { serve } from './weir.mjs';

const DEAD = Array.from({ length: 12 }, (_, number) => `dead${number + 10}`);
const LEAKS = 8;

function pool(name, port, more = '') {
  return `[pools.${name}]
host = "127.0.0.1"
port = ${port}
database = ${JSON.stringify(server.database)}
user = ${JSON.stringify(server.user)}
password = ${JSON.stringify(server.password)}
${more}
`;
}

/** A Weir with these pools, of which everybody may use each. */
const weirWith = (pools) => serve(`[limits]\nquery_wait_timeout = "1h"\n[auth]\ntype = "trust"\n[auth.users]\napp = ""\n${pools}`);

/** A port at which nobody listens. */
async function nobody() {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  listener.close();
  await once(listener, 'close');
  return port;
}

async function connect(weir, pool, application) {
  const one = client(`postgresql://app@127.0.0.1:${weir.port}/${pool}?sslmode=disable&application_name=${application}`);
  one.on('error', () => {});
  await one.connect();
  return one;
}

/** In the page: collects what moves, as the browser sees it (Layout Instability). */
function observe() {
  globalThis.moved = [];
  const what = ({ node }) => (node?.nodeType === 3 ? `"${node.data}" in ${node.parentElement?.outerHTML}` : (node?.outerHTML ?? 'gone')).slice(0, 200);
  const note = (list) => list.getEntries().forEach(({ value, sources }) => globalThis.moved.push(`${value}: ${sources.map(what).join(' | ')}`));
  new PerformanceObserver(note).observe({ type: 'layout-shift', buffered: true });
}

for (const [width, height] of [[1280, 900], [390, 844]]) {
  test(`an incident moves nothing on a page that is ${width} wide, when it begins and when it ends`, async () => {
    const gate = createServer((socket) => socket.destroy());
    await once(gate.listen(0, '127.0.0.1'), 'listening');
    const { port } = gate.address();
    const weir = await weirWith(`${pool('blog', server.port)}${DEAD.map((name) => pool(name, port)).join('')}`);
    try {
      await inBrowser({ panel: weir.panel, width, height }, async ({ page, goTo }) => {
        await page.addInitScript(observe);
        await goTo('pools');
        await words(page).link('blog').waitFor();
        await page.getByText('No incident').waitFor();
        await page.evaluate(() => (globalThis.moved.length = 0));
        const tried = DEAD.map((name) => connect(weir, name, 'web').catch(() => {}));
        const bar = page.getByRole('region', { name: 'Problems' });
        await bar.getByRole('link', { name: '12 pools' }).waitFor();
        await page.getByRole('region', { name: 'State of all pools' }).getByText('12 pools of 13 have a problem').waitFor();
        await Promise.all(tried);
        await until('each row has its state', async () => (await page.locator('[role=row] .badge.bad').count()) >= 5);
        assert.deepEqual(await page.evaluate(() => globalThis.moved), []);
        await Promise.all(DEAD.map((name) => fetch(`${weir.panel}api/v1/pools/${name}`, { method: 'DELETE' })));
        await page.getByText(/^Over since/).waitFor();
        assert.deepEqual((await page.evaluate(() => globalThis.moved)), []);
      });
    } finally {
      await weir.stop();
      gate.close();
    }
  });
}

test('one dead server is one incident, with its pools below it', async () => {
  const port = await nobody();
  const weir = await weirWith(`${pool('blog', server.port)}${DEAD.map((name) => pool(name, port)).join('')}`);
  try {
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('settings');
      await page.getByText('No incident').waitFor();
      await Promise.all(DEAD.map((name) => connect(weir, name, 'web').catch(() => {})));
      const bar = page.getByRole('region', { name: 'Problems' });
      await bar.getByRole('link', { name: '12 pools' }).waitFor();
      await bar.getByText(`127.0.0.1:${port}`, { exact: true }).waitFor();
      await bar.getByText(/^Connection refused .*Check that the database server runs/).waitFor();
      assert.match(await page.title(), new RegExp(`^\\(!\\) 127\\.0\\.0\\.1:${port} cannot connect `), 'it is one');
      await bar.getByRole('link', { name: 'Details' }).click();
      const incident = page.getByRole('region', { name: `Incident of 127.0.0.1:${port}` });
      await incident.waitFor();
      assert.equal(await page.getByRole('region', { name: /^Incident of/ }).count(), 1);
      const rows = incident.getByRole('table', { name: /^Pools of/ }).locator('tbody tr');
      assert.deepEqual((await rows.locator('a').allTextContents()).sort(), DEAD);
      assert.deepEqual(await looks(page, 'causes-server'), []);
      await incident.getByRole('button', { name: /^Try all 12/ }).click();
      await words(page).notice('12 pools try to connect').waitFor();
    });
  } finally {
    await weir.stop();
  }
});

/** A pool of which these clients have all servers, idle in transactions, and another one waits. */
async function leaking() {
  const weir = await weirWith(pool('lazy', server.port, `size = ${LEAKS}`));
  const leaks = [];
  for (let number = 0; number < LEAKS; number += 1) {
    const one = await connect(weir, 'lazy', 'orm');
    await one.query('BEGIN; SELECT 1');
    leaks.push(one);
  }
  const waiter = await connect(weir, 'lazy', 'web');
  const served = waiter.query('SELECT 1 AS one').then(({ rows }) => rows[0].one);
  const stop = async () => {
    [...leaks, waiter].forEach((one) => one.connection?.stream?.destroy());
    await weir.stop();
  };
  return { weir, leaks, served, stop };
}

test('eight leaking clients are dropped at once, after it was said what that does', async () => {
  const { weir, served, stop } = await leaking();
  try {
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('incidents');
      const on = words(page);
      await page.getByRole('button', { name: /^Drop 8 clients idle in transactions/ }).click();
      const question = page.getByRole('dialog');
      await question.getByText('8 × "orm" (app)').waitFor();
      await question.getByText(/Their transactions are rolled back \(open for up to .*their servers are replaced/).waitFor();
      await question.getByText('1 client waits behind them.').waitFor();
      assert.deepEqual(await looks(page, 'causes-bulk'), []);
      await on.confirm('Drop 8 clients');
      await on.notice('8 clients dropped').waitFor();
      assert.equal(await served, 1, 'who has waited is served');
      await page.getByRole('heading', { name: /^Nothing is slow/ }).waitFor();
    });
  } finally {
    await stop();
  }
});

test('a list keeps its rows in their places while some are selected', async () => {
  const { weir, leaks, stop } = await leaking();
  try {
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools/lazy/clients');
      const on = words(page);
      const table = page.getByRole('table', { name: 'Clients of lazy' });
      const rows = table.locator('tbody tr');
      await until('all are there', async () => (await rows.count()) === LEAKS + 1);
      const places = () => rows.locator('td.mono').allTextContents();
      const before = await places();
      const boxes = table.getByRole('checkbox');
      await boxes.nth(2).check();
      // A range, with Shift.
      await boxes.nth(4).click({ modifiers: ['Shift'] });
      await page.getByText(`3 of ${LEAKS + 1} clients selected`).waitFor();
      await leaks[0].end();
      const ended = table.locator('tr.ended');
      await ended.waitFor();
      assert.deepEqual(await places(), before, 'the one that has ended is where it was');
      await page.getByText(`3 of ${LEAKS} clients selected`).waitFor();
      await on.button('Drop 3 clients…').click();
      await on.confirm('Drop 3 clients');
      await on.notice('3 clients dropped').waitFor();
      await page.mouse.move(0, 0);
      await until('what has ended is gone', async () => (await ended.count()) === 0);
    });
  } finally {
    await stop();
  }
});

test('the search finds tasks, states and settings, and the documentation has one of its own', async () => {
  await inBrowser({}, async ({ page, goTo }) => {
    await goTo('pools');
    await words(page).link('app').waitFor();
    const search = async (text) => {
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: /^Search/ }).fill(text);
      return page.getByRole('option');
    };
    for (const [text, wanted] of [['create user', /^Task\s+Create user/], ['max_clients', /^Setting\s+max_clients/], ['saturated', /^State\s+saturated/]]) {
      await (await search(text)).filter({ hasText: wanted }).waitFor();
      await page.keyboard.press('Escape');
    }
    // The next one may begin before the browser has reported that the last one was closed.
    for (let times = 0; times < 20; times++) {
      await page.keyboard.press('Escape');
      await search('saturated');
    }
    await page.getByRole('option', { name: /^State/ }).click();
    await page.getByRole('article').getByRole('heading', { name: 'The states' }).waitFor();
    await page.getByLabel('Search the documentation').fill('idle_transaction_timeout');
    await page.getByRole('region', { name: 'Found' }).getByRole('link', { name: '[limits]' }).click();
    await page.getByRole('article').getByRole('heading', { name: '[limits]' }).waitFor();
    assert.deepEqual(await looks(page, 'causes-docs'), []);
  });
});
