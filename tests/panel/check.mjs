// What an operator does with the panel, one after the other: look, make a pool, copy its address, connect with a driver, see
// it work, pause, resume, resize under load, take that back, delete. Nothing here depends on how fast the machine is.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { env } from 'node:process';
import { after, before, test } from 'node:test';
import { api, client, flaws, load, open, server, until } from './stage.mjs';

const POOL = 'made-here';
const { SHOTS } = env;
let page, goTo, close, uri;

before(async () => ({ page, goTo, close } = await open()));
after(async () => close());

const button = (name) => page.getByRole('button', { name, exact: true });
const field = (label) => page.getByLabel(label, { exact: true });
const link = (name) => page.getByRole('link', { name, exact: true });
const notice = (text) => page.getByRole('region', { name: 'Notices' }).getByText(text);
const confirm = (name) => page.getByRole('dialog').getByRole('button', { name, exact: true }).click();
/** The number that follows a word in what a graph says of itself. */
async function figure(graph, word) {
  const said = await page.getByRole('img', { name: new RegExp(`^${graph}`) }).getAttribute('aria-label');
  return Number(new RegExp(`${word} ([\\d,.]+)`).exec(said)?.[1].replaceAll(',', '') ?? 0);
}

test('the overview shows every pool, finds one by its name, and sorts', async () => {
  await goTo('pools');
  await link('app').waitFor();
  await link('session').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('sess');
  await link('app').waitFor({ state: 'detached' });
  await page.getByRole('searchbox').fill('');
  await link('app').waitFor();
  const names = () => page.locator('[role=row] .name a').allTextContents();
  assert.deepEqual(await names(), ['app', 'session']);
  await button('Pool').click();
  assert.deepEqual(await names(), ['session', 'app']);
  assert.equal(await page.locator('[aria-sort=descending]').count(), 1);
});

test('what is wrong with a new pool is said at its field', async () => {
  await link('New pool').click();
  await field('Name').fill('app');
  await field('Host').fill(server.host);
  await button('Make the pool').click();
  const name = field('Name');
  await page.locator('#field-name[aria-invalid=true]').waitFor();
  await page.getByText('there is a pool app already').waitFor();
  assert.ok(await name.evaluate((input) => input === document.activeElement), 'the focus is where the error is');
});

test('a pool is tried, made, and written to the file', async () => {
  await field('Name').fill(POOL);
  await field('Port').fill(server.port);
  await field('Database').fill(server.database);
  await field('User').fill(server.user);
  await field('Password').fill('not this one');
  await button('Test connection').click();
  await page.getByText('Not connected.').waitFor();
  await field('Password').fill(server.password);
  await button('Test connection').click();
  await page.getByText(/answered in/).waitFor();
  await page.locator('#field-size').fill('3');
  await page.getByText('max_connections').first().waitFor();
  await button('Make the pool').click();
  await notice(`${POOL} is made`).waitFor();
  const pool = await api(`pools/${POOL}`);
  assert.deepEqual([pool.size, pool.mode, pool.user], [3, 'transaction', server.user]);
});

test('its address, copied, lets a real driver in', async () => {
  await button('Copy URI').click();
  uri = await page.evaluate(() => navigator.clipboard.readText());
  const one = client(uri);
  await one.connect();
  assert.equal((await one.query('SELECT 6 * 7 AS answer')).rows[0].answer, 42);
  await one.end();
});

test('its graphs move when clients work, and clients and servers are listed', async () => {
  const stop = await load(uri, 6);
  await link('Watch').click();
  await until('the graph shows transactions', async () => (await figure('Done a second', 'transactions')) > 0);
  await until('the graph shows a queue', async () => (await figure('Clients', 'waiting')) > 0);
  await link('Clients').click();
  await page.getByRole('cell', { name: /^waits .* for one of 3 servers/ }).first().waitFor();
  await link('Servers').click();
  await page.getByRole('cell', { name: /since/ }).first().waitFor();
  assert.deepEqual(await stop(), []);
});

test('a paused pool holds its clients, and a resumed one serves them', async () => {
  await button('Pause').click();
  await confirm('Pause');
  await notice(`${POOL} is paused`).waitFor();
  const one = client(uri);
  // A login to a paused pool that has no server yet waits as well.
  const answer = one.connect().then(() => one.query('SELECT 1'));
  await until('it waits', async () => (await api(`pools/${POOL}`)).clients.waiting > 0);
  await button('Resume').click();
  await answer;
  await one.end();
});

test('it is resized under load without an error of any client, and that is taken back', async () => {
  const stop = await load(uri, 6);
  const size = async (wanted) => until(`its size is ${wanted}`, async () => (await api(`pools/${POOL}`)).size === wanted);
  await link('Change…').click();
  await page.locator('#field-size').fill('8');
  await button('Save').click();
  await size(8);
  await until('it has more servers', async () => (await api(`pools/${POOL}`)).servers.active > 3);
  await button('Undo').click();
  await size(3);
  await until('it has shrunk', async () => {
    const { servers } = await api(`pools/${POOL}`);
    return servers.active + servers.idle + servers.used <= 3;
  });
  assert.deepEqual(await stop(), []);
});

test('it is deleted only when its name is typed', async () => {
  await goTo(`pools/${POOL}/change`);
  await button('Delete…').click();
  const act = page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true });
  assert.ok(await act.isDisabled());
  await page.keyboard.type(POOL);
  await act.click();
  await notice(`${POOL} is deleted`).waitFor();
  await link('app').waitFor();
  assert.equal(await link(POOL).count(), 0);
});

/** Pages that stand on a path of their own are there where the path is. */
const paths = Object.keys((await api('openapi.json')).paths);
test('the lab’s reports are a click away, and what makes them can be copied', async () => {
  await goTo('lab');
  await page.getByText('None yet.').waitFor();
  const verdicts = ['held', 'held', 'notheld'].map((verdict) => ({ verdict, text: 'a claim', why: '' }));
  const report = { format: 1, began: '2026-01-31T10:15:00Z', length: 'quick', experiments: [{ id: 'size', title: 'The size', claims: verdicts }] };
  mkdirSync(`${env.WEIR_LAB}/size-quick`, { recursive: true });
  writeFileSync(`${env.WEIR_LAB}/size-quick/report.json`, JSON.stringify(report));
  writeFileSync(`${env.WEIR_LAB}/size-quick/report.html`, '<!DOCTYPE html><title>A report</title><h1>What came out</h1>');
  await button('Look again').click();
  await page.getByText('2 held').waitFor();
  const opened = page.waitForEvent('popup');
  await link('Open report size-quick').click();
  await (await opened).getByRole('heading', { name: 'What came out' }).waitFor();
  await (await opened).close();
  await button('Copy weir lab all --quick').click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'weir lab all --quick');
});

const PAGES = ['pools', 'pools/app', 'pools/app/clients', 'pools/app/servers', 'pools/app/connect', 'pools/app/change', 'new', 'settings', ...['advice', 'audit', 'lab'].filter((page) => paths.includes(`/api/v1/${page}`))];

for (const [theme, width] of [['light', 1280], ['dark', 1280], ['dark', 360]]) {
  test(`pages are accessible and fit: ${theme}, ${width} wide`, async () => {
    const stage = await open({ theme, width });
    const found = [];
    try {
      for (const path of PAGES) {
        await stage.goTo(path);
        await stage.page.getByRole('heading', { level: 1 }).waitFor();
        await stage.page.getByText('Asking for').first().waitFor({ state: 'detached' });
        found.push(...(await flaws(stage.page)).map((flaw) => `${path}: ${flaw}`));
        const over = await stage.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (over > 0) found.push(`${path} is ${over} pixels too wide`);
        if (SHOTS) await stage.page.screenshot({ path: `${SHOTS}/${path.replaceAll('/', '-')}-${theme}-${width}.png`, fullPage: true });
      }
    } finally {
      await stage.close();
    }
    assert.deepEqual(found, []);
  });
}

test('the theme is switched by its button, and kept', async () => {
  await goTo('pools');
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const bright = await ground();
  await page.getByRole('button', { name: /^Theme: as the system/ }).click();
  await page.getByRole('button', { name: /^Theme: light/ }).click();
  assert.notEqual(await ground(), bright);
  await page.reload();
  assert.notEqual(await ground(), bright);
});
