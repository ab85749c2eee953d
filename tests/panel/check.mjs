// Functions of the pages: searching, sorting, and errors. The day of an operator is in day.mjs.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { env } from 'node:process';
import { after, before, test } from 'node:test';
import { open, server, words } from './stage.mjs';

let page, goTo, close, on;

before(async () => {
  ({ page, goTo, close } = await open());
  on = words(page);
});
after(async () => close());

test('the overview shows every pool, finds one by its name, and sorts', async () => {
  await goTo('pools');
  await on.link('app').waitFor();
  await on.link('session').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('sess');
  await on.link('app').waitFor({ state: 'detached' });
  await page.getByRole('searchbox').fill('');
  await on.link('app').waitFor();
  const names = () => page.locator('[role=row] .name a').allTextContents();
  assert.deepEqual(await names(), ['app', 'auto', 'session']);
  await on.button('Pool').click();
  assert.deepEqual(await names(), ['session', 'auto', 'app']);
  assert.equal(await page.locator('[aria-sort=descending]').count(), 1);
});

test('a mistake in a new pool is shown at its field', async () => {
  await on.link('Create pool').click();
  await on.field('Name').fill('app');
  await on.field('Host').fill(server.host);
  await on.button('Create pool').click();
  const name = on.field('Name');
  await page.locator('#field-name[aria-invalid=true]').waitFor();
  await page.getByText('there is a pool app already').waitFor();
  assert.ok(await name.evaluate((input) => input === document.activeElement), 'the focus is where the error is');
});

test('the lab’s reports are a click away, and the command that makes them can be copied', async () => {
  await goTo('lab');
  await page.getByText('No report yet.').waitFor();
  const verdicts = ['held', 'held', 'notheld'].map((verdict) => ({ verdict, text: 'a claim', why: '' }));
  const report = { format: 1, began: '2026-01-31T10:15:00Z', length: 'quick', experiments: [{ id: 'size', title: 'The size', claims: verdicts }] };
  mkdirSync(`${env.WEIR_LAB}/size-quick`, { recursive: true });
  writeFileSync(`${env.WEIR_LAB}/size-quick/report.json`, JSON.stringify(report));
  writeFileSync(`${env.WEIR_LAB}/size-quick/report.html`, '<!DOCTYPE html><title>A report</title><h1>Results</h1>');
  await on.button('Refresh').click();
  await page.getByText('2 held').waitFor();
  const opened = page.waitForEvent('popup');
  await on.link('Open report size-quick').click();
  await (await opened).getByRole('heading', { name: 'Results' }).waitFor();
  await (await opened).close();
  await on.button('Copy weir lab all --quick').click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'weir lab all --quick');
});
