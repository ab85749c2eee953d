// The pictures of the panel in docs/pictures, in both themes and some at a phone's width: the overview, a pool under a load that
// changes, and the form of a new pool. Run by hand after a change of the panel: `ROUNDS=30 tests/panel/run.sh pictures.mjs`. A
// round of the load takes two minutes; the overview shows an hour. Asserts nothing.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { load } from './load.mjs';
import { inBrowser, server, words } from './stage.mjs';
import { serve } from './weir.mjs';

const { env } = process;
/** The pools: their sizes, and the clients that each always has. */
const POOLS = { auth: [4, 1], billing: [5, 2], inventory: [3, 1], reports: [4, 1], search: [6, 3], shop: [8, 3] };
/** Seconds of each part of the load, with the clients that one of them has beside its own. */
const BUSY = 'shop';
const PARTS = [[25, 0], [25, 9], [20, 1], [25, 9], [15, 2], [10, 6]];
/** Of WebP. Text stays sharp at this, and a picture is far below the bound of its size. */
const QUALITY = 82;

const pool = ([name, [size]]) => `[pools.${name}]
host = "${server.host}"
port = ${server.port}
database = "${server.database}"
user = "${server.user}"
password = ${JSON.stringify(server.password)}
size = ${size}
`;
const weir = await serve(`[auth]\ntype = "any"\n${Object.entries(POOLS).map(pool).join('')}`);
const uri = (name) => `postgresql://${server.user}@127.0.0.1:${weir.port}/${name}?sslmode=disable`;

const { ROUNDS = '1' } = env;
const all = Array.from({ length: Number(ROUNDS) }, () => PARTS).flat();
const base = Object.entries(POOLS).map(([name, [, clients]]) => load(uri(name), clients));
for (const [seconds, clients] of all.slice(0, -1)) {
  const stop = clients > 0 ? load(uri(BUSY), clients) : null;
  await wait(seconds * 1000);
  await stop?.();
}
const last = load(uri(BUSY), PARTS.at(-1)[1]);
await wait(PARTS.at(-1)[0] * 1000);
for (const theme of ['light', 'dark']) {
  await inBrowser({ theme, width: 1280, height: 820, panel: weir.panel }, async ({ page, goTo }) => {
    await goTo('pools');
    await page.getByText(/(pools are healthy|not tried yet)$/).waitFor();
    await wait(2000);
    await save(page, `panel-overview-${theme}`);
    await goTo(`pools/${BUSY}`);
    await page.getByRole('img', { name: /^Wait for a server:.*p95 \d/ }).waitFor();
    await wait(2000);
    await save(page, `panel-pool-${theme}`);
    await goTo('new');
    const on = words(page);
    const fields = { Name: 'orders', Host: 'db.example.net', Port: '5432', Database: 'orders', User: 'orders', Password: 'server-secret' };
    for (const [label, text] of Object.entries(fields)) await on.field(label).fill(text);
    await page.locator('#field-size').fill('12');
    await page.evaluate(() => scrollTo(0, 0));
    await wait(500);
    await save(page, `panel-new-${theme}`);
  });
  await inBrowser({ theme, width: 390, height: 820, panel: weir.panel }, async ({ page, goTo }) => {
    await goTo('pools');
    await page.getByText(/(pools are healthy|not tried yet)$/).waitFor();
    await wait(2000);
    await save(page, `panel-phone-${theme}`);
  });
}
await last();
await Promise.all(base.map((stop) => stop()));
await weir.stop();

/** What the window shows, as WebP, which the browser's own interface for pictures does not write. */
async function save(page, name) {
  const browser = await page.context().newCDPSession(page);
  const { data } = await browser.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
  writeFileSync(join(env.SHOTS, `${name}.webp`), Buffer.from(data, 'base64'));
}
