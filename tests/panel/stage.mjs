// The browser, the page and the clients that the checks work with, and what is always true of the page: it asks nobody but
// Weir, breaks no rule of its policy, and writes no error.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import pg from 'pg';
import { chromium } from 'playwright-core';

const { env } = process;
export const PANEL = env.WEIR_PANEL;
export const server = {
  host: '127.0.0.1',
  port: env.PG_DIRECT_PORT,
  database: env.PG_DIRECT_DATABASE,
  user: env.WEIR_USER,
  password: env.WEIR_PASSWORD,
};
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** A busy machine is no failure. */
const PATIENCE = Number(env.PATIENCE ?? 60000);

export async function open({ theme = 'light', width = 1280, height = 900, panel = PANEL } = {}) {
  const browser = await chromium.launch({ executablePath: env.BROWSER, args: ['--no-sandbox'] });
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme });
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: new URL(panel).origin });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const wrong = [];
  page.on('request', (request) => {
    if (!request.url().startsWith(panel)) wrong.push(`asked ${request.url()}`);
  });
  page.on('pageerror', (error) => wrong.push(error.stack));
  page.on('console', (message) => {
    // An answer that is an error is a line of the browser's own; the checks look at what the page makes of it.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) wrong.push(message.text());
  });
  const goTo = (path) => page.goto(`${panel}#/${path}`);
  const close = async () => {
    await browser.close();
    assert.deepEqual(wrong, [], 'the page asked nobody else and made no error');
  };
  return { page, goTo, close };
}

/** What axe-core finds wrong with the page as it is now. */
export async function flaws(page) {
  // By the debugger, which the page's policy does not bind; the page itself could not load it.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' | ')}`);
}

/** Waits until a condition of this program holds. */
export async function until(what, holds) {
  const end = Date.now() + PATIENCE;
  while (!(await holds())) {
    assert.ok(Date.now() < end, `waited in vain until ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

export function client(connectionString) {
  const address = new URL(connectionString);
  address.password = encodeURIComponent(server.password);
  address.searchParams.delete('sslmode');
  return new pg.Client({ connectionString: address.href });
}

/** Clients that work until they are told to stop; what went wrong with any of them is told then. */
export async function load(connectionString, clients) {
  let stop = false;
  const errors = [];
  const works = Array.from({ length: clients }, async () => {
    const one = client(connectionString);
    one.on('error', (error) => errors.push(error.message));
    try {
      await one.connect();
      while (!stop) await one.query('SELECT pg_sleep(0.01)');
      await one.end();
    } catch (error) {
      errors.push(error.message);
    }
  });
  return async () => {
    stop = true;
    await Promise.all(works);
    return errors;
  };
}

export async function api(path) {
  return (await fetch(`${PANEL}api/v1/${path}`)).json();
}
