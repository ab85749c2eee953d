// How long the pages take with ten thousand pools, some of them under load, and some thousand clients: run by hand, on
// a quiet machine (`make panel-scale`). Prints a table and asserts no time.
//
// POOLS=10000 BUSY=100 CLIENTS=15000 ROUNDS=9   how many of each; clients beyond the busy ones are idle
import { Buffer } from 'node:buffer';
import { once } from 'node:events';
import { connect } from 'node:net';
import { client } from './load.mjs';
import { launch, open, server, until } from './stage.mjs';
import { serve } from './weir.mjs';

const [POOLS, BUSY, CLIENTS, ROUNDS] = [['POOLS', 10_000], ['BUSY', 100], ['CLIENTS', 15_000], ['ROUNDS', 9]]
  .map(([name, usual]) => Number(process.env[name] ?? usual));
/** Logins at the same time. */
const BATCH = 200;

const nameOf = (number) => `shop-${String(number).padStart(5, '0')}`;
/** The pools under load are spread over all pools; the first client of any other pool would wait for a new server. */
const atWork = (number) => nameOf(Math.floor(((number % BUSY) * POOLS) / BUSY));
const pool = (number) => `[pools.${nameOf(number)}]
host = "${server.host}"
port = ${server.port}
database = "${server.database}"
user = "${server.user}"
password = ${JSON.stringify(server.password)}
size = 1
`;

/** The measurement in the page: from an action to the frame that shows its result. */
function instruments() {
  const shown = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  globalThis.after = async (begun, holds) => {
    while (!holds()) await shown();
    await shown();
    return performance.now() - begun;
  };
  globalThis.one = (selector) => document.querySelector(selector);
  globalThis.rows = () => Number(one('[role=table]')?.getAttribute('aria-rowcount') ?? 0) - 1;
}

const MEASURES = {
  'first rows, nothing in the cache': (page) => page.evaluate(() => after(0, () => one('[role=row] .name a'))),
  'all pools are there': (page, of) => page.evaluate((of) => after(0, () => rows() === of), of.pools),
  'a filter': (page) => page.evaluate(() => {
    const box = one('input[type=search]');
    const begun = performance.now();
    box.value = '777';
    box.dispatchEvent(new Event('input', { bubbles: true }));
    return after(begun, () => rows() < 1000);
  }),
  'the filter taken away': (page, of) => page.evaluate((of) => {
    const box = one('input[type=search]');
    const begun = performance.now();
    box.value = '';
    box.dispatchEvent(new Event('input', { bubbles: true }));
    return after(begun, () => rows() === of);
  }, of.pools),
  'another order': (page) => page.evaluate(() => {
    const begun = performance.now();
    one('.tps button').click();
    return after(begun, () => one('.tps[aria-sort=descending]'));
  }),
  'a pool’s page': (page) => page.evaluate(() => {
    const begun = performance.now();
    one('[role=row] .name a').click();
    return after(begun, () => one('.gate') && one('.plot canvas'));
  }),
  'back to the pools': (page) => page.evaluate(() => {
    const begun = performance.now();
    location.hash = '#/pools';
    return after(begun, () => one('[role=row] .name a'));
  }),
};

/** The requests until the first rows were there. */
const asked = (page) => page.evaluate(() => performance.getEntriesByType('resource').map((entry) => ({
  what: entry.name.replace(location.origin, ''),
  from: Math.round(entry.startTime),
  'first byte': Math.round(entry.responseStart),
  to: Math.round(entry.responseEnd),
  kB: Math.round(entry.transferSize / 1024),
})));

async function busy(port) {
  const uri = (number) => `postgresql://anybody@127.0.0.1:${port}/${atWork(number)}?sslmode=disable`;
  let stop = false;
  const works = Array.from({ length: BUSY }, async (_, number) => {
    const one = client(uri(number));
    await one.connect();
    while (!stop) {
      await one.query('SELECT pg_sleep(0.02)');
      await new Promise((done) => setTimeout(done, 200));
    }
    await one.end();
  });
  return async () => {
    stop = true;
    await Promise.all(works);
  };
}

/** Logs in and sends no query. */
function idler(port, number) {
  const text = `user\0anybody\0database\0${atWork(number)}\0\0`;
  const head = Buffer.alloc(8);
  head.writeInt32BE(8 + text.length, 0);
  head.writeInt32BE(3 << 16, 4);
  const socket = connect(port, '127.0.0.1');
  socket.write(Buffer.concat([head, Buffer.from(text)]));
  let received = Buffer.alloc(0);
  return new Promise((done, failed) => {
    socket.on('data', (data) => {
      received = Buffer.concat([received, data]);
      // The last message is Weir's ReadyForQuery.
      if (received.at(-6) === 0x5a) done(socket);
    });
    socket.on('error', failed);
    socket.on('close', () => failed(new Error(`a client could not log in: ${received}`)));
  });
}

async function idlers(port) {
  const sockets = [];
  while (sockets.length < CLIENTS - BUSY) {
    const some = Math.min(BATCH, CLIENTS - BUSY - sockets.length);
    sockets.push(...(await Promise.all(Array.from({ length: some }, (_, number) => idler(port, sockets.length + number)))));
  }
  return sockets;
}

/** The CPU seconds of the page's main thread: the load of a busy machine is not included. */
async function worked(cdp) {
  const { metrics } = await cdp.send('Performance.getMetrics');
  return metrics.find(({ name }) => name === 'TaskDuration').value;
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

// Of 20,000 descriptors, which many systems allow, the pools' servers may use half; so there can't be more clients.
const text = `[general]\nmax_clients = 16000\nmax_user_connections = 200\n[auth]\ntype = "any"\n`;
const weir = await serve(text + Array.from({ length: POOLS }, (_, number) => pool(number)).join(''));
const stop = await busy(weir.port);
const sockets = await idlers(weir.port).catch((error) => {
  console.error(weir.log());
  throw error;
});
console.log(`${POOLS} pools, ${BUSY} of them at work, ${CLIENTS} clients`);
const times = Object.fromEntries(Object.keys(MEASURES).map((name) => [name, { wall: [], work: [] }]));
const browser = await launch();
// The first round includes the browser's start, and does not count.
for (let round = 0; round <= ROUNDS; round += 1) {
  const stage = await open({ panel: weir.panel, given: browser });
  await stage.page.addInitScript(instruments);
  const cdp = await stage.page.context().newCDPSession(stage.page);
  await cdp.send('Performance.setTimeDomain', { timeDomain: 'threadTicks' });
  await cdp.send('Performance.enable');
  let before = await worked(cdp);
  await stage.goTo('pools');
  for (const [name, measure] of Object.entries(MEASURES)) {
    const wall = await measure(stage.page, { pools: POOLS });
    const now = await worked(cdp);
    if (name.startsWith('first rows') && round < 2) {
      console.log(`${name}: ${Math.round(wall)} ms${round === 0 ? ' in a browser that has just begun' : ', by this:'}`);
      if (round === 1) console.table(await asked(stage.page));
    }
    if (round > 0) {
      times[name].wall.push(wall);
      times[name].work.push(1000 * (now - before));
    }
    before = now;
  }
  await stage.close();
}
console.table(Object.fromEntries(Object.entries(times).map(([name, of]) => [name, {
  'median ms': Math.round(median(of.wall)), least: Math.round(Math.min(...of.wall)), most: Math.round(Math.max(...of.wall)),
  'at work, median': Math.round(median(of.work)),
}])));
await browser.close();
sockets.forEach((socket) => socket.destroy());
await stop();
await until('the clients are gone', async () => (await (await fetch(`${weir.panel}api/v1/status`)).json()).clients === 0);
await weir.stop();
