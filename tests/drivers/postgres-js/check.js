// postgres.js: tagged queries, its automatic statements, its pool, cursors, COPY, cancel, notifications.
'use strict';

const assert = require('node:assert');
const { pipeline } = require('node:stream/promises');
const postgres = require('postgres');
const shared = require('./checks.js');
const { MODE, where, authority, versionOf, Setting, sessionOnly, needsTls, sleep, range, soon, together, run } = shared;
const sources = require('./copy.js');

const TABLE = `postgresjs_${MODE}`;
const NOBODY_HEARS = () => {};

/** A pool of its own, as everything is with this driver; without a handler, its notices go to the console. */
const open = (more = {}) => postgres({ ...where, onnotice: NOBODY_HEARS, ...more });

/** A check with one connection, or with a pool that is set up otherwise. */
const client = (work, more = { max: 1 }) => async () => {
  const sql = open(more);
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 5 });
  }
};

const withClients = (count, work) => together(count, () => open({ max: 1 }), work);

const only = (rows) => Object.values(rows[0])[0];
const count = async (sql) => only(await sql`SELECT count(*)::int FROM ${sql(TABLE)}`);
const usable = async (sql) => assert.strictEqual(only(await sql`SELECT ${41}::int + 1`), 42);

async function copyOut(sql) {
  let text = '';
  for await (const chunk of await sql`COPY ${sql(TABLE)} TO STDOUT`.readable()) text += chunk;
  return text;
}

const checks = {
  login: client(async (sql) => {
    await sql`DROP TABLE IF EXISTS ${sql(TABLE)}`;
    await sql`CREATE TABLE ${sql(TABLE)} (id int PRIMARY KEY, name text)`;
    await usable(sql);
  }),
  'wrong password': async () => {
    await assert.rejects(client((sql) => sql`SELECT 1`, { password: 'wrong' })(), { code: '28P01' });
  },
  crud: client(async (sql) => {
    const rows = [{ id: 1, name: 'one' }, { id: 2, name: 'two' }];
    assert.strictEqual((await sql`INSERT INTO ${sql(TABLE)} ${sql(rows)}`).count, 2);
    assert.strictEqual((await sql`UPDATE ${sql(TABLE)} SET ${sql({ name: 'zwei' })} WHERE id = ${2}`).count, 1);
    const found = await sql`SELECT * FROM ${sql(TABLE)} ORDER BY id`;
    assert.deepStrictEqual([...found], [{ id: 1, name: 'one' }, { id: 2, name: 'zwei' }]);
    assert.strictEqual((await sql`DELETE FROM ${sql(TABLE)}`).count, 2);
  }),
  types: client(async (sql) => {
    const values = [7, 'é ☃', Buffer.from([0, 255]), null, [1, 2], new Date('2026-01-02T03:04:05Z')];
    const [n, text, bytes, none, list, time] = values;
    const columns = sql`${n}::int, ${text}::text, ${bytes}::bytea, ${none}::text, ${list}::int[], ${time}::timestamptz`;
    assert.deepStrictEqual([...(await sql`SELECT ${columns}`.values())[0]], values);
  }),
  prepared: () =>
    withClients(10, async (pools) => {
      for (const turn of range(10)) {
        const answers = await Promise.all(pools.map((sql, n) => sql`SELECT ${n}::int + ${sql.unsafe(`${turn % 3}`)}`));
        answers.forEach((answer, n) => assert.strictEqual(only(answer), n + (turn % 3)));
      }
    }),
  'many statements': client(async (sql) => {
    for (const turn of range(2)) {
      for (const n of range(300)) {
        // The driver keeps all of them: more than Weir keeps on a server.
        assert.strictEqual(only(await sql`SELECT ${turn}::int + ${sql.unsafe(`${n}`)}`), turn + n);
      }
    }
  }),
  'table changed': client(async (sql) => {
    const wide = sql(`${TABLE}_wide`);
    await sql`DROP TABLE IF EXISTS ${wide}`;
    await sql`CREATE TABLE ${wide} AS SELECT 1 AS a`;
    for (const _ of range(3)) assert.deepStrictEqual({ ...(await sql`SELECT * FROM ${wide}`)[0] }, { a: 1 });
    await sql`ALTER TABLE ${wide} ADD b int DEFAULT 2`;
    // It prepares a statement again by itself after this error.
    for (const _ of range(3)) assert.deepStrictEqual({ ...(await sql`SELECT * FROM ${wide}`)[0] }, { a: 1, b: 2 });
    await sql`DROP TABLE ${wide}`;
  }),
  batch: client(async (sql) => {
    const rows = range(1000).map((n) => ({ id: n, name: `row ${n}` }));
    assert.strictEqual((await sql`INSERT INTO ${sql(TABLE)} ${sql(rows)}`).count, 1000);
    const answers = await sql`TRUNCATE ${sql(TABLE)}; SELECT 1 AS a; SELECT 'two' AS a`.simple();
    assert.deepStrictEqual(answers.slice(-2).map(only), [1, 'two']);
  }),
  pipeline: client(async (sql) => {
    const answers = await Promise.all(range(300).map((n) => sql`SELECT ${n}::int`));
    answers.forEach((answer, n) => assert.strictEqual(only(answer), n));
  }),
  'pipeline error': client(async (sql) => {
    const answers = await Promise.allSettled(range(20).map((n) => sql`SELECT 1 / (${n}::int - 10)`));
    answers.forEach((answer, n) => assert.strictEqual(answer.status, n === 10 ? 'rejected' : 'fulfilled'));
    await assert.rejects(sql`SELECT 1; SELECT 1/0; SELECT 3`.simple(), { code: '22012' });
    await usable(sql);
  }),
  'copy in': client(async (sql) => {
    await pipeline(sources.rows(5000), await sql`COPY ${sql(TABLE)} FROM STDIN`.writable());
    // It sends a CopyFail after the end of each COPY: that must have no effect.
    for (const _ of range(3)) assert.strictEqual(await count(sql), 5000);
  }),
  'copy out': async () => {
    // All rows arrive, but after more than 16 kB the driver pauses its socket and does not resume it.
    const lone = open({ max: 1 });
    const text = await soon(copyOut(lone));
    lone.end({ timeout: 0 });
    assert.strictEqual(text.split('\n').length, 5001);
    assert.ok(text.endsWith('4999\trow 4999\n'));
    await client(async (sql) => {
      await sql`DELETE FROM ${sql(TABLE)} WHERE id >= 100`;
      for (const _ of range(3)) assert.ok((await soon(copyOut(sql))).endsWith('99\trow 99\n'));
      await usable(sql);
    })();
    throw new Setting(
      'after a result of more than 16 kB the driver most often does not read on, directly as well (its issue 499): ' +
        'copy such a one with a client of its own, `max: 1`, and end that with `end({ timeout: 0 })`',
    );
  },
  'copy error': client(async (sql) => {
    const copied = async (source) => pipeline(source, await sql`COPY ${sql(TABLE)} FROM STDIN`.writable());
    await assert.rejects(copied(sources.badRow()), { code: '22P02' });
    await usable(sql);
    await assert.rejects(copied(sources.givenUp()), { message: 'changed my mind' });
    assert.strictEqual(await count(sql), 100);
    await sql`TRUNCATE ${sql(TABLE)}`;
  }),
  cancel: client(async (sql) => {
    for (const _ of range(2)) {
      const query = sql`SELECT pg_sleep(60)`.execute();
      const ended = assert.rejects(query, { code: '57014' });
      await sleep(700);
      query.cancel();
      await ended;
      await usable(sql);
    }
  }),
  timeout: client(
    async (sql) => {
      await assert.rejects(sql`SELECT pg_sleep(60)`, { code: '57014' });
      await usable(sql);
    },
    { max: 1, connection: { statement_timeout: 700 } },
  ),
  commit: client(async (sql) => {
    await sql.begin((tx) => tx`INSERT INTO ${sql(TABLE)} VALUES (${1}, ${'one'})`);
    assert.strictEqual(await count(sql), 1);
  }),
  rollback: client(async (sql) => {
    const undone = sql.begin(async (tx) => {
      await tx`DELETE FROM ${sql(TABLE)}`;
      throw new Error('undo');
    });
    await assert.rejects(undone, { message: 'undo' });
    assert.strictEqual(await count(sql), 1);
  }),
  savepoint: client(async (sql) => {
    const undone = sql.begin(async (tx) => {
      await tx`INSERT INTO ${sql(TABLE)} VALUES (2, 'two')`;
      const twice = tx.savepoint((inner) => inner`INSERT INTO ${sql(TABLE)} VALUES (2, 'twice')`);
      await assert.rejects(twice, { code: '23505' });
      assert.strictEqual(await count(tx), 2);
      throw new Error('undo');
    });
    await assert.rejects(undone, { message: 'undo' });
    assert.strictEqual(await count(sql), 1);
  }),
  isolation: client(async (sql) => {
    const refused = sql.begin('isolation level serializable read only', async (tx) => {
      assert.strictEqual(only(await tx`SHOW transaction_isolation`), 'serializable');
      await tx`DELETE FROM ${sql(TABLE)}`;
    });
    await assert.rejects(refused, { code: '25006' });
    assert.strictEqual(only(await sql`SHOW transaction_isolation`), 'read committed');
  }),
  'unique violation': client(async (sql) => {
    await assert.rejects(sql`INSERT INTO ${sql(TABLE)} VALUES (${1}, 'again')`, { code: '23505' });
    await usable(sql);
  }),
  'syntax error': client(async (sql) => {
    await assert.rejects(sql`SELEC 1`, { code: '42601' });
    await assert.rejects(sql`SELEC ${1}`, { code: '42601' });
    await assert.rejects(sql`SELEC 1`.simple(), { code: '42601' });
    await usable(sql);
  }),
  'error in a transaction': client(async (sql) => {
    const failed = sql.begin(async (tx) => {
      await assert.rejects(tx`SELECT 1/0`, { code: '22012' });
      await assert.rejects(tx`SELECT 1`, { code: '25P02' });
    });
    await assert.rejects(failed, { code: '22012' });
    await usable(sql);
  }),
  cursor: client(async (sql) => {
    let seen = 0;
    for await (const rows of sql`SELECT generate_series(1, ${5000}::int) AS n`.cursor(100)) {
      assert.strictEqual(rows[0].n, seen + 1);
      seen += rows.length;
    }
    assert.strictEqual(seen, 5000);
    for await (const rows of sql`SELECT generate_series(1, 5000) AS n`.cursor(10)) {
      assert.strictEqual(rows.length, 10);
      break;
    }
    await usable(sql);
  }),
  large: client(async (sql) => {
    const text = 'é'.repeat(10_000_000);
    assert.ok(only(await sql`SELECT ${text}::text`) === text);
  }),
  notice: async () => {
    const heard = [];
    await client((sql) => sql`DO $$ BEGIN RAISE NOTICE 'noted'; END $$`, { onnotice: (n) => heard.push(n.message) })();
    assert.deepStrictEqual(heard, ['noted']);
  },
  notify: client(async (sql) => {
    sessionOnly('LISTEN');
    let hear;
    const heard = new Promise((done) => (hear = done));
    await sql.listen(TABLE, hear);
    await sql.notify(TABLE, 'hear');
    assert.strictEqual(await soon(heard), 'hear');
  }),
  'session state': client(async (sql) => {
    sessionOnly('what outlives a transaction (SET, temporary tables, advisory locks)');
    await sql`SET work_mem = '7MB'`;
    await sql`CREATE TEMP TABLE kept AS SELECT 1 AS n`;
    await sql`SELECT pg_advisory_lock(4714)`;
    assert.strictEqual(only(await sql`SHOW work_mem`), '7MB');
    assert.strictEqual(only(await sql`SELECT n FROM kept`), 1);
    await withClients(1, async ([other]) => {
      assert.strictEqual(only(await other`SELECT pg_try_advisory_lock(4714)`), false);
    });
  }),
  'startup parameters': async () => {
    const names = ['a', 'b', 'c'];
    const pools = names.map((name) => open({ max: 1, connection: { application_name: name, TimeZone: 'Asia/Tokyo' } }));
    for (const _ of range(5)) {
      for (const [n, name] of names.entries()) {
        assert.strictEqual(only(await pools[n]`SHOW application_name`), name);
        assert.strictEqual(only(await pools[n]`SHOW TimeZone`), 'Asia/Tokyo');
      }
    }
    await Promise.all(pools.map((sql) => sql.end()));
  },
  reconnect: client(
    async (sql) => {
      const one = await sql.reserve();
      await one`BEGIN`;
      const pid = only(await one`SELECT pg_backend_pid()`);
      // Killed during a query: a query on a closed reserved connection ends the whole program, directly as well.
      const lost = assert.rejects(one`SELECT pg_sleep(60)`);
      assert.strictEqual(only(await sql`SELECT pg_terminate_backend(${pid})`), true);
      await soon(lost);
      for (const n of range(10)) assert.strictEqual(only(await sql`SELECT ${n}::int`), n);
    },
    { max: 2 },
  ),
  pool: client(async (sql) => {
    const answers = await Promise.all(range(300).map((n) => sql`SELECT ${n}::int`));
    answers.forEach((answer, n) => assert.strictEqual(only(answer), n));
    const sums = range(30).map((n) => sql.begin((tx) => [tx`SELECT ${n}::int`, tx`SELECT ${n}::int + 1`]));
    (await Promise.all(sums)).forEach((pair, n) => assert.deepStrictEqual(pair.map(only), [n, n + 1]));
  }, {}),
  'many connections': async () => {
    const work = (n) =>
      client(async (sql) => {
        for (const turn of range(10)) assert.strictEqual(only(await sql`SELECT ${n + turn}::int`), n + turn);
      })();
    await Promise.all(range(60).map(work));
  },
  tls: async () => {
    needsTls();
    await client(usable, { max: 1, ssl: { ca: authority } })();
    await client(usable, { max: 1, ssl: 'require' })();
  },
};

run(`postgres ${versionOf('postgres')}`, checks);
