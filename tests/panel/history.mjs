// The history of the configuration: a pool is changed over the API and rolled back in the browser; the file has it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { looks } from './looks.mjs';
import { open, until, words } from './stage.mjs';
import { serve } from './weir.mjs';

let weir, stage, page, on;

before(async () => {
  weir = await serve('[auth]\ntype = "trust"\n[pools.app]\nhost = "127.0.0.1"\nuser = "joe"\npassword = "hush"\nsize = 4\n');
  stage = await open({ panel: weir.panel });
  ({ page } = stage);
  on = words(page);
});
after(async () => {
  await stage?.close();
  await weir?.stop();
});

async function change(body, comment) {
  const answer = await fetch(`${weir.panel}api/v1/pools/app?comment=${encodeURIComponent(comment)}`, {
    method: 'PATCH',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  assert.equal(answer.status, 200, await answer.text());
}

test('a change of a pool is rolled back: first what it would do, then the file has it', async () => {
  await change({ size: 9 }, 'for the sale');
  assert.match(weir.file(), /size = 9/);
  await stage.goTo('history');
  await page.getByText('for the sale').waitFor();
  await page.getByRole('row', { name: /for the sale/ }).getByText('current', { exact: true }).waitFor();
  await on.button('Roll back to version 1').click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('This will disconnect nobody.').waitFor();
  await dialog.getByText('size', { exact: false }).first().waitFor();
  assert.match(weir.file(), /size = 9/, 'nothing is changed before it is confirmed');
  assert.deepEqual(await looks(page, 'roll-back'), []);
  await on.field('Comment').fill('the sale is over');
  await on.confirm('Roll back');
  await on.notice('The configuration is that of version 1').waitFor();
  assert.match(weir.file(), /size = 4/);
  assert.match(weir.file(), /password = "hush"/, 'the secret stays');
  await page.getByText('the sale is over').waitFor();
  const pool = await (await fetch(`${weir.panel}api/v1/pools/app`)).json();
  assert.equal(pool.size, 4);
});

test('a roll back that is cancelled changes nothing, and one after another change is refused', async () => {
  await change({ size: 7 }, 'a second time');
  await on.button('Refresh').click();
  await page.getByText('a second time').waitFor();
  await on.button('Roll back to version 1').click();
  await page.getByRole('dialog').getByText('This will disconnect nobody.').waitFor();
  await on.confirm('Cancel');
  assert.match(weir.file(), /size = 7/);
  await on.button('Roll back to version 1').click();
  await page.getByRole('dialog').getByText('This will disconnect nobody.').waitFor();
  await change({ size: 8 }, 'somebody else');
  await on.confirm('Roll back');
  await on.notice('Somebody else was faster').waitFor();
  assert.match(weir.file(), /size = 8/);
});

test('an undo takes back its own change, and never one that somebody else has made since', async () => {
  const undo = page.getByRole('region', { name: 'Notices' }).getByRole('button', { name: 'Undo' });
  const set = async (value) => {
    await stage.goTo('settings?q=query_wait_timeout');
    await on.button('Change query_wait_timeout').click();
    await on.field('New value of query_wait_timeout').fill(value);
    await on.button('Set').click();
    await on.notice(`query_wait_timeout is ${value}`).waitFor();
  };
  await set('77');
  await undo.click();
  await until('it is set back', () => !/query_wait_timeout = "?77/.test(weir.file()));
  await set('78');
  await change({ size: 10 }, 'somebody else again');
  await undo.click();
  await on.notice('query_wait_timeout was not set back: the configuration was changed since').waitFor();
  assert.match(weir.file(), /query_wait_timeout = "?78/);
  assert.match(weir.file(), /size = 10/);
  await change({ size: 8 }, 'as before');
  await stage.goTo('history');
});

test('a change by hand is a version of the way by which it came', async () => {
  weir.edit((text) => text.replace('size = 8', 'size = 6'));
  weir.hangUp();
  await until('the version is there', async () => {
    const { versions } = await (await fetch(`${weir.panel}api/v1/config/versions`)).json();
    return versions[0].via === 'signal';
  });
  await on.button('Refresh').click();
  await page.getByRole('cell', { name: 'SIGHUP' }).waitFor();
});

test('a reload shows first what the file changes and what waits for a restart, and changes nothing before', async () => {
  await stage.goTo('settings');
  const effects = Object.fromEntries((await (await fetch(`${weir.panel}api/v1/settings`)).json()).map(({ key, effect, section }) => [key, section === 'pgbouncer' ? '' : effect]));
  await page.getByRole('button', { name: 'Change query_wait_timeout' }).waitFor();
  // The words on the page are those of the table of settings, for each of them.
  const said = await page.locator('main li').evaluateAll((lines) => lines.map((line) => [line.querySelector('.key')?.textContent, line.querySelector('.names code:last-of-type')?.textContent, line.textContent.includes('needs a restart')]));
  const settings = await (await fetch(`${weir.panel}api/v1/settings`)).json();
  assert.equal(said.length, settings.length);
  const wrong = said.filter(([name, code, restart]) => restart !== (effects[code && effects[code] !== undefined ? code : name] === 'restart'));
  assert.deepEqual(wrong, []);
  assert.ok(said.filter(([, , restart]) => restart).length > 20);

  const pool = async () => (await (await fetch(`${weir.panel}api/v1/pools/app`)).json()).size;
  const before = await pool();
  weir.edit((text) => text.replace(/\bsize = \d+/, 'size = 60').replace('[listen]\n', '[general]\nworkers = 2\n[listen]\n'));
  await on.button('Reload the file…').click();
  const dialog = page.getByRole('dialog', { name: 'Reload the file' });
  await dialog.getByText(/This will disconnect nobody\..*Only after a restart: general\.workers\./).waitFor();
  await dialog.getByRole('listitem').filter({ hasText: 'general.workers' }).getByText('needs a restart').waitFor();
  const size = dialog.getByRole('listitem').filter({ hasText: 'pool app · size' });
  assert.match(await size.textContent(), new RegExp(`${before}\\s*→\\s*60`));
  assert.equal(await size.getByText('needs a restart').count(), 0);
  assert.deepEqual(await looks(page, 'reload'), []);
  assert.equal(await pool(), before, 'nothing is changed yet');
  await on.confirm('Cancel');
  assert.equal(await pool(), before);
  await on.button('Reload the file…').click();
  await on.confirm('Reload');
  await on.notice('The file is read again and in force').waitFor();
  assert.equal(await pool(), 60);
});

test('a file that would be refused is shown with its error, and is read again once it is corrected', async () => {
  weir.edit((text) => text.replace('size = 60', 'size = "many"'));
  await on.button('Reload the file…').click();
  const dialog = page.getByRole('dialog', { name: 'The file can’t be reloaded' });
  await dialog.getByRole('alert').waitFor();
  assert.match(await dialog.getByRole('alert').textContent(), /weir\.toml.*size/);
  assert.equal(await dialog.getByRole('button', { name: 'Reload', exact: true }).count(), 0);
  assert.deepEqual(await looks(page, 'reload-refused'), []);
  weir.edit((text) => text.replace('size = "many"', 'size = 5'));
  await on.confirm('Read it again');
  await page.getByRole('dialog', { name: 'Reload the file' }).getByText(/60\s*→\s*5/).waitFor();
  await on.confirm('Reload');
  await on.notice('The file is read again and in force').last().waitFor();
  await until('it is in force', async () => (await (await fetch(`${weir.panel}api/v1/pools/app`)).json()).size === 5);
});
