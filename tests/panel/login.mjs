// Who must log in does, and is offered what their role may. A Weir of its own: that of the stand is open to everybody.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { flaws, open, until } from './stage.mjs';

const WEIR = process.env.WEIR_BIN;
const PASSWORD = 'seven swift swans';
let folder, weir, panel;

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

function account(name, role) {
  return execFileSync(WEIR, ['account', name, '--role', role], { input: `${PASSWORD}\n`, stdio: ['pipe', 'pipe', 'ignore'] });
}

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'weir-panel-'));
  const [port, web] = [await freePort(), await freePort()];
  panel = `http://127.0.0.1:${web}/`;
  const config = `[listen]
address = "127.0.0.1"
port = ${port}
[auth]
type = "trust"
[web]
address = "127.0.0.1"
port = ${web}
[web.users]
${account('ann', 'admin')}${account('vera', 'viewer')}[pools.app]
host = "127.0.0.1"
size = 2
`;
  writeFileSync(join(folder, 'weir.toml'), config, { mode: 0o600 });
  weir = spawn(WEIR, ['serve', join(folder, 'weir.toml')], { stdio: 'ignore' });
  await until('it serves', () => fetch(`${panel}healthz`).then((answer) => answer.ok, () => false));
});

after(() => {
  weir.kill('SIGQUIT');
  rmSync(folder, { recursive: true });
});

async function login(stage, user, password) {
  await stage.goTo('pools');
  await stage.page.getByLabel('User').fill(user);
  await stage.page.getByLabel('Password').fill(password);
  await stage.page.getByRole('button', { name: 'Log in' }).click();
}

test('nobody sees anything before the login, and a wrong password is said', async () => {
  const stage = await open({ panel });
  try {
    await login(stage, 'ann', 'not this one');
    await stage.page.getByText('User or password are not right').waitFor();
    assert.equal(await stage.page.getByText('app', { exact: true }).count(), 0);
    assert.deepEqual(await flaws(stage.page), []);
  } finally {
    await stage.close();
  }
});

test('an admin logs in, makes a change that the audit log has, and logs out', async () => {
  const stage = await open({ panel });
  const { page } = stage;
  try {
    await login(stage, 'ann', PASSWORD);
    await page.getByRole('link', { name: 'app', exact: true }).click();
    await page.getByRole('link', { name: 'Change…' }).click();
    await page.locator('#field-size').fill('3');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('app is changed: size').waitFor();
    await page.getByRole('link', { name: 'Audit' }).click();
    const entry = page.getByRole('row', { name: /ann.*change pool app.*200/ });
    await entry.waitFor();
    await page.getByRole('button', { name: 'ann' }).click();
    await page.getByRole('button', { name: 'Log in' }).waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Log in' }).waitFor();
  } finally {
    await stage.close();
  }
});

test('a viewer is offered nothing that a viewer may not do', async () => {
  const stage = await open({ panel });
  const { page } = stage;
  try {
    await login(stage, 'vera', PASSWORD);
    await page.getByRole('link', { name: 'app', exact: true }).click();
    await page.getByRole('heading', { name: 'Clients' }).waitFor();
    for (const name of ['Pause', 'Kill', 'Disable']) assert.equal(await page.getByRole('button', { name }).count(), 0, name);
    for (const name of ['Change…', 'Audit']) assert.equal(await page.getByRole('link', { name }).count(), 0, name);
    await stage.goTo('pools');
    await page.getByRole('link', { name: 'app', exact: true }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'New pool' }).count(), 0);
  } finally {
    await stage.close();
  }
});
