// Users: an operator with an empty Weir makes a pool and a user, and connects an application; and what can be done to a user
// afterwards. All with a list of users in a file, as README has it, and with Weir's own.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { client } from './load.mjs';
import { looks } from './looks.mjs';
import { open, server, until, words } from './stage.mjs';
import { serve } from './weir.mjs';

/** What somebody who has never run a pooler may need, in milliseconds; the pages need seconds of it. */
const THREE_MINUTES = 180_000;
const STORES = [
  ['of its own', '[auth]\ntype = "scram-sha-256"\n', {}],
  ['in a file', '[auth]\ntype = "scram-sha-256"\nfile = "userlist.txt"\n', { 'userlist.txt': '"other" "hush"\n' }],
];

async function works(address) {
  const driver = client(address);
  await driver.connect();
  const answer = (await driver.query('SELECT 6 * 7 AS answer')).rows[0].answer;
  await driver.end();
  return answer === 42;
}

for (const [store, text, files] of STORES) {
  test(`with a list ${store}`, async (suite) => {
    let weir, stage, page, on, address;
    const others = 'userlist.txt' in files;
    const user = async () => (await fetch(`${weir.panel}api/v1/users/shop`)).json();
    const withPassword = (password) => address.replace(/:[^:@/]*@/, `:${encodeURIComponent(password)}@`);

    weir = await serve(text, files);
    stage = await open({ panel: weir.panel });
    ({ page } = stage);
    on = words(page);

    await suite.test('from nothing to an application that is connected', async () => {
      const begun = Date.now();
      await stage.goTo('new');
      await on.field('Host').fill(server.host);
      await on.field('Port').fill(server.port);
      await on.field('Database').fill(server.database);
      await on.field('User').fill(server.user);
      await on.field('Password').fill(server.password);
      // Only the application's own user is to be let in.
      await page.getByRole('checkbox', { name: /^Clients may log in to Weir as/ }).uncheck();
      await on.button('Create pool').click();
      // Where there is a user already, it is named; but never the one that the pool has at the server.
      if (others) {
        await page.getByText('Waiting for the first client').waitFor();
        assert.equal(await on.field('User').inputValue(), 'other');
      } else await page.getByText('No user may log in to this pool yet.').waitFor();
      await on.link(others ? 'Create another user' : 'Create a user').click();
      await on.button('Create user').click();
      await page.locator('#field-name:focus').waitFor();
      await on.field('Name').fill('shop');
      await on.button('Generate').click();
      assert.deepEqual(await looks(page, `new-user-${others ? 'file' : 'own'}`), []);
      await on.button('Create user').click();
      await page.getByText('Waiting for the first client').waitFor();
      assert.equal(await on.field('User').inputValue(), 'shop', 'the client’s user, not the server’s');
      const shown = await page.getByLabel('URI', { exact: true }).textContent();
      assert.ok(shown.includes('shop:••••@'), 'the screen does not have the password');
      await on.button('Try it').click();
      await page.getByText('It works.').waitFor();
      assert.deepEqual(await looks(page, `connect-${others ? 'file' : 'own'}`), []);
      await on.button('Copy URI').click();
      address = await page.evaluate(() => navigator.clipboard.readText());
      assert.ok(await works(address));
      assert.ok(Date.now() - begun < THREE_MINUTES);
      assert.equal((await user()).secret, 'scram-sha-256');
    });

    await suite.test('a wrong password says what to do', async () => {
      await page.getByLabel('Password of shop').fill('wrong');
      await on.button('Try it').click();
      await page.getByText('type it again, or set a new one').waitFor();
    });

    await suite.test('both passwords are valid for a while, and the list says until when', async () => {
      await stage.goTo('users/shop');
      await on.field('New password').fill('the second one');
      await on.field('The old one').selectOption('stays valid for a day');
      await on.button('Change password').click();
      await page.getByText('The old password is valid too').waitFor();
      assert.ok((await works(address)) && (await works(withPassword('the second one'))));
      assert.deepEqual(await looks(page, `user-${others ? 'file' : 'own'}`), []);
      await stage.goTo('users');
      await page.getByText(/old password until/).waitFor();
      await on.link('shop').click();
      await on.button('End it now').click();
      await page.getByText('The old password is valid too').waitFor({ state: 'detached' });
      await assert.rejects(works(address), { code: '28P01' });
      assert.ok(await works(withPassword('the second one')));
      address = withPassword('the second one');
    });

    await suite.test('a disabled user can’t log in, and its clients can be disconnected', async () => {
      const driver = client(address);
      driver.on('error', () => {});
      const gone = new Promise((done) => driver.on('end', done));
      await driver.connect();
      await on.button('Disable…').click();
      await on.confirm('Disable');
      await page.getByText('shop can’t log in.').waitFor();
      await assert.rejects(works(address), { code: '28000' });
      await driver.query('SELECT 1');
      await on.button('Disconnect them…').click();
      await on.confirm('Disconnect');
      await gone;
      await on.button('Enable').click();
      await page.getByText('shop can’t log in.').waitFor({ state: 'detached' });
      assert.ok(await works(address));
    });

    await suite.test('pools and limits', async () => {
      await page.getByRole('radio', { name: 'Only these:' }).check();
      await page.getByRole('checkbox', { name: server.database, exact: true }).check();
      await on.field('Max clients').fill('many');
      await on.button('Save').click();
      await page.locator('#field-max_user_client_connections[aria-invalid=true]').waitFor();
      await on.field('Max clients').fill('3');
      await on.button('Save').click();
      await on.notice(/^shop is changed/).waitFor();
      const { rules } = await user();
      assert.deepEqual(rules, { pools: [server.database], max_user_client_connections: 3 });
      assert.ok(await works(address));
    });

    await suite.test('a deleted user is gone from the list', async () => {
      await on.button('Delete…').click();
      await page.getByLabel(/^Type shop to confirm/).fill('shop');
      await on.confirm('Delete');
      await on.notice('User shop is deleted').waitFor();
      await until('it is gone', async () => (await fetch(`${weir.panel}api/v1/users/shop`)).status === 404);
      await assert.rejects(works(address), { code: '28P01' });
    });

    await stage.close();
    await weir.stop();
  });
}
