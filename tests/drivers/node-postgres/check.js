// node-postgres: queries, parameters, named statements, a pool, cursors, COPY, cancel, transactions.
'use strict';

const assert = require('node:assert');
const { pipeline } = require('node:stream/promises');
const { Readable } = require('node:stream');
const { Client, Pool, version } = { ...require('pg'), version: require('pg/package.json').version };
const Cursor = require('pg-cursor');
const copy = require('pg-copy-streams');

const MODE = process.env.MODE;
const TABLE = `node_${MODE}`;
const config = {
  host: process.env.HOST,
  port: Number(process.env.PORT),
  user: process.env.USER_NAME,
  password: process.env.PASSWORD,
  database: process.env.DATABASE,
  connectionTimeoutMillis: 20000,
};

async function connect(more = {}) {
  const client = new Client({ ...config, ...more });
  await client.connect();
  return client;
}

async function withClient(work, more) {
  const client = await connect(more);
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

const checks = {
  'query and parameters': () =>
    withClient(async (client) => {
      assert.deepStrictEqual((await client.query('SELECT 1 AS n')).rows, [{ n: 1 }]);
      const text = 'SELECT $1::int AS a, $2::text AS b, $3::bytea AS c';
      const { rows } = await client.query(text, [7, 'é', Buffer.from([0, 255])]);
      assert.strictEqual(rows[0].a, 7);
      assert.strictEqual(rows[0].b, 'é');
      assert.deepStrictEqual([...rows[0].c], [0, 255]);
    }),
  'a wrong password is refused': async () => {
    await assert.rejects(connect({ password: 'wrong' }), /failed/);
  },
  'queries are queued and answered in order': () =>
    withClient(async (client) => {
      const answers = await Promise.all([...Array(200).keys()].map((n) => client.query('SELECT $1::int AS n', [n])));
      answers.forEach((answer, n) => assert.strictEqual(answer.rows[0].n, n));
    }),
  'named statements on many clients': async () => {
    const clients = await Promise.all([...Array(10).keys()].map(() => connect()));
    for (let round = 0; round < 10; round++) {
      await Promise.all(
        clients.map(async (client, number) => {
          const query = { name: `named-${round % 3}`, text: `SELECT $1::int + ${round % 3} AS n`, values: [number] };
          assert.strictEqual((await client.query(query)).rows[0].n, number + (round % 3));
        }),
      );
    }
    await Promise.all(clients.map((client) => client.end()));
  },
  'a pool': async () => {
    const pool = new Pool({ ...config, max: 20 });
    const answers = await Promise.all([...Array(300).keys()].map((n) => pool.query('SELECT $1::int AS n', [n])));
    answers.forEach((answer, n) => assert.strictEqual(answer.rows[0].n, n));
    await pool.end();
  },
  'transactions': () =>
    withClient(async (client) => {
      await client.query(`DROP TABLE IF EXISTS ${TABLE}`);
      await client.query(`CREATE TABLE ${TABLE} (id int PRIMARY KEY, name text)`);
      await client.query('BEGIN');
      await client.query(`INSERT INTO ${TABLE} VALUES ($1, $2)`, [1, 'one']);
      await assert.rejects(client.query(`INSERT INTO ${TABLE} VALUES ($1, $2)`, [1, 'twice']), { code: '23505' });
      await assert.rejects(client.query('SELECT 1'), { code: '25P02' });
      await client.query('ROLLBACK');
      await client.query('BEGIN');
      await client.query(`INSERT INTO ${TABLE} VALUES ($1, $2)`, [2, 'two']);
      await client.query('COMMIT');
      assert.strictEqual((await client.query(`SELECT count(*)::int AS n FROM ${TABLE}`)).rows[0].n, 1);
    }),
  'errors leave the client usable': () =>
    withClient(async (client) => {
      for (let round = 0; round < 10; round++) {
        await assert.rejects(client.query('SELECT 1 / $1::int', [0]), { code: '22012' });
        await assert.rejects(client.query({ name: `bad-${round}`, text: 'SELECT nothing' }), { code: '42703' });
        assert.strictEqual((await client.query('SELECT 2 AS n')).rows[0].n, 2);
      }
    }),
  'a cursor in portions': () =>
    withClient(async (client) => {
      const cursor = client.query(new Cursor('SELECT generate_series(1, $1::int) AS n', [1000]));
      assert.strictEqual((await cursor.read(10)).length, 10);
      assert.strictEqual((await cursor.read(100))[0].n, 11);
      await cursor.close();
      assert.strictEqual((await client.query('SELECT 3 AS n')).rows[0].n, 3);
    }),
  'copy in and out': () =>
    withClient(async (client) => {
      await client.query(`TRUNCATE ${TABLE}`);
      const rows = [...Array(5000).keys()].map((n) => `${n}\trow ${n}\n`);
      await pipeline(Readable.from(rows), client.query(copy.from(`COPY ${TABLE} FROM STDIN`)));
      let size = 0;
      for await (const chunk of client.query(copy.to(`COPY ${TABLE} TO STDOUT`))) size += chunk.length;
      assert.strictEqual(size, rows.join('').length);
      const broken = pipeline(Readable.from(['x\ty\n']), client.query(copy.from(`COPY ${TABLE} FROM STDIN`)));
      await assert.rejects(broken, { code: '22P02' });
      assert.strictEqual((await client.query(`SELECT count(*)::int AS n FROM ${TABLE}`)).rows[0].n, 5000);
    }),
  'cancel': () =>
    withClient(async (client) => {
      // The one in queue is not the one that is cancelled: the query itself is needed.
      const query = new (require('pg').Query)('SELECT pg_sleep(60)');
      const ended = new Promise((done) => {
        query.on('error', done);
        query.on('end', () => done(null));
      });
      client.query(query);
      await sleep(500);
      new Client(config).cancel(client, query);
      const error = await ended;
      assert.strictEqual(error && error.code, '57014');
      assert.strictEqual((await client.query('SELECT 1 AS n')).rows[0].n, 1);
    }),
  'a statement time-out of its own': () =>
    withClient(
      async (client) => {
        await assert.rejects(client.query('SELECT pg_sleep(60)'), { code: '57014' });
        assert.strictEqual((await client.query('SELECT 1 AS n')).rows[0].n, 1);
      },
      { statement_timeout: 500 },
    ),
  'application names are each their own': async () => {
    const clients = await Promise.all(['a', 'b', 'c'].map((name) => connect({ application_name: name })));
    for (let round = 0; round < 5; round++) {
      for (const [number, name] of ['a', 'b', 'c'].entries()) {
        assert.strictEqual((await clients[number].query('SHOW application_name')).rows[0].application_name, name);
      }
    }
    await Promise.all(clients.map((client) => client.end()));
  },
  'notifications in session mode': async () => {
    if (MODE === 'transaction') return;
    await withClient(async (client) => {
      const heard = new Promise((done) => client.on('notification', (message) => done(message.payload)));
      await client.query('LISTEN node_news');
      await withClient((speaker) => speaker.query("NOTIFY node_news, 'hear'"));
      assert.strictEqual(await Promise.race([heard, sleep(20000)]), 'hear');
    });
  },
};

async function main() {
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
      console.log(`ok   ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${name}: ${error.message}`);
    }
  }
  await withClient((client) => client.query(`DROP TABLE IF EXISTS ${TABLE}`));
  console.log(`node-postgres ${version}: ${Object.keys(checks).length} checks, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

main();
