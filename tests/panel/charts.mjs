// The overview's strip and the graphs of a pool: filled from history, read and zoomed by pointer and keys, with the view in the
// address; settings with their descriptions; the search over everything; groups and density.
import assert from 'node:assert/strict';
import { env } from 'node:process';
import { after, before, test } from 'node:test';
import { load } from './load.mjs';
import { looks } from './looks.mjs';
import { api, inBrowser, open, server, until, words } from './stage.mjs';

const uri = `postgresql://${server.user}@${env.WEIR_HOST}:${env.WEIR_PORT}/app?sslmode=disable`;
let stage, page, goTo, on, stop;

before(async () => {
  stop = load(uri, 12);
  stage = await open();
  ({ page, goTo } = stage);
  on = words(page);
  await until('a history is kept', async () => (await api('history?range=1m')).pools.app?.clients_active.some((value) => value !== null));
});
after(async () => {
  await stage?.close();
  assert.deepEqual(await stop(), []);
});

const query = () => new URLSearchParams(new URL(page.url()).hash.split('?')[1] ?? '');
const slider = (title) => page.getByRole('slider', { name: new RegExp(`^${title}: time`) });

test('the overview says the state in a sentence, and its strip says each minute by keys', async () => {
  await goTo('pools');
  await page.getByText(/^\d+ healthy, \d+ not tried yet$/).waitFor();
  const strip = page.getByRole('slider', { name: /^The last hour/ });
  await strip.focus();
  assert.match(await strip.getAttribute('aria-valuetext'), /^now: \d+ clients, \d+ waiting/);
});

test('a small graph is full as soon as its row is there', async () => {
  await until('ten seconds are kept', async () => (await api('history?range=1m')).pools.app.transactions_per_second.filter((value) => value !== null).length > 10);
  await inBrowser({}, async ({ page, goTo }) => {
    await goTo('pools');
    await page.getByRole('row', { name: /app/ }).first().waitFor();
    const points = async () => ((await page.locator('[role=row] .tps svg path:not(.floor)').first().getAttribute('d'))?.match(/[ML]/g) ?? []).length;
    await until('it has the seconds before the page was there', async () => (await points()) > 8, 0.2);
  });
});

/** For a debug build on a busy machine, in milliseconds; `make panel-scale` measures what an operator sees. */
const PAINT = 3000;

test('the first rows come with the first paint, from an empty tab', async () => {
  await inBrowser({}, async ({ page, goTo }) => {
    await goTo('pools');
    await page.getByRole('row', { name: /app/ }).first().waitFor();
    const paint = await page.evaluate(() => Math.round(performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0));
    console.log(`# first rows after ${paint} ms`);
    assert.ok(paint < PAINT * Number(env.SLOWER ?? 1), `${paint} ms`);
  });
});

test('pools are grouped and compact on request', async () => {
  await goTo('pools');
  await page.getByLabel('Group by').selectOption('mode');
  await page.getByRole('button', { name: /^transaction 1 pool/ }).click();
  await on.link('app').waitFor({ state: 'detached' });
  await on.link('session').waitFor();
  assert.equal(query().get('group'), 'mode');
  await on.button('Compact').click();
  assert.equal((await page.locator('[role=row].line').first().boundingBox()).height, 32);
  assert.deepEqual(await looks(page, 'pools-grouped'), []);
  await on.button('Compact').click();
});

test('keys move the cursor of a graph, and zoom; the address has the view, and shows it again', async () => {
  await goTo('pools/app');
  await page.getByRole('img', { name: /^Wait for a server:/ }).waitFor();
  const clients = slider('Clients');
  await clients.focus();
  await page.keyboard.press('Home');
  const first = await clients.getAttribute('aria-valuetext');
  await page.keyboard.press('ArrowRight');
  await until('the cursor has moved', async () => (await clients.getAttribute('aria-valuetext')) !== first);
  assert.match(first, /^\d\d:\d\d:\d\d: with a server [\d–]/);
  await page.keyboard.press('End');
  await page.keyboard.press('+');
  await until('the address has the part', () => query().has('from') && query().has('to'));
  await page.reload();
  await on.button('Reset zoom').waitFor();
  await slider('Servers').focus();
  await page.keyboard.press('Escape');
  await until('the whole range is back', () => !query().has('from'));
});

test('a drag zooms every graph, and a double click shows the whole range', async () => {
  await goTo('pools/app');
  const plot = page.locator('[aria-label=Clients] .u-over');
  await plot.waitFor();
  await page.getByRole('img', { name: /^Wait for a server:/ }).waitFor();
  const { x, y, width, height } = await plot.boundingBox();
  await page.mouse.move(x + width * 0.7, y + height / 2);
  await page.locator('.tip').getByText(/^\d\d:\d\d:\d\d$/).waitFor();
  await page.mouse.down();
  await page.mouse.move(x + width * 0.9, y + height / 2, { steps: 5 });
  await page.mouse.up();
  await until('the address has the part', () => query().has('from'));
  const [from, to] = ['from', 'to'].map((name) => Number(query().get(name)));
  assert.ok(to - from > 30 && to - from < 120, `${to - from} s of 300`);
  await plot.dblclick();
  await until('the whole range is back', () => !query().has('from'));
});

test('a change is marked, the zone is chosen, and an unknown past is reported', async () => {
  const { size } = await api('pools/app');
  const patch = (size) => page.evaluate(async (size) => (await fetch('api/v1/pools/app', {
    method: 'PATCH', headers: { 'Content-Type': 'application/json', 'X-Weir-Panel': '1' }, body: JSON.stringify({ size }),
  })).status, size);
  assert.equal(await patch(size + 1), 200);
  assert.equal(await patch(size), 200);
  await goTo('pools/app?zone=utc&compare=week');
  await page.getByText(/^.*Changes:.*changed/).waitFor();
  await page.getByText(/No data for that time/).waitFor();
  await slider('Clients').focus();
  await page.keyboard.press('Home');
  await until('times are in UTC', async () => / UTC: with a server/.test(await slider('Clients').getAttribute('aria-valuetext')));
});

test('a setting has a line about it; those that were changed come first, and some need a restart', async () => {
  await goTo('settings');
  const headings = page.getByRole('heading', { level: 2 });
  await headings.first().waitFor();
  assert.equal(await headings.first().textContent(), 'Changed');
  await page.getByRole('searchbox').fill('query_wait_timeout');
  await page.getByText(/2 min/).first().waitFor();
  await page.getByRole('searchbox').fill('listen_port');
  await page.getByText('needs a restart').waitFor();
  await page.getByRole('searchbox').fill('');
  await page.getByLabel('Changed only').check();
  assert.equal(await headings.count(), 1);
});

test('a search of users is in the address, keeps the focus while one types, and finds', async () => {
  await goTo('users');
  const box = page.getByRole('searchbox', { name: 'Search: Users' });
  await box.click();
  await page.keyboard.type(server.user, { delay: 30 });
  await until('the address has it', () => query().get('q') === server.user);
  assert.ok(await box.evaluate((input) => input === document.activeElement), 'the focus stays');
  const rows = page.getByRole('table', { name: 'Users' }).locator('tbody tr');
  await until('one user is left', async () => (await rows.count()) === 1);
  await page.getByRole('button', { name: 'User', exact: true }).click();
  assert.equal(await page.locator('th[aria-sort]').count(), 1);
  const csv = decodeURIComponent(await page.getByRole('link', { name: 'CSV' }).getAttribute('href'));
  assert.match(csv, new RegExp(`^data:text/csv;charset=utf-8,User,.*\\r\\n${server.user},`));
});

test('Ctrl-K finds pools, settings, pages and documentation, by keys alone', async () => {
  await goTo('pools');
  await page.getByRole('heading', { level: 1 }).waitFor();
  for (const [text, wanted] of [['sess', '#/pools/session'], ['reserve_pool_t', '#/settings?q=reserve_pool_timeout'], ['create', '#/new'], ['trouble', '#/docs/troubleshooting'],
    ['statem', '#/statements'], ['alert', '#/alerts'], ['incid', '#/incidents'], ['log', '#/log'], ['users', '#/users'], ['databases', '#/databases'], ['hist', '#/history'],
    [`${server.user} limits`, `#/users/${server.user}`], [`${server.port} connections`, `#/databases?server=${encodeURIComponent(`${server.host}:${server.port}`)}`]]) {
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: /^Search pools/ }).fill(text);
    await page.getByRole('listbox', { name: 'Found' }).getByRole('option').first().waitFor();
    await page.keyboard.press('Enter');
    await until(`it leads to ${wanted}`, () => new URL(page.url()).hash === wanted);
  }
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: /^Search pools/ }).fill('wait');
  await page.getByRole('listbox', { name: 'Found' }).getByRole('option').nth(3).waitFor();
  assert.deepEqual(await looks(page, 'search'), []);
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
});
