// Users that must log in see only what their role permits. It runs its own Weir: the stand's accepts all users.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inBrowser } from './stage.mjs';
import { accounts, PASSWORD, serve } from './weir.mjs';

let weir, panel;

before(async () => {
  weir = await serve(`${accounts({ ann: 'admin', vera: 'viewer' })}[auth]
type = "trust"
[pools.app]
host = "127.0.0.1"
size = 2
`);
  ({ panel } = weir);
});
after(() => weir.stop());

test('nothing is shown before the login, and a wrong password is reported', () => inBrowser({ panel }, async ({ page, login }) => {
  await login('ann', 'not this one');
  await page.getByText('The user or the password is wrong').waitFor();
  assert.equal(await page.getByText('app', { exact: true }).count(), 0);
}));

test('an admin logs in, makes a change that the audit log has, and logs out', () => inBrowser({ panel }, async ({ page, login }) => {
  await login('ann', PASSWORD);
  await page.getByRole('link', { name: 'app', exact: true }).click();
  await page.getByRole('link', { name: 'Change…' }).click();
  await page.locator('#field-size').fill('3');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('app is changed: size').waitFor();
  await page.getByRole('link', { name: 'Audit' }).click();
  const entry = page.getByRole('row', { name: /ann.*change pool app.*done/ });
  await entry.waitFor();
  await page.getByRole('button', { name: 'ann' }).click();
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  await page.reload();
  await page.getByRole('button', { name: 'Log in' }).waitFor();
}));

test('a viewer sees no action that a viewer may not do', () => inBrowser({ panel }, async ({ page, goTo, login }) => {
  await login('vera', PASSWORD);
  await page.getByRole('link', { name: 'app', exact: true }).click();
  await page.getByRole('heading', { name: 'Clients' }).waitFor();
  for (const name of ['Pause', 'Kill', 'Disable']) assert.equal(await page.getByRole('button', { name }).count(), 0, name);
  for (const name of ['Change…', 'Audit']) assert.equal(await page.getByRole('link', { name }).count(), 0, name);
  await goTo('pools');
  await page.getByRole('link', { name: 'app', exact: true }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'Create pool' }).count(), 0);
}));
