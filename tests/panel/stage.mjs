// The browser and the page that the checks work with, and what is always true of the page: it asks nobody but Weir, breaks
// no rule of its policy, and writes no error.
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
/** A busy machine is no failure. */
const PATIENCE = Number(env.PATIENCE ?? 60000);

export function launch() {
  return chromium.launch({ executablePath: env.BROWSER, args: ['--no-sandbox'] });
}

/** A page, in a browser of its own unless one is given. It remembers nothing of any other. */
export async function open({ theme = 'light', width = 1280, height = 900, panel = PANEL, given = null } = {}) {
  const browser = given ?? (await launch());
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
  const login = async (user, password) => {
    await goTo('pools');
    await page.getByLabel('User').fill(user);
    await page.getByLabel('Password').fill(password);
    await page.getByRole('button', { name: 'Log in' }).click();
  };
  const close = async () => {
    await (given ? context : browser).close();
    assert.deepEqual(wrong, [], 'the page asked nobody else and made no error');
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

/** Waits until a condition of this program holds; some take their time on a fast machine already. */
export async function until(what, holds, times = 1) {
  const end = Date.now() + times * PATIENCE;
  while (!(await holds())) {
    assert.ok(Date.now() < end, `waited in vain until ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

export async function api(path, panel = PANEL) {
  return (await fetch(`${panel}api/v1/${path}`)).json();
}

/** What operators look for on a page, by the words they read. */
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
