// What changed in the hour before an incident: a setting, Weir itself, and a new version of an application, in this order; while it
// lasts, and when it is over.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { client } from './load.mjs';
import { looks } from './looks.mjs';
import { inBrowser, server, until } from './stage.mjs';
import { serve } from './weir.mjs';

const served = (history) => serve(`history = ${JSON.stringify(history)}
[auth]
type = "trust"
[auth.users]
app = ""
[pools.shop]
host = "127.0.0.1"
port = ${server.port}
database = ${JSON.stringify(server.database)}
user = ${JSON.stringify(server.user)}
password = ${JSON.stringify(server.password)}
size = 1
query_wait_timeout = "120s"
`);

async function connect(weir, name) {
  const one = client(`postgresql://app@127.0.0.1:${weir.port}/shop?sslmode=disable&application_name=${encodeURIComponent(name)}`);
  one.on('error', () => {});
  await one.connect();
  return one;
}

test('an incident names a changed setting, the restart and the new version of an application', async () => {
  const history = mkdtempSync(join(tmpdir(), 'weir-changed-'));
  const all = [];
  let weir = await served(history);
  try {
    all.push(await connect(weir, 'web/1.0'));
    await all[0].query('SELECT 1');
    const file = join(history, 'changes');
    await until('the application is known', () => existsSync(file) && readFileSync(file, 'utf8').includes('web/1.0'));
    await all[0].end();
    await weir.stop();
    weir = await served(history);
    const changed = await fetch(`${weir.panel}api/v1/settings/query_wait_timeout`, {
      method: 'PUT', headers: { 'content-type': 'application/json' }, body: '{"value": "77s"}',
    });
    assert.equal(changed.status, 200);
    const [holder, other] = [await connect(weir, 'web/1.1'), await connect(weir, 'web/1.0')];
    all.push(holder, other);
    await holder.query('BEGIN; SELECT 1');
    const waits = other.query('SELECT 1').catch(() => {});
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('incidents');
      const list = page.getByRole('region', { name: 'Incident of shop' }).getByRole('list', { name: 'What changed in the hour before' });
      await list.waitFor();
      await until('all are there', async () => (await list.getByRole('listitem').count()) === 3);
      const lines = await list.getByRole('listitem').allTextContents();
      assert.match(lines[0], /set query_wait_timeout/);
      assert.match(lines[1], /\d Weir [\d.]+ was restarted$/);
      assert.match(lines[2], /"web\/1\.1" came to shop, a version that was not seen before \("web\/1\.0" was\)$/);
      assert.deepEqual(await looks(page, 'changed'), []);
      await holder.query('COMMIT');
      await waits;
      const past = page.getByRole('table', { name: /^Past incidents/ }).getByRole('row', { name: /stalled/ });
      await past.getByText(/Changed in the hour before: .*query_wait_timeout.*restarted.*"web\/1\.1" came to shop/).waitFor();
      assert.deepEqual(await looks(page, 'changed-past'), []);
    });
  } finally {
    all.forEach((one) => one.connection?.stream?.destroy());
    await weir.stop();
    rmSync(history, { recursive: true, force: true });
  }
});
