// An operator's whole day: log in, create a pool, copy its address, connect a driver with exactly that, see queries,
// resize it under load, apply the advice and undo it, pause, resume, delete. One load runs from the first graph to the
// last resume, and none of its clients may get an error. No check depends on the speed of the machine.
import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { client, load } from './load.mjs';
import { looks } from './looks.mjs';
import { open, server, until, words } from './stage.mjs';
import { accounts, PASSWORD, serve } from './weir.mjs';

const POOL = 'made-here';
/** Many more clients than servers, so that they wait with every pool size in between. */
const CLIENTS = 12;
let weir, stage, page, on, uri, stop;

before(async () => {
  // The certificates of the stand's own Weir: clients encrypt, and verify the server.
  const certificates = dirname(process.env.WEIR_AUTHORITY);
  const certificate = (name) => JSON.stringify(join(certificates, name));
  weir = await serve(`${accounts({ ann: 'admin' })}[auth.users]
${server.user} = ${JSON.stringify(server.password)}
[tls.client]
mode = "prefer"
key_file = ${certificate('server.key')}
cert_file = ${certificate('server.crt')}
`);
  stage = await open({ panel: weir.panel });
  ({ page } = stage);
  on = words(page);
});
after(async () => {
  await stop?.();
  await stage?.close();
  await weir?.stop();
});

/** Uses the page's own session, so that no second login is needed. */
const pool = () => page.evaluate(async (name) => (await fetch(`api/v1/pools/${name}`)).json(), POOL);
const openServers = ({ servers }) => servers.active + servers.idle + servers.used;
const goTo = (part) => page.evaluate((hash) => (location.hash = hash), `#/pools/${POOL}/${part}`);

/** The number after a word in a graph's label, in its own unit. */
async function figure(graph, word) {
  const said = await page.getByRole('img', { name: new RegExp(`^${graph}:`) }).getAttribute('aria-label');
  return Number(new RegExp(`${word} ([\\d,.]+)`).exec(said)?.[1].replaceAll(',', '') ?? 0);
}

/** Whether a graph's canvas has a line, in a colour of its legend; an axis alone does not count. */
function drawn(graph) {
  return page.getByRole('region', { name: graph, exact: true }).evaluate((region) => {
    const canvas = region.querySelector('canvas');
    if (!canvas) return false;
    const inks = [...region.querySelectorAll('li i')].map((mark) => getComputedStyle(mark).backgroundColor.match(/\d+/g).map(Number));
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const is = (at, [red, green, blue]) => Math.abs(data[at] - red) + Math.abs(data[at + 1] - green) + Math.abs(data[at + 2] - blue) < 30;
    return data.some((alpha, at) => at % 4 === 3 && alpha > 150 && inks.some((ink) => is(at - 3, ink)));
  });
}

async function resize(size) {
  await on.link('Change…').click();
  await page.locator('#field-size').fill(String(size));
  await on.button('Save').click();
  await until(`its size is ${size}`, async () => (await pool()).size === size);
}

test('an operator logs in, and finds that there is no pool yet', async () => {
  await stage.login('ann', PASSWORD);
  await page.getByRole('heading', { name: 'No pools yet' }).waitFor();
  await on.link('Or fill in the fields').click();
});

test('a pool is tried, made, and written to the file', async () => {
  await on.field('Name').fill(POOL);
  await on.field('Host').fill(server.host);
  await on.field('Port').fill(server.port);
  await on.field('Database').fill(server.database);
  await on.field('User').fill(server.user);
  await on.field('Password').fill('not this one');
  await on.button('Test connection').click();
  await page.getByText('Not connected.').waitFor();
  await on.field('Password').fill(server.password);
  await on.button('Test connection').click();
  await page.getByText(/answered in/).waitFor();
  await page.locator('#field-size').fill('1');
  await page.getByText('max_connections').first().waitFor();
  await on.button('Create pool').click();
  await on.notice(`${POOL} is created`).waitFor();
  const { size, mode, user } = await pool();
  assert.deepEqual([size, mode, user], [1, 'auto', server.user]);
});

test('its address, copied, connects a real driver unchanged', async () => {
  await on.button('Copy URI').click();
  uri = await page.evaluate(() => navigator.clipboard.readText());
  const one = client(uri);
  await one.connect();
  assert.equal((await one.query('SELECT 6 * 7 AS answer')).rows[0].answer, 42);
  await one.end();
});

test('its graphs move when clients work, and clients and servers are listed', async () => {
  stop = load(uri, CLIENTS);
  await on.link('Overview').click();
  await until('the graph shows transactions', async () => (await figure('Throughput', 'transactions')) > 0);
  await until('the graph shows a queue', async () => (await figure('Clients', 'waiting')) > 0);
  await until('the graph shows waits', async () => (await figure('Wait for a server', 'p95')) > 0);
  for (const graph of ['Clients', 'Throughput', 'Wait for a server']) {
    await page.getByRole('region', { name: graph, exact: true }).scrollIntoViewIfNeeded();
    await until(`the graph ${graph} has a line`, () => drawn(graph));
  }
  await on.link('Clients').click();
  await page.getByRole('cell', { name: /^waiting .* for one of 1 server/ }).first().waitFor();
  await on.link('Servers').click();
  await page.getByRole('cell', { name: /: (query running|idle)/ }).first().waitFor();
});

test('it is resized under load, up, down, and back by the notice’s undo', async () => {
  await resize(5);
  await until('it has more servers', async () => (await pool()).servers.active > 1);
  await resize(2);
  await until('it has shrunk', async () => openServers(await pool()) <= 2);
  await page.getByRole('region', { name: 'Notices' }).getByRole('button', { name: 'Undo' }).click();
  await until('its size is 5 again', async () => (await pool()).size === 5);
  await resize(1);
  await until('one server is left', async () => openServers(await pool()) <= 1);
});

test('it is found too small; the advice is applied, watched, and undone', async () => {
  await on.link('Advice').click();
  const advice = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: POOL }) });
  // Half a minute of history is needed, with the pool full most of the time.
  await advice.getByText('the pool is smaller than its load').waitFor({ timeout: 10 * 60_000 });
  await advice.getByText(/clients wait, 95 % of them under/).waitFor();
  const wrong = await looks(page, 'advice-given');
  await advice.getByRole('button', { name: 'Apply' }).click();
  await until('it is larger', async () => (await pool()).size === 2);
  await page.getByRole('heading', { name: 'Applied' }).waitFor();
  await page.getByText('watched', { exact: true }).waitFor();
  wrong.push(...(await looks(page, 'advice-applied')));
  await page.getByRole('main').getByRole('button', { name: 'Undo' }).click();
  await until('it is as it was', async () => (await pool()).size === 1);
  await page.getByRole('heading', { name: 'Applied' }).waitFor({ state: 'detached' });
  assert.deepEqual(wrong, []);
});

test('a paused pool holds its clients, and a resumed one serves them; in all that time none saw an error', async () => {
  await goTo('watch');
  await on.button('Pause').click();
  await on.confirm('Pause');
  await on.notice(`${POOL} is paused`).waitFor();
  await until('all wait', async () => (await pool()).clients.waiting === CLIENTS);
  await page.getByText(`${CLIENTS} in the queue`).waitFor();
  const { totals } = await pool();
  await on.button('Resume').click();
  const more = totals.transactions + 3 * CLIENTS;
  await until('they go on', async () => (await pool()).totals.transactions > more);
  assert.deepEqual(await stop(), []);
});

test('it is deleted only when its name is typed', async () => {
  await goTo('change');
  await on.button('Delete…').click();
  const act = page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true });
  assert.ok(await act.isDisabled());
  await page.keyboard.type(POOL);
  await act.click();
  await on.notice(`${POOL} is deleted`).waitFor();
  await page.getByRole('heading', { name: 'No pools yet' }).waitFor();
});

test('the audit log has what was done, and who did it', async () => {
  await on.link('Audit').click();
  for (const what of ['create a pool', ...['change', 'pause', 'resume', 'delete'].map((act) => `${act} pool ${POOL}`)]) {
    await page.getByRole('row', { name: new RegExp(`ann.*${what}.*done`) }).first().waitFor();
  }
});
