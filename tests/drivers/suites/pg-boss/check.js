// pg-boss: jobs that a notification alone starts, whose listener asks its own session on what it listens; that several
// processes share, that fail, that a killed worker leaves behind, and that end in one transaction with their work.
'use strict';

const assert = require('node:assert');
const { where, versionOf, range, sleep, run } = require('./checks.js');
const { Worker, withWorkers, eventually, query } = require('./workers.js');

const HOUR = 3600;

/** An instance, started; what it reports as an error is passed to the function. */
async function start(options, onError) {
  const { PgBoss } = await import('pg-boss');
  const boss = new PgBoss({ ...where, useListenNotify: true, notifyHeartbeatIntervalMs: 100, monitorIntervalSeconds: 1, ...options });
  boss.on('error', onError);
  await boss.start();
  return boss;
}

const fails = (error) => {
  throw error;
};

async function worker(name, poll) {
  const boss = await start({ max: 4 }, (error) => process.send({ error: error.message }));
  const polling = { pollingIntervalSeconds: Number(poll), notifyPollingIntervalSeconds: Number(poll) };
  const done = (db, id) => (db ?? boss.getDb()).executeSql('INSERT INTO done VALUES ($1, $2)', [id, process.pid]);
  const options = { includeMetadata: true, batchSize: 1, localConcurrency: 3, ...polling };
  await boss.work(name, options, async ([job]) => {
    if (job.data.fails > job.retryCount) throw new Error('as it should');
    if (job.data.hangs && job.retryCount === 0) {
      process.send({ holds: job.id });
      await new Promise(() => {});
    }
    await done(null, job.data.name);
  });
  await boss.work(`${name}-transactional`, { ...options, transactional: true }, async ([job], db) => {
    await done(db, `${job.data.name} ${job.retryCount}`);
    if (job.data.fails > job.retryCount) throw new Error('as it should');
  });
  process.send('ready');
}

const names = (count, what) => range(count).map((one) => `${what} ${one}`);
const areDone = (wanted) =>
  eventually(async () => {
    const rows = await query('SELECT name FROM done');
    assert.deepStrictEqual(rows.map(({ name }) => name).sort(), [...wanted].sort());
  });

let queues = 0;

/** Does something with a queue of its own, and workers that have begun to wait for its jobs. */
const withQueue = (count, poll, work, more = {}) => async () => {
  await query('TRUNCATE done');
  const name = `queue-${(queues += 1)}`;
  const boss = await start({}, fails);
  try {
    const options = { notify: true, retryLimit: 3, retryDelay: 0, ...more };
    await boss.createQueue(name, options);
    await boss.createQueue(`${name}-transactional`, options);
    await withWorkers(count, __filename, [name, poll], (workers) => work(boss, name, workers));
  } finally {
    await boss.stop({ graceful: false });
  }
};

const checks = {
  'several processes install the schema at once': async () => {
    await query('CREATE TABLE done (name text, worker int)');
    const all = await Promise.all(range(3).map(() => start({}, fails)));
    await Promise.all(all.map((boss) => boss.stop({ graceful: false })));
  },
  'a notification alone starts a job': withQueue(1, HOUR, async (boss, name, [worker]) => {
    for (const one of names(10, 'woken')) {
      await query('TRUNCATE done');
      await boss.send(name, { name: one });
      await areDone([one]);
    }
    assert.deepStrictEqual(worker.said.filter(({ error }) => error), []);
  }),
  'a listener finds its own channel in each of its transactions': withQueue(2, 0.5, async (boss, name, workers) => {
    await Promise.all([sleep(3000), boss.insert(name, names(50, 'beside').map((one) => ({ data: { name: one } })))]);
    await areDone(names(50, 'beside'));
    assert.deepStrictEqual(workers.flatMap(({ said }) => said.filter(({ error }) => error)), []);
  }),
  'three processes share 200 jobs, each is done once': withQueue(3, 0.5, async (boss, name) => {
    await Promise.all(names(200, 'shared').map((one) => boss.send(name, { name: one })));
    await areDone(names(200, 'shared'));
  }),
  'a job that fails is tried again': withQueue(2, 0.5, async (boss, name) => {
    await Promise.all(names(5, 'failed').map((one) => boss.send(name, { name: one, fails: 1 })));
    await areDone(names(5, 'failed'));
  }),
  'a job and its work end in one transaction': withQueue(2, 0.5, async (boss, name) => {
    const send = (one) => boss.send(`${name}-transactional`, { name: one, fails: 1 });
    await Promise.all(names(10, 'at once').map(send));
    await areDone(names(10, 'at once').map((one) => `${one} 1`));
  }),
  'another process takes what a killed one has begun': withQueue(1, 0.5, async (boss, name, [killed]) => {
    await boss.send(name, { name: 'hung', hangs: true });
    await killed.says(({ holds }) => holds);
    await killed.end('SIGKILL');
    const next = new Worker(__filename, name, 0.5);
    try {
      await eventually(async () => {
        await boss.supervise(name);
        assert.strictEqual((await query('SELECT FROM done')).length, 1);
      });
    } finally {
      await next.end('SIGKILL');
    }
  }, { expireInSeconds: 1 }),
};

if (process.argv[2] === 'worker') {
  worker(...process.argv.slice(3)).catch((error) => {
    console.error(error);
    process.exit(1);
  });
} else {
  run(`pg-boss ${versionOf('pg-boss')}`, checks);
}
