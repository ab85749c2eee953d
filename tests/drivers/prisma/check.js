// Prisma: its client, with its query compiler in WebAssembly, over node-postgres.
'use strict';

const assert = require('node:assert');
const { createHash } = require('node:crypto');
const { PrismaPg } = require('@prisma/adapter-pg');
const { Prisma, PrismaClient } = require('./generated');
const shared = require('./checks.js');
const { MODE, where, authority, versionOf, NotThere, needsTls, sleep, range, together, run } = shared;

const SCHEMA = `prisma_${MODE}`;

const TABLES = `
  DROP SCHEMA IF EXISTS ${SCHEMA} CASCADE;
  CREATE SCHEMA ${SCHEMA};
  CREATE TABLE ${SCHEMA}.items (id int PRIMARY KEY, name text);
  CREATE TABLE ${SCHEMA}.parts (id serial PRIMARY KEY, label text NOT NULL,
    item_id int NOT NULL REFERENCES ${SCHEMA}.items ON DELETE CASCADE);
  CREATE TABLE ${SCHEMA}.kinds (id int PRIMARY KEY, text text NOT NULL, bytes bytea NOT NULL, none text,
    list int[], time timestamptz(3) NOT NULL, big bigint NOT NULL, exact numeric(65, 30) NOT NULL, json jsonb NOT NULL)
`;

/** A client with a pool of its own, with further options for the connections and for the adapter. */
const open = (more = {}, options = {}) =>
  new PrismaClient({ adapter: new PrismaPg({ ...where, ...more }, { schema: SCHEMA, ...options }) });

const client = (work, more, options) => async () => {
  const db = open(more, options);
  try {
    return await work(db);
  } finally {
    await db.$disconnect();
  }
};

/** Its requests have names only if the program sets them; this one gives each text its own. */
const NAMED = { statementNameGenerator: ({ sql }) => createHash('md5').update(sql).digest('hex') };

const only = (rows) => Object.values(rows[0])[0];
const usable = async (db) => assert.strictEqual(only(await db.$queryRaw`SELECT ${41}::int + 1 AS n`), 42);
const lacks = (what) => () => {
  throw new NotThere(what);
};

/** The server's SQLSTATE, which Prisma includes in its errors. */
const state = (code) => (error) => {
  const cause = error.meta?.driverAdapterError?.cause;
  assert.strictEqual(cause?.originalCode ?? error.meta?.code, code, error);
  return true;
};

class Undo extends Error {}

const checks = {
  login: client(async (db) => {
    for (const statement of TABLES.split(';')) await db.$executeRawUnsafe(statement);
    await usable(db);
  }),
  'wrong password': () => assert.rejects(client((db) => db.item.count(), { password: 'wrong' })(), { code: 'P1000' }),
  crud: client(async (db) => {
    const parts = { create: [{ label: 'a' }, { label: 'b' }] };
    await db.item.create({ data: { id: 1, name: 'one', parts } });
    assert.strictEqual((await db.item.createMany({ data: [{ id: 2, name: 'two' }, { id: 3 }] })).count, 2);
    await db.item.update({ where: { id: 2 }, data: { name: 'zwei' } });
    await db.item.upsert({ where: { id: 3 }, create: { id: 3 }, update: { name: 'drei' } });
    const found = await db.item.findMany({ orderBy: { id: 'asc' }, include: { parts: { orderBy: { label: 'asc' } } } });
    assert.deepStrictEqual(found.map((item) => item.name), ['one', 'zwei', 'drei']);
    assert.deepStrictEqual(found.map((item) => item.parts.map((part) => part.label)), [['a', 'b'], [], []]);
    assert.strictEqual((await db.item.deleteMany()).count, 3);
    assert.strictEqual(await db.part.count(), 0);
  }),
  types: client(async (db) => {
    const data = {
      id: 7,
      text: 'é ☃',
      bytes: new Uint8Array([0, 255]),
      none: null,
      list: [1, 2],
      time: new Date('2026-01-02T03:04:05.678Z'),
      big: 2n ** 62n,
      exact: new Prisma.Decimal('0.000000000000000000000000000001'),
      json: { deep: [1, 'é', null] },
    };
    await db.kind.create({ data });
    const { bytes, exact, ...others } = await db.kind.findUnique({ where: { id: 7 } });
    const { bytes: sentBytes, exact: sentExact, ...sent } = data;
    assert.deepStrictEqual(others, sent);
    assert.deepStrictEqual([...bytes], [...sentBytes]);
    assert.ok(exact.equals(sentExact));
  }),
  prepared: () =>
    together(
      10,
      () => Object.assign(open({ max: 1 }, NAMED), { end: PrismaClient.prototype.$disconnect }),
      async (dbs) => {
        for (const turn of range(10)) {
          const text = `SELECT $1::int + ${turn % 3} AS n`;
          const answers = await Promise.all(dbs.map((db, n) => db.$queryRawUnsafe(text, n)));
          answers.forEach((answer, n) => assert.strictEqual(only(answer), n + (turn % 3)));
        }
      },
    ),
  'many statements': client(
    async (db) => {
      for (const turn of range(2)) {
        for (const n of range(300)) {
          assert.strictEqual(only(await db.$queryRawUnsafe(`SELECT $1::int + ${n} AS n`, turn)), turn + n);
        }
      }
    },
    { max: 1 },
    NAMED,
  ),
  'table changed': client(async (db) => {
    const wide = () => db.$queryRawUnsafe(`SELECT * FROM ${SCHEMA}.wide`);
    await db.$executeRawUnsafe(`CREATE TABLE ${SCHEMA}.wide AS SELECT 1 AS a`);
    for (const _ of range(3)) assert.deepStrictEqual(await wide(), [{ a: 1 }]);
    await db.$executeRawUnsafe(`ALTER TABLE ${SCHEMA}.wide ADD b int DEFAULT 2`);
    for (const _ of range(3)) assert.deepStrictEqual(await wide(), [{ a: 1, b: 2 }]);
  }),
  batch: client(async (db) => {
    const data = range(2000).map((id) => ({ id, name: `row ${id}` }));
    const [made, renamed, gone] = await db.$transaction([
      db.item.createMany({ data }),
      db.item.updateMany({ where: { id: { lt: 10 } }, data: { name: 'few' } }),
      db.item.deleteMany(),
    ]);
    assert.deepStrictEqual([made.count, renamed.count, gone.count], [2000, 10, 2000]);
  }),
  pipeline: lacks('Prisma has no pipelines'),
  'pipeline error': client(async (db) => {
    const create = (id) => db.item.create({ data: { id } });
    await assert.rejects(db.$transaction([create(1), create(2), create(1), create(3)]), { code: 'P2002' });
    assert.strictEqual(await db.item.count(), 0);
  }),
  'copy in': lacks('Prisma has no COPY'),
  'copy out': lacks('Prisma has no COPY'),
  'copy error': lacks('Prisma has no COPY'),
  cancel: lacks('Prisma cancels no statement'),
  timeout: client(
    async (db) => {
      await assert.rejects(db.$queryRaw`SELECT 1 AS n FROM pg_sleep(60)`, state('57014'));
      await usable(db);
    },
    { statement_timeout: 700 },
  ),
  commit: client(async (db) => {
    await db.$transaction(async (tx) => {
      await tx.item.create({ data: { id: 1, name: 'one' } });
      assert.strictEqual(await tx.item.count(), 1);
    });
    assert.strictEqual(await db.item.count(), 1);
  }),
  rollback: client(async (db) => {
    const undone = db.$transaction(async (tx) => {
      await tx.item.deleteMany();
      throw new Undo();
    });
    await assert.rejects(undone, Undo);
    assert.strictEqual(await db.item.count(), 1);
  }),
  savepoint: client(async (db) => {
    const undone = db.$transaction(async (tx) => {
      await tx.item.create({ data: { id: 2 } });
      await assert.rejects(tx.$transaction((inner) => inner.item.create({ data: { id: 2 } })), { code: 'P2002' });
      assert.strictEqual(await tx.item.count(), 2);
      throw new Undo();
    });
    await assert.rejects(undone, Undo);
    assert.strictEqual(await db.item.count(), 1);
  }),
  isolation: client(async (db) => {
    const level = (on) => on.$queryRaw`SHOW transaction_isolation`;
    const isolationLevel = 'Serializable';
    assert.strictEqual(only(await db.$transaction(level, { isolationLevel })), 'serializable');
    const [, shown] = await db.$transaction([db.item.count(), level(db)], { isolationLevel });
    assert.strictEqual(only(shown), 'serializable');
    assert.strictEqual(only(await level(db)), 'read committed');
  }),
  'unique violation': client(async (db) => {
    await assert.rejects(db.item.create({ data: { id: 1 } }), { code: 'P2002' });
    await usable(db);
  }),
  'syntax error': client(async (db) => {
    await assert.rejects(db.$queryRawUnsafe('SELEC 1'), state('42601'));
    await assert.rejects(db.$queryRawUnsafe('SELEC $1', 1), state('42601'));
    await usable(db);
  }),
  'error in a transaction': client(async (db) => {
    const failed = db.$transaction(async (tx) => {
      await assert.rejects(tx.$queryRaw`SELECT 1/0`, state('22012'));
      await assert.rejects(tx.$queryRaw`SELECT 1`, state('25P02'));
      throw new Undo();
    });
    await assert.rejects(failed, Undo);
    await usable(db);
  }),
  'transaction too long': client(async (db) => {
    const late = db.$transaction(
      async (tx) => {
        await tx.item.deleteMany();
        await sleep(1500);
        await tx.item.count();
      },
      { timeout: 500 },
    );
    await assert.rejects(late, { code: 'P2028' });
    assert.strictEqual(await db.item.count(), 1);
  }),
  cursor: client(async (db) => {
    await db.item.deleteMany();
    await db.item.createMany({ data: range(1000).map((id) => ({ id })) });
    let seen = 0;
    for (let last; ; ) {
      const from = last === undefined ? {} : { cursor: { id: last }, skip: 1 };
      const items = await db.item.findMany({ take: 100, orderBy: { id: 'asc' }, ...from });
      if (items.length === 0) break;
      assert.strictEqual(items[0].id, seen);
      seen += items.length;
      last = items.at(-1).id;
    }
    assert.strictEqual(seen, 1000);
    await db.item.deleteMany();
  }),
  large: client(async (db) => {
    const name = 'é'.repeat(10_000_000);
    assert.ok((await db.item.create({ data: { id: 1, name } })).name === name);
    await db.item.delete({ where: { id: 1 } });
  }),
  notice: lacks('Prisma passes no notices on'),
  notify: lacks('Prisma has no LISTEN'),
  'session state': lacks('Prisma picks the connection of each request'),
  'startup parameters': async () => {
    const names = ['a', 'b', 'c'];
    const dbs = names.map((name) => open({ application_name: name, options: '-c TimeZone=Asia/Tokyo' }));
    for (const _ of range(5)) {
      for (const [n, name] of names.entries()) {
        assert.strictEqual(only(await dbs[n].$queryRaw`SHOW application_name`), name);
        assert.strictEqual(only(await dbs[n].$queryRaw`SHOW TimeZone`), 'Asia/Tokyo');
      }
    }
    await Promise.all(dbs.map((db) => db.$disconnect()));
  },
  reconnect: client(async (db) => {
    const lost = db.$transaction(async (tx) => {
      const pid = only(await tx.$queryRaw`SELECT pg_backend_pid()`);
      assert.strictEqual(only(await db.$queryRaw`SELECT pg_terminate_backend(${pid}::int)`), true);
      await tx.item.count();
    });
    await assert.rejects(lost);
    for (const n of range(10)) assert.strictEqual(only(await db.$queryRaw`SELECT ${n}::int`), n);
  }),
  pool: client(async (db) => {
    const answers = await Promise.all(range(300).map((n) => db.$queryRaw`SELECT ${n}::int`));
    answers.forEach((answer, n) => assert.strictEqual(only(answer), n));
    const within = range(30).map((n) => db.$transaction(async (tx) => only(await tx.$queryRaw`SELECT ${n}::int`)));
    assert.deepStrictEqual(await Promise.all(within), range(30));
  }),
  'many connections': async () => {
    const work = (n) =>
      client(
        async (db) => {
          for (const turn of range(10)) assert.strictEqual(only(await db.$queryRaw`SELECT ${n + turn}::int`), n + turn);
        },
        { max: 1 },
      )();
    await Promise.all(range(60).map(work));
  },
  tls: async () => {
    needsTls();
    await client(usable, { ssl: { ca: authority } })();
    await assert.rejects(client((db) => db.item.count(), { ssl: true })(), { code: 'P1011' });
  },
};

run(`Prisma ${versionOf('@prisma/client')}, pg ${versionOf('pg')}`, checks);
