// Logins to the panel through a real provider of OpenID Connect, and what must not be one.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { CLIENT, claiming, provider, symmetric, unsigned } from './provider.mjs';
import { inBrowser } from './stage.mjs';
import { accounts, PASSWORD, serve } from './weir.mjs';

const BUTTON = 'Log in at the company';
let weir, panel, idp, folder;

before(async () => {
  idp = await provider({ dora: ['staff', 'dba'], otto: ['oncall'], vera: ['staff'], mallory: ['guests'] });
  folder = mkdtempSync(join(tmpdir(), 'weir-sso-'));
  const secret = join(folder, 'secret');
  writeFileSync(secret, `${CLIENT.secret}\n`, { mode: 0o600 });
  weir = await serve(`${accounts({ ann: 'admin' })}
[web.oidc]
issuer = "${idp.issuer}"
client_id = "${CLIENT.id}"
client_secret = "file:${secret}"
label = "${BUTTON}"
admin_groups = ["dba"]
operator_groups = ["oncall"]
viewer_groups = ["staff"]
[auth]
type = "trust"
[pools.app]
host = "127.0.0.1"
size = 2
`);
  ({ panel } = weir);
  await idp.begin(panel);
});
after(async () => {
  idp.stop();
  await weir.stop();
  rmSync(folder, { recursive: true, force: true });
});

const inPanel = (then) => inBrowser({ panel, also: [idp.issuer] }, then);

async function enter(page, account) {
  await page.goto(panel);
  await page.getByRole('link', { name: BUTTON }).click();
  await page.getByLabel('Account').fill(account);
  await page.getByRole('button', { name: 'Continue' }).click();
}

/** Tries to enter, and sees why not. No session has begun. */
async function refused(page, account, text) {
  await enter(page, account);
  await page.getByText(text).waitFor();
  assert.equal((await page.request.get(`${panel}api/v1/pools`)).status(), 401);
}

const INVALID = 'The identity provider sent an identity that is not valid';

test('groups of the provider are roles, and the audit log has the login', () => inPanel(async ({ page, goTo }) => {
  await enter(page, 'dora');
  await page.getByRole('link', { name: 'app', exact: true }).click();
  await page.getByRole('link', { name: 'Change…' }).waitFor();
  await goTo('audit');
  await page.getByText('sso:dora').first().waitFor();
  const me = await (await page.request.get(`${panel}api/v1/me`)).json();
  assert.deepEqual(me, { user: 'sso:dora', role: 'admin', login_needed: true });
}));

test('a group with a smaller role may do less', () => inPanel(async ({ page }) => {
  await enter(page, 'vera');
  await page.getByRole('link', { name: 'app', exact: true }).click();
  await page.getByRole('heading', { name: 'Clients' }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'Change…' }).count(), 0);
  const pause = await page.request.post(`${panel}api/v1/pools/app/pause`, { headers: { 'X-Weir-Panel': '1' } });
  assert.equal(pause.status(), 403);
}));

test('a logout ends the session here and at the provider', () => inPanel(async ({ page }) => {
  await enter(page, 'otto');
  await page.getByRole('button', { name: 'sso:otto' }).click();
  await page.getByRole('button', { name: 'Leave' }).click();
  await page.getByRole('link', { name: BUTTON }).waitFor();
  assert.equal((await page.request.get(`${panel}api/v1/pools`)).status(), 401);
  await page.getByRole('link', { name: BUTTON }).click();
  await page.getByLabel('Account').waitFor();
}));

test('passwords go on to work beside it', () => inPanel(async ({ page, login }) => {
  await login('ann', PASSWORD);
  await page.getByRole('link', { name: 'app', exact: true }).waitFor();
}));

test('a user without a listed group is refused, and the log names the user', () => inPanel(async ({ page }) => {
  await refused(page, 'mallory', 'None of your groups may use this panel');
  assert.match(weir.log(), /no group of sso:mallory has a role/);
}));

test('a user whom the provider refuses sees that', () => inPanel(async ({ page }) => {
  await refused(page, '', 'The identity provider refused the login');
}));

const now = () => Math.floor(Date.now() / 1000);
const forgeries = {
  'of another login': [claiming({ nonce: 'other' }), 'nonce'],
  'that has expired': [claiming({ exp: now() - 3600, iat: now() - 7200 }), 'expired'],
  'for another client': [claiming({ aud: 'other' }), 'aud'],
  'of another issuer': [claiming({ iss: 'https://idp.example' }), 'iss'],
  'for several clients, issued to another': [claiming({ aud: ['weir', 'other'], azp: 'other' }), 'azp'],
  'without a signature': [unsigned, 'header'],
  'signed with the shared secret': [symmetric, 'HS256'],
};
for (const [name, [fault, reason]] of Object.entries(forgeries)) {
  test(`a token ${name} is refused`, () => inPanel(async ({ page }) => {
    idp.faults.token = fault;
    try {
      await refused(page, 'dora', INVALID);
    } finally {
      idp.faults.token = null;
    }
    assert.match(weir.log().split('single sign-on:').pop(), new RegExp(reason));
  }));
}

test('an answer with another state, or a second time, is refused', () => inPanel(async ({ page }) => {
  let answer = null;
  page.on('request', (request) => {
    if (request.url().includes('/oidc/callback')) answer = request.url();
  });
  await enter(page, 'dora');
  await page.getByRole('link', { name: 'app', exact: true }).waitFor();
  const used = new URL(answer);
  await page.context().clearCookies();
  for (const url of [used.href, `${panel}api/v1/oidc/callback?code=x&state=y`, `${panel}api/v1/oidc/callback`]) {
    await page.goto(url);
    await page.getByText('The login took too long, or was begun in another browser').waitFor();
    assert.equal((await page.request.get(`${panel}api/v1/pools`)).status(), 401);
  }
  // Another login with the code of the first one: the provider knows it as used.
  const begun = await page.request.get(`${panel}api/v1/oidc/login`, { maxRedirects: 0 });
  const state = new URL(begun.headers().location).searchParams.get('state');
  used.searchParams.set('state', state);
  await page.goto(used.href);
  await page.getByText('The identity provider refused the login').waitFor();
  assert.match(weir.log(), /invalid_grant/);
}));

test('an answer that comes into another browser is refused, and that of the owner still counts', () => inPanel(async ({ page }) => {
  await page.goto(panel);
  const begun = await page.request.get(`${panel}api/v1/oidc/login`, { maxRedirects: 0 });
  const state = new URL(begun.headers().location).searchParams.get('state');
  const foreign = await fetch(`${panel}api/v1/oidc/callback?code=x&state=${state}`, { redirect: 'manual' });
  assert.match(foreign.headers.get('location'), /login=expired$/);
  const own = await page.request.get(`${panel}api/v1/oidc/callback?code=x&state=${state}&iss=${idp.issuer}`, { maxRedirects: 0 });
  assert.match(own.headers().location, /login=refused$/, 'it got as far as the exchange of the code');
}));

test('keys that the provider changes are read again', () => inPanel(async ({ page }) => {
  for (const algorithm of ['RS256', 'ES256', 'EdDSA']) {
    await idp.rotate(algorithm);
    await enter(page, 'dora');
    await page.getByRole('link', { name: 'app', exact: true }).waitFor();
    await page.context().clearCookies();
  }
}));

test('a provider that fails is reported, and one that hangs delays nothing else', () => inPanel(async ({ page }) => {
  idp.faults.answer = (ctx) => {
    ctx.status = 503;
    ctx.body = 'later';
  };
  await refused(page, 'dora', 'The identity provider cannot be used');
  await page.context().clearCookies();
  let release;
  const released = new Promise((done) => (release = done));
  idp.faults.answer = () => released;
  const entering = enter(page, 'dora').then(() => page.getByRole('link', { name: 'app', exact: true }).waitFor());
  const start = Date.now();
  const login = await fetch(`${panel}api/v1/login`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ user: 'ann', password: PASSWORD }),
  });
  assert.equal(login.status, 200);
  for (let times = 0; times < 20; times += 1) assert.equal((await fetch(`${panel}healthz`)).status, 200);
  assert.ok(Date.now() - start < 9000, 'shorter than the timeout of a request to the provider');
  release();
  idp.faults.answer = null;
  await entering;
}));
