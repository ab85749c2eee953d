// The browser and the page of the checks, and what always holds for the page: it connects only to Weir, violates no
// rule of its content security policy, and logs no error.
import assert from 'node:assert/strict';
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
/** Its superuser, over the Unix socket. */
export const superuser = { host: env.PG_DIRECT_SOCKET, port: env.PG_DIRECT_PORT, database: env.PG_DIRECT_DATABASE, user: env.PG_DIRECT_SUPERUSER };
/** Generous, because the machine may be busy. */
const TIMEOUT = Number(env.TIMEOUT ?? 60000);

export function launch() {
  return chromium.launch({ executablePath: env.BROWSER, args: ['--no-sandbox'] });
}

/** A page, in a new browser unless one is given. It shares no state with other pages. `also`: other origins that it may
 * connect to. */
export async function open({ theme = 'light', width = 1280, height = 900, panel = PANEL, given = null, also = [] } = {}) {
  const browser = given ?? (await launch());
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme });
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: new URL(panel).origin });
  context.setDefaultTimeout(TIMEOUT);
  const page = await context.newPage();
  const wrong = [];
  page.on('request', (request) => {
    if (![panel, ...also].some((origin) => request.url().startsWith(origin))) wrong.push(`asked ${request.url()}`);
  });
  page.on('pageerror', (error) => wrong.push(error.stack));
  page.on('console', (message) => {
    // The browser logs an HTTP error as a line of its own; the checks look at the page's own error message.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) wrong.push(message.text());
  });
  const goTo = (path) => page.goto(`${panel}#/${path}`);
  const login = async (user, password) => {
    await goTo('pools');
    await page.getByLabel('User').fill(user);
    await page.getByLabel('Password').fill(password);
    await page.getByRole('button', { name: 'Log in' }).click();
  };
  const close = async () => {
    await (given ? context : browser).close();
    assert.deepEqual(wrong, [], 'the page connected only to Weir and logged no error');
  };
  return { page, goTo, login, close };
}

/** A browser for one check, which ends with it. */
export async function inBrowser(options, then) {
  const stage = await open(options);
  try {
    await then(stage);
  } finally {
    await stage.close();
  }
}

/** Waits until a condition of this program holds; some take long even on a fast machine. */
export async function until(what, holds, times = 1) {
  const end = Date.now() + times * TIMEOUT;
  while (!(await holds())) {
    assert.ok(Date.now() < end, `timeout: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

export async function api(path, panel = PANEL) {
  return (await fetch(`${panel}api/v1/${path}`)).json();
}

/** Finds elements of a page by their visible text, as operators do. */
export function words(page) {
  const button = (name) => page.getByRole('button', { name, exact: true });
  const link = (name) => page.getByRole('link', { name, exact: true });
  return {
    button,
    link,
    field: (label) => page.getByLabel(label, { exact: true }),
    notice: (text) => page.getByRole('region', { name: 'Notices' }).getByText(text),
    confirm: (name) => page.getByRole('dialog').getByRole('button', { name, exact: true }).click(),
  };
}
