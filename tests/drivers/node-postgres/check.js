// node-postgres: queries, named statements, its pool, cursors, COPY, cancel, notifications.
'use strict';

const assert = require('node:assert');
const { pipeline } = require('node:stream/promises');
const { Client, Pool, Query } = require('pg');
const Cursor = require('pg-cursor');
const copy = require('pg-copy-streams');
const shared = require('./checks.js');
const { MODE, where, authority, versionOf, sessionOnly, needsTls, sleep, range, soon, together, run } = shared;
const sources = require('./copy.js');

const TABLE = `node_${MODE}`;

async function connect(more = {}) {
  const client = new Client({ ...where, ...more });
  client.on('error', () => {});
  await client.connect();
  return client;
}

/** A check with a client of its own, or with several. */
const client = (work, more) => async () => {
  const one = await connect(more);
  try {
    return await work(one);
  } finally {
    await one.end();
  }
};

const withClients = (count, work) => together(count, connect, work);

const value = async (one, text, values) => Object.values((await one.query(text, values)).rows[0])[0];
const count = (one) => value(one, `SELECT count(*)::int FROM ${TABLE}`);

const checks = {
  login: client(async (one) => {
    await one.query(`DROP TABLE IF EXISTS ${TABLE}`);
    await one.query(`CREATE TABLE ${TABLE} (id int PRIMARY KEY, name text)`);
    assert.strictEqual(await value(one, 'SELECT 41 + 1'), 42);
  }),
  'wrong password': () => assert.rejects(connect({ password: 'wrong' }), { code: '28P01' }),
  crud: client(async (one) => {
    assert.strictEqual((await one.query(`INSERT INTO ${TABLE} VALUES (1, 'one'), (2, 'two')`)).rowCount, 2);
    assert.strictEqual((await one.query(`UPDATE ${TABLE} SET name = $1 WHERE id = $2`, ['zwei', 2])).rowCount, 1);
    const { rows } = await one.query(`SELECT * FROM ${TABLE} ORDER BY id`);
    assert.deepStrictEqual(rows, [{ id: 1, name: 'one' }, { id: 2, name: 'zwei' }]);
    assert.strictEqual((await one.query(`DELETE FROM ${TABLE}`)).rowCount, 2);
  }),
  types: client(async (one) => {
    const values = [7, 'é ☃', Buffer.from([0, 255]), null, [1, 2], new Date('2026-01-02T03:04:05Z')];
    const text = 'SELECT $1::int, $2::text, $3::bytea, $4::text, $5::int[], $6::timestamptz';
    const { rows } = await one.query({ text, values, rowMode: 'array' });
    assert.deepStrictEqual(rows[0], values);
  }),
  prepared: () =>
    withClients(10, async (clients) => {
      for (const turn of range(10)) {
        const name = `named-${turn % 3}`;
        const text = `SELECT $1::int + ${turn % 3} AS n`;
        const answers = await Promise.all(clients.map((one, n) => one.query({ name, text, values: [n] })));
        answers.forEach((answer, n) => assert.strictEqual(answer.rows[0].n, n + (turn % 3)));
      }
    }),
  'many statements': client(async (one) => {
    for (const turn of range(2)) {
      for (const n of range(300)) {
        // The driver keeps all of them: more than Weir keeps on a server.
        const { rows } = await one.query({ name: `s${n}`, text: `SELECT $1::int + ${n} AS n`, values: [turn] });
        assert.strictEqual(rows[0].n, turn + n);
      }
    }
  }),
  'table changed': client(async (one) => {
    await one.query(`CREATE TABLE ${TABLE}_wide AS SELECT 1 AS a`);
    const all = { text: `SELECT * FROM ${TABLE}_wide` };
    assert.deepStrictEqual((await one.query({ name: 'all', ...all })).rows[0], { a: 1 });
    await one.query(`ALTER TABLE ${TABLE}_wide ADD b int DEFAULT 2`);
    // A named statement fails with 0A000 for ever, directly as well; without a name it works.
    await one.query({ name: 'all', ...all }).catch((error) => assert.strictEqual(error.code, '0A000'));
    assert.deepStrictEqual((await one.query(all)).rows[0], { a: 1, b: 2 });
    await one.query(`DROP TABLE ${TABLE}_wide`);
  }),
  batch: client(async (one) => {
    const answers = await one.query("SELECT 1 AS a; SELECT 2 AS a; SELECT 'three' AS a");
    assert.deepStrictEqual(answers.map((answer) => answer.rows[0].a), [1, 2, 'three']);
  }),
  pipeline: client(async (one) => {
    const answers = await Promise.all(range(300).map((n) => one.query('SELECT $1::int AS n', [n])));
    answers.forEach((answer, n) => assert.strictEqual(answer.rows[0].n, n));
  }),
  'pipeline error': client(async (one) => {
    const answers = await Promise.allSettled(range(20).map((n) => one.query('SELECT 1 / ($1::int - 10) AS n', [n])));
    answers.forEach((answer, n) => assert.strictEqual(answer.status, n === 10 ? 'rejected' : 'fulfilled'));
    await assert.rejects(one.query('SELECT 1; SELECT 1/0; SELECT 3'), { code: '22012' });
    assert.strictEqual(await value(one, 'SELECT 4'), 4);
  }),
  'copy in': client(async (one) => {
    await pipeline(sources.rows(5000), one.query(copy.from(`COPY ${TABLE} FROM STDIN`)));
    assert.strictEqual(await count(one), 5000);
  }),
  'copy out': client(async (one) => {
    let text = '';
    for await (const chunk of one.query(copy.to(`COPY ${TABLE} TO STDOUT`))) text += chunk;
    assert.ok(text.endsWith('4999\trow 4999\n'));
    assert.strictEqual(await value(one, 'SELECT 1'), 1);
  }),
  'copy error': client(async (one) => {
    const copied = (source) => pipeline(source, one.query(copy.from(`COPY ${TABLE} FROM STDIN`)));
    await assert.rejects(copied(sources.badRow()), { code: '22P02' });
    await assert.rejects(copied(sources.givenUp()));
    assert.strictEqual(await count(one), 5000);
    await one.query(`TRUNCATE ${TABLE}`);
  }),
  cancel: client(async (one) => {
    for (const _ of range(2)) {
      const query = new Query('SELECT pg_sleep(60)');
      const ended = new Promise((done) => query.on('error', done).on('end', () => done(null)));
      one.query(query);
      await sleep(700);
      new Client(where).cancel(one, query);
      const error = await ended;
      assert.strictEqual(error && error.code, '57014');
      assert.strictEqual(await value(one, 'SELECT 1'), 1);
    }
  }),
  timeout: client(
    async (one) => {
      await assert.rejects(one.query('SELECT pg_sleep(60)'), { code: '57014' });
      assert.strictEqual(await value(one, 'SELECT 1'), 1);
    },
    { statement_timeout: 700 },
  ),
  commit: client(async (one) => {
    await one.query('BEGIN');
    await one.query(`INSERT INTO ${TABLE} VALUES ($1, $2)`, [1, 'one']);
    await one.query('COMMIT');
    assert.strictEqual(await count(one), 1);
  }),
  rollback: client(async (one) => {
    await one.query('BEGIN');
    await one.query(`DELETE FROM ${TABLE}`);
    await one.query('ROLLBACK');
    assert.strictEqual(await count(one), 1);
  }),
  savepoint: client(async (one) => {
    await one.query('BEGIN');
    await one.query(`INSERT INTO ${TABLE} VALUES (2, 'two')`);
    await one.query('SAVEPOINT a');
    await assert.rejects(one.query(`INSERT INTO ${TABLE} VALUES (2, 'twice')`), { code: '23505' });
    await one.query('ROLLBACK TO a');
    assert.strictEqual(await count(one), 2);
    await one.query('ROLLBACK');
  }),
  isolation: client(async (one) => {
    await one.query('BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY');
    assert.strictEqual(await value(one, 'SHOW transaction_isolation'), 'serializable');
    await assert.rejects(one.query(`DELETE FROM ${TABLE}`), { code: '25006' });
    await one.query('ROLLBACK');
  }),
  'unique violation': client(async (one) => {
    await assert.rejects(one.query(`INSERT INTO ${TABLE} VALUES ($1, 'again')`, [1]), { code: '23505' });
    assert.strictEqual(await value(one, 'SELECT 1'), 1);
  }),
  'syntax error': client(async (one) => {
    await assert.rejects(one.query('SELEC 1'), { code: '42601' });
    await assert.rejects(one.query({ name: 'broken', text: 'SELEC $1', values: [1] }), { code: '42601' });
    assert.strictEqual(await value(one, 'SELECT 1'), 1);
  }),
  'error in a transaction': client(async (one) => {
    await one.query('BEGIN');
    await assert.rejects(one.query('SELECT 1/0'), { code: '22012' });
    await assert.rejects(one.query('SELECT 1'), { code: '25P02' });
    await one.query('ROLLBACK');
    assert.strictEqual(await value(one, 'SELECT 1'), 1);
  }),
  cursor: client(async (one) => {
    const cursor = one.query(new Cursor('SELECT generate_series(1, $1::int) AS n', [5000]));
    assert.strictEqual((await cursor.read(10)).length, 10);
    assert.strictEqual((await cursor.read(100))[0].n, 11);
    await cursor.close();
    assert.strictEqual(await value(one, 'SELECT 3'), 3);
  }),
  large: client(async (one) => {
    const text = 'é'.repeat(10_000_000);
    assert.ok((await value(one, 'SELECT $1::text', [text])) === text);
  }),
  notice: client(async (one) => {
    const heard = [];
    one.on('notice', (message) => heard.push(message.message));
    await one.query("DO $$ BEGIN RAISE NOTICE 'noted'; END $$");
    assert.deepStrictEqual(heard, ['noted']);
  }),
  notify: client(async (one) => {
    sessionOnly('LISTEN');
    const heard = new Promise((done) => one.on('notification', (message) => done(message.payload)));
    await one.query(`LISTEN ${TABLE}`);
    await withClients(1, ([speaker]) => speaker.query(`NOTIFY ${TABLE}, 'hear'`));
    assert.strictEqual(await soon(heard), 'hear');
  }),
  'session state': client(async (one) => {
    sessionOnly('what outlives a transaction (SET, temporary tables, advisory locks)');
    await one.query("SET work_mem = '7MB'");
    await one.query('CREATE TEMP TABLE kept AS SELECT 1 AS n');
    await one.query('SELECT pg_advisory_lock(4713)');
    assert.strictEqual(await value(one, 'SHOW work_mem'), '7MB');
    assert.strictEqual(await value(one, 'SELECT n FROM kept'), 1);
    await withClients(1, async ([other]) => {
      assert.strictEqual(await value(other, 'SELECT pg_try_advisory_lock(4713)'), false);
    });
  }),
  'startup parameters': async () => {
    const names = ['a', 'b', 'c'];
    const zone = '-c TimeZone=Asia/Tokyo';
    const clients = await Promise.all(names.map((name) => connect({ application_name: name, options: zone })));
    for (const _ of range(5)) {
      for (const [n, name] of names.entries()) {
        assert.strictEqual(await value(clients[n], 'SHOW application_name'), name);
        assert.strictEqual(await value(clients[n], 'SHOW TimeZone'), 'Asia/Tokyo');
      }
    }
    await Promise.all(clients.map((one) => one.end()));
  },
  reconnect: async () => {
    const pool = new Pool({ ...where, max: 2 });
    pool.on('error', () => {});
    const one = await pool.connect();
    one.on('error', () => {});
    await one.query('BEGIN');
    const pid = await value(one, 'SELECT pg_backend_pid()');
    assert.strictEqual(await value(pool, 'SELECT pg_terminate_backend($1)', [pid]), true);
    await assert.rejects(one.query('SELECT 1'));
    one.release(true);
    for (const n of range(10)) assert.strictEqual(await value(pool, 'SELECT $1::int', [n]), n);
    await pool.end();
  },
  pool: async () => {
    const pool = new Pool(where);
    const answers = await Promise.all(range(300).map((n) => pool.query('SELECT $1::int AS n', [n])));
    answers.forEach((answer, n) => assert.strictEqual(answer.rows[0].n, n));
    await pool.end();
  },
  'many connections': async () => {
    const work = (n) =>
      client(async (one) => {
        for (const turn of range(10)) assert.strictEqual(await value(one, 'SELECT $1::int', [n + turn]), n + turn);
      })();
    await Promise.all(range(60).map(work));
  },
  tls: async () => {
    needsTls();
    const one = await connect({ ssl: { ca: authority }, enableChannelBinding: true });
    assert.ok(one.connection.stream.encrypted);
    assert.strictEqual(await value(one, 'SELECT 1'), 1);
    await one.end();
  },
};

run(`pg ${versionOf('pg')}`, checks);
