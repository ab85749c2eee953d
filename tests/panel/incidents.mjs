// Incidents, as one on call sees them: within five seconds the first screen says what is wrong, for whom, since when, and what
// to do; and within seconds after the end it says so no more. The server is behind a forwarder of this file, which can be
// stopped, and can show a certificate that has expired.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { TLSSocket } from 'node:tls';
import pg from 'pg';
import { client } from './load.mjs';
import { looks } from './looks.mjs';
import { inBrowser, server, superuser, until, words } from './stage.mjs';
import { serve } from './weir.mjs';

/** So many are played at a time, each with a Weir of its own: they mostly wait. */
const AT_ONCE = 4;
const incidents = [];
const check = (name, play) => incidents.push([name, play]);

/** How long the first screen may take; a loaded machine gets more with SLOWER. */
const SOON = 5000 * Number(process.env.SLOWER ?? 1);
const GREY = 3000 * Number(process.env.SLOWER ?? 1);

/** A server that can be stopped and started: what comes is passed on to the real one, or handled by `answer`. */
async function forwarder(answer = null) {
  const sockets = new Set();
  const pass = (socket) => {
    const other = connect(Number(server.port), server.host);
    for (const [from, to] of [[socket, other], [other, socket]]) {
      sockets.add(from);
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => (sockets.delete(from), to.destroy()));
    }
  };
  const listener = createServer(answer ?? pass);
  const start = async (port) => once(listener.listen(port, '127.0.0.1'), 'listening');
  await start(0);
  const { port } = listener.address();
  const stop = async () => {
    const closed = once(listener, 'close');
    listener.close();
    sockets.forEach((socket) => socket.destroy());
    await closed;
  };
  return { port, stop, start: () => start(port) };
}

/** A Weir with one pool, `shop`, and another that works, `blog`; `more` goes into shop's section. */
function weirBefore(port, more = '', password = server.password, rest = '') {
  const pool = (name, at, given, extra) => `[pools.${name}]
host = "127.0.0.1"
port = ${at}
database = ${JSON.stringify(server.database)}
user = ${JSON.stringify(server.user)}
password = ${JSON.stringify(given)}
${extra}
`;
  return serve(`[auth]\ntype = "trust"\n[auth.users]\napp = ""\n${rest}${pool('blog', server.port, server.password, '')}${pool('shop', port, password, more)}`);
}

const clients = (weir, count, application = '') => Array.from({ length: count }, () => {
  const one = client(`postgresql://app@127.0.0.1:${weir.port}/shop?sslmode=disable${application && `&application_name=${application}`}`);
  one.on('error', () => {});
  return one;
});

/** The first screen: the banner's text, once it says this; from the moment of the call within SOON. */
async function reported(page, ...expected) {
  const begun = Date.now();
  const banner = page.getByRole('region', { name: 'Problems' });
  for (const text of expected) await banner.getByText(text).first().waitFor({ timeout: SOON });
  const took = Date.now() - begun;
  assert.ok(took <= SOON, `it took ${took} ms`);
  assert.match(await banner.innerText(), /since \d\d:\d\d:\d\d/);
  // The longest advice goes on on the page of the incident.
  const fits = (why) => why.scrollHeight <= why.clientHeight + 1 || why.textContent.length > 400;
  assert.ok(await banner.locator('.why').evaluate(fits), 'what to do fits into the bar');
  assert.match(await page.title(), /^\(!\) shop /);
  assert.match(await page.locator('link[rel=icon]').getAttribute('href'), /weir-bad\.svg$/);
}

/** An incident that is kept up stays on the first screen: 20 and 60 seconds later it says the same, also to who opens the page then, and
 * it is never gone in between. */
async function stays(page, title, ...expected) {
  const banner = page.getByRole('region', { name: 'Problems' });
  const begun = Date.now();
  for (const seconds of [20, 60]) {
    while (Date.now() - begun < seconds * 1000) {
      assert.equal(await banner.count(), 1, `it is gone after ${(Date.now() - begun) / 1000} s`);
      await page.waitForTimeout(500);
    }
    if (seconds === 60) await page.reload();
    for (const text of expected) await banner.getByText(text).first().waitFor({ timeout: SOON });
    await until('the title says it', async () => title.test(await page.title()));
  }
}
const OF_SHOP = /^\(!\) shop /;

/** Problems come first in the list, though b comes before s. */
async function first(page) {
  await until('the broken pool is the first row', async () => (await page.locator('[role=row] .name a').first().textContent()) === 'shop');
}

/** The sentence about all pools does not say anything else than the banner. */
async function verdict(page, text) {
  await page.getByRole('region', { name: 'State of all pools' }).getByText(text, { exact: true }).waitFor();
}

async function over(page) {
  await page.getByRole('region', { name: 'Problems' }).waitFor({ state: 'detached' });
  await until('the title is calm', async () => !(await page.title()).startsWith('(!)'));
}

check('a server that is stopped is shown on every page, tried at once, and gone when it is back', async () => {
  const gate = await forwarder();
  const weir = await weirBefore(gate.port);
  const shop = clients(weir, 4);
  try {
    await Promise.all(shop.map((one) => one.connect()));
    await Promise.all(shop.map((one) => one.query('SELECT 1')));
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      await gate.stop();
      // A query that is sent to a server which is just being lost gets an error, and its client waits for none.
      await until('Weir has lost its servers', async () => (await (await fetch(`${weir.panel}api/v1/servers?pool=shop`)).json()).connections.length === 0);
      const queries = shop.map((one) => one.query('SELECT 1').catch(() => {}));
      await reported(page, 'shop', 'cannot connect', /refused/, /[2-4] clients affected: [2-4] waiting/, 'Check that the database server runs');
      await first(page);
      assert.deepEqual(await looks(page, 'incident-server-stopped'), []);
      await stays(page, OF_SHOP, 'cannot connect', /refused/, /[2-4] clients affected: [2-4] waiting/);
      await goTo('settings');
      await page.getByRole('region', { name: 'Problems' }).getByText('cannot connect').waitFor();
      assert.deepEqual(await looks(page, 'incident-server-stopped-settings'), []);
      await page.getByRole('button', { name: 'Try now to connect shop' }).click();
      await page.getByRole('region', { name: 'Notices' }).getByText('shop tries to connect').waitFor();
      await gate.start();
      await over(page);
      await Promise.all(queries);
    });
  } finally {
    await Promise.all(shop.map((one) => one.end().catch(() => {})));
    await weir.stop();
    await gate.stop().catch(() => {});
  }
});

check('a dead server is shown though no client asks for anything', async () => {
  const gate = await forwarder();
  const weir = await weirBefore(gate.port);
  const [one] = clients(weir, 1);
  try {
    await one.connect();
    await one.query('SELECT 1');
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      await gate.stop();
      await reported(page, 'shop', 'cannot connect', 'no client is affected now');
      await stays(page, OF_SHOP, 'cannot connect', 'no client is affected now');
      await gate.start();
      await over(page);
    });
  } finally {
    await one.end().catch(() => {});
    await weir.stop();
    await gate.stop().catch(() => {});
  }
});

check('a wrong password is a rejected login, in the server’s own words', async () => {
  const weir = await weirBefore(server.port, '', 'not this one');
  try {
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      const [one] = clients(weir, 1);
      await one.connect().catch(() => {});
      await reported(page, 'shop', 'login rejected', /password authentication failed.*\(28P01\)/, '1 refused try (1 application or address, each with all its clients)', "Correct the pool's user");
      await first(page);
      assert.deepEqual(await looks(page, 'incident-wrong-password'), []);
      await stays(page, OF_SHOP, 'login rejected', /\(28P01\)/, "Correct the pool's user");
      await page.getByRole('region', { name: 'Problems' }).getByRole('link', { name: 'Details' }).click();
      const incident = page.getByRole('region', { name: 'Incident of shop' });
      assert.match(await incident.getByRole('link', { name: 'Change…' }).getAttribute('href'), /pools\/shop\/change$/);
      const corrected = await fetch(`${weir.panel}api/v1/pools/shop`, {
        method: 'PATCH', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ password: server.password }),
      });
      assert.equal(corrected.status, 200, await corrected.text());
      const [two] = clients(weir, 1);
      await two.connect();
      await two.query('SELECT 1');
      await over(page);
      await two.end();
    });
  } finally {
    await weir.stop();
  }
});

check('a pause that is forgotten while clients wait is an incident until it ends', async () => {
  const weir = await weirBefore(server.port, 'query_wait_timeout = "300s"');
  const waiting = clients(weir, 2, 'web');
  const call = async (path) => assert.equal((await fetch(`${weir.panel}api/v1/pools/shop/${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })).status, 204);
  try {
    await Promise.all(waiting.map((one) => one.connect()));
    await Promise.all(waiting.map((one) => one.query('SELECT 1')));
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      await call('pause');
      await until('it is paused', async () => (await (await fetch(`${weir.panel}api/v1/pools/shop`)).json()).health.state === 'paused');
      assert.equal(await page.getByRole('region', { name: 'Problems' }).count(), 0, 'nobody waits');
      const waits = waiting.map((one) => one.query('SELECT 1'));
      // A pause is a problem after five seconds.
      await page.waitForTimeout(5000);
      await reported(page, 'shop', 'paused', /Clients wait since \d\d:\d\d:\d\d\./, '2 clients affected: 2 waiting; app ("web")', 'Resume the pool to serve its clients.');
      await first(page);
      assert.deepEqual(await looks(page, 'incident-paused'), []);
      await stays(page, OF_SHOP, 'paused', '2 clients affected: 2 waiting; app ("web")');
      await call('resume');
      await Promise.all(waits);
      await over(page);
    });
  } finally {
    await Promise.all(waiting.map((one) => one.end().catch(() => {})));
    await weir.stop();
  }
});

check('the banner and the incident name the users and applications that are affected', async () => {
  const weir = await weirBefore(server.port, 'size = 1\nquery_wait_timeout = "300s"');
  const [holder] = clients(weir, 1, 'billing');
  const others = [['web', 2], ['jobs', 1], ['mail', 1], ['reports', 1]].flatMap(([name, count]) => clients(weir, count, name));
  const all = [holder, ...others];
  try {
    await Promise.all(all.map((each) => each.connect()));
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      await holder.query('BEGIN; SELECT 1');
      const waits = others.map((each) => each.query('SELECT 1'));
      const named = '5 clients affected: 5 waiting; app ("web"), app ("jobs"), app ("mail") and 1 more client';
      await reported(page, 'shop', 'stalled', named);
      await stays(page, OF_SHOP, 'stalled', named);
      await goTo('incidents');
      const incident = page.getByRole('region', { name: 'Incident of shop' });
      await incident.getByText('5 clients affected: app ("web"), app ("jobs"), app ("mail") and 1 more client.').waitFor({ timeout: SOON });
      assert.deepEqual(await looks(page, 'incident-names'), []);
      await holder.query('COMMIT');
      await Promise.all(waits);
      await over(page);
    });
  } finally {
    all.forEach((each) => each.connection?.stream?.destroy());
    await weir.stop();
  }
});

check('a lock is on the first screen, though the pool has room for more and no client waits for a server', async () => {
  const weir = await weirBefore(server.port);
  const [holder] = clients(weir, 1, 'billing');
  const others = clients(weir, 2, 'web');
  try {
    await Promise.all([holder, ...others].map((each) => each.connect()));
    await Promise.all([holder, ...others].map((each) => each.query('SELECT 1')));
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      await holder.query('BEGIN; SELECT pg_advisory_xact_lock(815)');
      const waits = others.map((each) => each.query('SELECT pg_advisory_xact_lock(815)'));
      await reported(page, 'shop', 'blocked', '2 clients affected: 2 blocked; app ("web")', /Blocked by process \d+ \("billing" of app at/, 'A larger pool would be blocked as well');
      await first(page);
      assert.deepEqual(await looks(page, 'incident-lock'), []);
      await stays(page, OF_SHOP, 'blocked', '2 clients affected: 2 blocked; app ("web")', /Blocked by process \d+ \("billing" of app at/);
      await holder.query('COMMIT');
      await Promise.all(waits);
      await over(page);
    });
  } finally {
    [holder, ...others].forEach((each) => each.connection?.stream?.destroy());
    await weir.stop();
  }
});

check('a pool that one slow application exhausts is stalled while it idles, and saturated while it works', async () => {
  const weir = await weirBefore(server.port, 'size = 2\nquery_wait_timeout = "300s"');
  const shop = clients(weir, 5);
  const [one, two, ...others] = shop;
  try {
    await Promise.all(shop.map((each) => each.connect()));
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      await Promise.all([one, two].map((each) => each.query('BEGIN; SELECT 1')));
      let waits = others.map((each) => each.query('SELECT 1'));
      await reported(page, 'shop', 'stalled', '3 clients affected: 3 waiting', /2 of 2 servers in use are idle in transactions, .*the longest .* of app at/, 'Drop the clients that idle longest');
      await first(page);
      assert.deepEqual(await looks(page, 'incident-stalled'), []);
      await stays(page, OF_SHOP, 'stalled', '3 clients affected: 3 waiting', /2 of 2 servers in use are idle in transactions/);
      await Promise.all([one, two].map((each) => each.query('COMMIT')));
      await Promise.all(waits);
      await over(page);
      const slow = [one, two].map((each) => each.query('SELECT pg_sleep(90)').catch(() => {}));
      waits = others.map((each) => each.query('SELECT 1').catch(() => {}));
      await reported(page, 'shop', 'saturated', '3 clients affected: 3 waiting', /all 2 servers run long queries; the longest/, 'Cancel what is not needed');
      assert.deepEqual(await looks(page, 'incident-saturated'), []);
      await stays(page, OF_SHOP, 'saturated', '3 clients affected: 3 waiting', /all 2 servers run long queries; the longest/);
      await Promise.all([...slow, ...waits]);
      await over(page);
    });
  } finally {
    shop.forEach((each) => each.connection?.stream?.destroy());
    await weir.stop();
  }
});

check('a pool whose servers idle clients keep says which kinds, which application and which statement, and they can be dropped', async () => {
  const weir = await weirBefore(server.port, 'size = 3\nmode = "auto"\nlisten = "own"\nmax_pinned = 100\nquery_wait_timeout = "300s"');
  const kept = clients(weir, 3, 'jobs');
  const [other] = clients(weir, 1, 'web');
  try {
    await Promise.all([...kept, other].map((each) => each.connect()));
    await Promise.all(kept.map((each) => each.query('LISTEN gossip')));
    await kept[0].query('CREATE TEMP TABLE scratch (n int)');
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      const waits = other.query('SELECT 1');
      await reported(page, 'shop', 'saturated', '1 client affected: 1 waiting; app ("web")', /3 of 3 servers in use are kept by idle clients .*\(listen: 3, temporary_objects: 1\), most by "jobs" of app \(3\)/, /Let the application remove such state/);
      await first(page);
      assert.deepEqual(await looks(page, 'incident-pins'), []);
      await stays(page, OF_SHOP, 'saturated', '1 client affected: 1 waiting; app ("web")', /3 of 3 servers in use are kept by idle clients/);
      await goTo('pools/shop');
      await page.getByRole('region', { name: 'Pinned clients' }).getByText('by LISTEN').waitFor();
      await page.getByText('3 busy (3 pinned), 0 idle').waitFor();
      assert.deepEqual(await looks(page, 'pool-pins'), []);
      await goTo('pools/shop/servers');
      await page.getByText(/"jobs" of app, for .*: idle, pinned by LISTEN, temporary objects/).waitFor();
      await page.getByText('listen gossip').first().waitFor();
      assert.deepEqual(await looks(page, 'servers-pins'), []);
      await goTo('incidents');
      const incident = page.getByRole('region', { name: 'Incident of shop' });
      await incident.getByText(/^idle, pinned by LISTEN/).first().waitFor();
      assert.deepEqual(await looks(page, 'incident-pins-holders'), []);
      await incident.getByRole('button', { name: /^Drop client/ }).first().click();
      await page.getByRole('dialog').getByRole('button', { name: 'Drop client' }).click();
      await waits;
      await over(page);
      await goTo('pools/shop/change');
      assert.ok(await page.getByRole('radio', { name: /^auto/ }).isChecked(), 'the form knows the mode');
    });
  } finally {
    [...kept, other].forEach((each) => each.connection?.stream?.destroy());
    await weir.stop();
  }
});

check('a server whose certificate has expired cannot be connected to, and the reason is there', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-expired-'));
  const file = (name) => join(folder, name);
  const openssl = (...given) => execFileSync('openssl', given, { stdio: 'ignore' });
  writeFileSync(file('ext'), 'subjectAltName=IP:127.0.0.1\n');
  openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', file('ca.key'), '-out', file('ca.crt'), '-days', '2', '-subj', '/CN=authority');
  openssl('req', '-newkey', 'rsa:2048', '-nodes', '-keyout', file('key'), '-out', file('csr'), '-subj', '/CN=127.0.0.1');
  openssl('x509', '-req', '-in', file('csr'), '-CA', file('ca.crt'), '-CAkey', file('ca.key'), '-CAcreateserial', '-days', '0', '-extfile', file('ext'), '-out', file('crt'));
  // It is valid for the second in which it was made.
  await new Promise((done) => setTimeout(done, 1500));
  const identity = { key: readFileSync(file('key')), cert: readFileSync(file('crt')), isServer: true };
  const gate = await forwarder((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.write('S');
      new TLSSocket(socket, identity).on('error', () => {});
    });
  });
  const tls = `[tls.server]\nmode = "verify-full"\nca_file = ${JSON.stringify(file('ca.crt'))}\n`;
  const weir = await weirBefore(gate.port, '', server.password, tls);
  try {
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      const [one] = clients(weir, 1);
      void one.connect().catch(() => {});
      await reported(page, 'shop', 'cannot connect', /TLS handshake .*expired/i, /1 refused try/, "Renew the database server's certificate");
      assert.deepEqual(await looks(page, 'incident-certificate'), []);
      await stays(page, OF_SHOP, 'cannot connect', /TLS handshake .*expired/i, "Renew the database server's certificate");
    });
  } finally {
    await weir.stop();
    await gate.stop().catch(() => {});
    rmSync(folder, { recursive: true, force: true });
  }
});

/** Weir's own certificate for clients, of this many days from a time, and the settings for it. */
function ownCertificate(folder, days) {
  const [crt, key] = ['crt', 'key'].map((end) => join(folder, `weir.${end}`));
  const openssl = (...given) => execFileSync('openssl', given, { stdio: 'ignore' });
  openssl('req', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', `${crt}.csr`, '-subj', '/CN=weir');
  openssl('x509', '-req', '-in', `${crt}.csr`, '-signkey', key, '-out', crt, '-days', String(days));
  return `[tls.client]\nmode = "allow"\ncert_file = ${JSON.stringify(crt)}\nkey_file = ${JSON.stringify(key)}\n`;
}

check('Weir’s own certificate warns before it expires, and says afterwards who cannot connect', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-own-'));
  const soon = await weirBefore(server.port, '', server.password, ownCertificate(folder, 9));
  try {
    await inBrowser({ panel: soon.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      const banner = page.getByRole('region', { name: 'Problems' });
      await banner.getByText(/certificate for clients expires in [89] days; then clients that verify it/).waitFor({ timeout: SOON });
      await banner.getByText(/Renew .*weir\.crt, and reload/).waitFor();
      assert.match(await page.title(), /^Pools/, 'it is a warning');
      assert.deepEqual(await looks(page, 'incident-certificate-soon'), []);
      // Renewed, and in force after a reload: the warning is over.
      ownCertificate(folder, 90);
      soon.hangUp();
      await banner.waitFor({ state: 'detached' });
      ownCertificate(folder, 0);
      await page.waitForTimeout(1500);
      soon.hangUp();
      await banner.getByText(/certificate for clients has expired: clients that verify it .* cannot connect/).waitFor({ timeout: SOON });
      await banner.getByText(/since \d\d:\d\d:\d\d/).waitFor();
      assert.match(await page.title(), /^\(!\) certificate /);
      await verdict(page, 'A certificate has expired');
      assert.deepEqual(await looks(page, 'incident-certificate-own'), []);
      await until('the log has it', () => /certificate for clients has expired/.test(soon.log()));
      await stays(page, /^\(!\) certificate /, /certificate for clients has expired/);
      ownCertificate(folder, 90);
      soon.hangUp();
      await over(page);
    });
  } finally {
    await soon.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});

/** A small disk of its own, or none where this needs another user. */
function smallDisk() {
  const folder = mkdtempSync(join(tmpdir(), 'weir-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', folder], { stdio: 'ignore' });
    return folder;
  } catch {
    rmSync(folder, { recursive: true, force: true });
    return null;
  }
}

check('a full disk is shown with its error and what it costs, and gone when there is room', async (t) => {
  const folder = smallDisk();
  if (!folder) return t.skip('only root may mount a small disk');
  const filler = join(folder, 'filler');
  const pool = `[pools.blog]\nhost = "127.0.0.1"\nport = ${server.port}\ndatabase = "blog"\n`;
  const weir = await serve(`history = ${JSON.stringify(join(folder, 'history'))}\n[log]\nfile = ${JSON.stringify(join(folder, 'weir.log'))}\n[general]\nadmin_users = ["app"]\n[auth]\ntype = "trust"\n[auth.users]\napp = ""\n${pool}`);
  try {
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('blog').first().waitFor();
      try {
        writeFileSync(filler, Buffer.alloc(16 << 20));
      } catch {
        // It is full now.
      }
      const change = (seconds) => fetch(`${weir.panel}api/v1/settings/query_wait_timeout`, {
        method: 'PUT', headers: { 'content-type': 'application/json' }, body: `{"value": "${seconds}s"}`,
      });
      // More lines than the last block of the log has room for.
      for (let seconds = 77; seconds < 150; seconds += 1) {
        assert.equal((await change(seconds)).status, 200, 'a change is made all the same');
      }
      const banner = page.getByRole('region', { name: 'Problems' });
      await banner.getByText(/The history can't be written: .*no space is left/i).waitFor({ timeout: SOON });
      await banner.getByText(/Free space on the disk of \[web\] history/).waitFor();
      await banner.getByText(/since \d\d:\d\d:\d\d/).first().waitFor();
      await banner.getByRole('link', { name: '2 incidents' }).waitFor({ timeout: SOON });
      assert.match(await page.title(), /^\(!\) 2 incidents /);
      const { faults } = await (await fetch(`${weir.panel}api/v1/status`)).json();
      assert.deepEqual(faults.map(({ kind, problem }) => [kind, problem]), [['disk', true], ['disk', true]]);
      const metrics = await (await fetch(`${weir.panel}metrics`)).text();
      assert.match(metrics, /weir_faults\{kind="disk",state="now"\} 2/);
      const console = client(`postgresql://app@127.0.0.1:${weir.port}/pgbouncer?sslmode=disable`);
      await console.connect();
      const { rows } = await console.query('SHOW FAULTS');
      assert.deepEqual(rows.map((row) => [row.kind, row.state]), [['disk', 'now'], ['disk', 'now']]);
      await console.end();
      await verdict(page, 'A disk refuses what Weir writes');
      assert.deepEqual(await looks(page, 'incident-disk'), []);
      await stays(page, /^\(!\) 2 incidents /, /The history can't be written: .*no space is left/i, /Free space on the disk of \[web\] history/);
      await banner.getByRole('link', { name: '2 incidents' }).click();
      const log = page.getByRole('main').getByRole('region').filter({ hasText: /Free space on the disk of \[log\] file/ });
      await log.getByText(/The log can't be written: .*weir\.log: no space left/i).waitFor();
      await goTo('pools');
      rmSync(filler);
      await change(78);
      await banner.waitFor({ state: 'detached' });
      await verdict(page, 'The pool is not tried yet');
    });
  } finally {
    await weir.stop();
    execFileSync('umount', [folder]);
    rmSync(folder, { recursive: true, force: true });
  }
});

/** A client that tries again and again, as a program does; `stop` ends it. */
function program(connect) {
  let stopped = false;
  const run = (async () => {
    while (!stopped) {
      await connect().catch(() => {});
      await new Promise((done) => setTimeout(done, 100));
    }
  })();
  return async () => {
    stopped = true;
    await run;
  };
}

/** Asks for TLS, and leaves when there is none. */
async function asksForTls(port) {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]));
  const [answer] = await once(socket, 'data');
  assert.equal(String(answer), 'N');
  const closed = once(socket, 'close');
  socket.end();
  await closed;
}

check('clients that require TLS where none is offered are reported, and those that go on without it are not', async () => {
  const weir = await weirBefore(server.port);
  const plain = async () => {
    const [one] = clients(weir, 1);
    await one.connect();
    await one.end();
  };
  let stop = async () => {};
  try {
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      const banner = page.getByRole('region', { name: 'Problems' });
      // As pgx with sslmode=prefer does it: over another connection.
      for (let times = 0; times < 40; times += 1) await asksForTls(weir.port).then(plain);
      await page.waitForTimeout(3000);
      assert.equal(await banner.count(), 0, 'they have all logged in');
      stop = program(() => asksForTls(weir.port));
      const said = [/Clients can't log in: \d+ refused. TLS from 127.0.0.1 \(the client requires TLS, as with sslmode=require, and Weir offers none\)/, /Give Weir a certificate: mode, cert_file and key_file in \[tls.client\]/];
      for (const text of ['login refused', ...said, /since \d\d:\d\d:\d\d/]) await banner.getByText(text).first().waitFor({ timeout: SOON });
      await verdict(page, 'Clients can’t log in');
      assert.match(await page.title(), /^\(!\) login refused /);
      await stays(page, /^\(!\) login refused /, 'login refused', ...said);
    });
  } finally {
    await stop();
    await weir.stop();
  }
});

check('clients without TLS where it is required are reported', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-own-'));
  const weir = await weirBefore(server.port, '', server.password, ownCertificate(folder, 90).replace('allow', 'require'));
  let stop = async () => {};
  try {
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      const banner = page.getByRole('region', { name: 'Problems' });
      stop = program(() => clients(weir, 1)[0].connect());
      const said = [/Clients can't log in: \d+ refused. "app" from 127.0.0.1 \(SSL required\)/, 'Connect with sslmode=require'];
      for (const text of ['login refused', ...said]) await banner.getByText(text).first().waitFor({ timeout: SOON });
      await stays(page, /^\(!\) login refused /, 'login refused', ...said);
      await stop();
      await banner.getByText(/refused, the last one \d+ s ago\./).waitFor({ timeout: 4 * SOON });
    });
  } finally {
    await stop();
    await weir.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});

check('a limit of a database server that pools share is named when it is what clients wait for', async () => {
  const weir = await weirBefore(server.port, 'server = "main"', server.password, '[servers.main]\nmax_connections = 2\n');
  const all = clients(weir, 6, 'storm');
  try {
    await Promise.all(all.map((one) => one.connect()));
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      const work = all.map((one) => one.query('SELECT pg_sleep(90)').catch(() => {}));
      await reported(page, 'shop', 'saturated', /4 clients wait for a server, the first for .*: max_connections = 2 of \[servers.main\] is reached; "storm" has 2 of 2 servers in use/, 'Raise this limit of Weir');
      await stays(page, OF_SHOP, 'saturated', /max_connections = 2 of \[servers.main\] is reached/);
      all.forEach((one) => one.connection.stream.destroy());
      await Promise.all(work);
      await over(page);
    });
  } finally {
    await weir.stop();
  }
});

/** The settings of the server that is shared by all: only sessions that ask for it wait for a standby. */
async function standbys(names) {
  const root = new pg.Client(superuser);
  await root.connect();
  const settings = [['synchronous_commit', 'local'], ['synchronous_standby_names', names]];
  for (const [name, value] of names ? settings : settings.reverse()) {
    await root.query(names ? `ALTER SYSTEM SET ${name} = '${value}'` : `ALTER SYSTEM RESET ${name}`);
    await root.query('SELECT pg_reload_conf()');
  }
  await root.end();
}

check('commits that no standby confirms are on the first screen, though nobody waits for a server', async () => {
  const weir = await weirBefore(server.port);
  const writers = clients(weir, 2, 'orders');
  try {
    await Promise.all(writers.map((one) => one.connect()));
    await standbys('nobody');
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      const write = (number) => `BEGIN; SET LOCAL synchronous_commit = on; CREATE TABLE unconfirmed_${number} (); DROP TABLE unconfirmed_${number}; COMMIT`;
      const commits = writers.map((one, number) => one.query(write(number)).catch(() => {}));
      await reported(page, 'shop', 'blocked', '2 clients affected: 2 blocked; app ("orders")', /2 commits wait for a synchronous standby \(SyncRep\), the first for/, 'See in pg_stat_replication');
      await stays(page, OF_SHOP, 'blocked', '2 clients affected: 2 blocked; app ("orders")', /2 commits wait for a synchronous standby/);
      await standbys('');
      await Promise.all(commits);
      await over(page);
    });
  } finally {
    await standbys('');
    await Promise.all(writers.map((one) => one.end().catch(() => {})));
    await weir.stop();
  }
});

check('when Weir dies, the page is grey within three seconds, and says from when it is', async () => {
  const weir = await weirBefore(server.port);
  try {
    await inBrowser({ panel: weir.panel }, async ({ page, goTo }) => {
      for (const place of ['pools', 'pools/shop', 'settings']) {
        await goTo(place);
        await page.getByRole('main').getByText(/shop|query_wait_timeout/).first().waitFor();
      }
      await goTo('pools');
      await words(page).link('shop').first().waitFor();
      await page.waitForTimeout(2500);
      assert.equal(await page.getByRole('alert').count(), 0, 'nothing is wrong before');
      weir.kill();
      const begun = Date.now();
      const alert = page.getByRole('alert', { name: 'Weir does not answer' });
      await alert.waitFor({ timeout: GREY });
      assert.ok(Date.now() - begun <= GREY);
      const update = async () => (await alert.innerText()).match(/Reconnecting….*Last update (\d\d:\d\d:\d\d), .* ago/s)?.[1];
      const last = await update();
      assert.ok(last);
      assert.equal(await page.getByRole('main').evaluate((main) => getComputedStyle(main).filter), 'grayscale(1)');
      assert.match(await page.title(), /^no answer/);
      await verdict(page, /^Unknown since \d\d:\d\d:\d\d$/);
      for (const seconds of [20, 60]) {
        while (Date.now() - begun < seconds * 1000) {
          assert.ok(await alert.isVisible(), 'and it stays so while the browser tries again');
          await page.waitForTimeout(500);
        }
        assert.equal(await update(), last, `after ${seconds} s`);
      }
      assert.deepEqual(await looks(page, 'incident-weir-killed'), []);
    });
  } finally {
    await weir.stop();
  }
});

describe('incidents', { concurrency: AT_ONCE }, () => incidents.forEach(([name, play]) => test(name, play)));
