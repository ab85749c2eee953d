// graphile-worker: jobs that a notification alone starts, that several processes share, that fail, and that a killed
// worker leaves behind; jobs that use temporary tables and advisory locks on the connections of the workers' pools.
'use strict';

const assert = require('node:assert');
const { makeWorkerUtils, run: runWorker, Logger } = require('graphile-worker');
const { where, versionOf, range, run } = require('./checks.js');
const { Worker, withWorkers, eventually, query } = require('./workers.js');

const HOUR = 3600000;
const connectionString = `postgres://${where.user}:${where.password}@${where.host}:${where.port}/${where.database}`;
const logger = new Logger(() => (level, message) => level === 'error' && console.error(message));

// Each writes what it has done into the table `done`.
const tasks = {
  async plain({ name }, { query }) {
    await query('INSERT INTO done VALUES ($1, $2)', [name, process.pid]);
  },
  async fails_once({ name }, { query, job }) {
    if (job.attempts < 2) throw new Error('as it should');
    await query('INSERT INTO done VALUES ($1, $2)', [name, process.pid]);
  },
  async in_turn({ name }, { query, withPgClient }) {
    await query("INSERT INTO done VALUES ($1, $2)", [`${name} begins`, process.pid]);
    await withPgClient((client) => client.query('SELECT pg_sleep(0.01)'));
    await query("INSERT INTO done VALUES ($1, $2)", [`${name} ends`, process.pid]);
  },
  // What it leaves between its transactions is there for it, and for nobody else.
  async with_state({ name }, { withPgClient }) {
    await withPgClient(async (client) => {
      await client.query('CREATE TEMP TABLE scratch (name text)');
      await client.query('SELECT pg_advisory_lock(1)');
      await client.query("SET work_mem = '5MB'");
      await client.query('INSERT INTO scratch VALUES ($1)', [name]);
      await client.query("UPDATE shared SET value = value + 1 WHERE (SELECT count(*) FROM scratch) = 1");
      const { rows } = await client.query("SELECT current_setting('work_mem') AS memory");
      await client.query("INSERT INTO done SELECT name || ' ' || $1, $2 FROM scratch", [rows[0].memory, process.pid]);
      await client.query('SELECT pg_advisory_unlock(1)');
      await client.query('DROP TABLE scratch');
      await client.query('RESET work_mem');
    });
  },
  // The first time it holds a lock and a temporary table for ever.
  async hangs({ name }, { withPgClient, job }) {
    await withPgClient(async (client) => {
      await client.query('SELECT pg_advisory_lock(2)');
      await client.query('CREATE TEMP TABLE held (name text)');
      await client.query('INSERT INTO done VALUES ($1, $2)', [`${name} ${job.attempts}`, process.pid]);
      if (job.attempts === 1) {
        process.send({ holds: job.id });
        await new Promise(() => {});
      }
      await client.query('DROP TABLE held');
      await client.query('SELECT pg_advisory_unlock(2)');
    });
  },
};

async function worker(pollInterval) {
  const options = { connectionString, concurrency: 3, pollInterval: Number(pollInterval), maxPoolSize: 4, taskList: tasks, logger };
  const runner = await runWorker({ ...options, noHandleSignals: true });
  runner.events.on('worker:getJob:start', ({ worker }) => process.send({ worker: worker.workerId }));
  // It is woken by notifications from here on.
  runner.events.on('pool:listen:success', () => process.send('ready'));
  await runner.promise;
}

/** Does something with workers that begin without a job. */
const withJobs = (count, poll, work) => async () => {
  await query('TRUNCATE done');
  const utils = await makeWorkerUtils({ connectionString, logger });
  try {
    await withWorkers(count, __filename, [poll], (workers) => work(utils, workers));
  } finally {
    await utils.release();
  }
};

const done = async () => (await query('SELECT name FROM done')).map(({ name }) => name);
const add = (utils, task, names, spec) => Promise.all(names.map((name) => utils.addJob(task, { name }, spec)));
const names = (count, what) => range(count).map((one) => `${what} ${one}`);

/** All are done, and no worker has one of them any more. */
const areDone = (wanted) =>
  eventually(async () => {
    assert.deepStrictEqual((await done()).sort(), [...wanted].sort());
    assert.strictEqual((await query('SELECT FROM graphile_worker._private_jobs')).length, 0);
  });

const checks = {
  'several processes install the schema at once': async () => {
    await query('CREATE TABLE done (name text, worker int)');
    await query('CREATE TABLE shared AS SELECT 0 AS value');
    const all = await Promise.all(range(3).map(() => makeWorkerUtils({ connectionString, logger })));
    await Promise.all(all.map((utils) => utils.migrate()));
    await Promise.all(all.map((utils) => utils.release()));
  },
  'a notification alone starts a job': withJobs(1, HOUR, async (utils) => {
    for (const name of names(10, 'woken')) {
      await query('TRUNCATE done');
      await add(utils, 'plain', [name]);
      await areDone([name]);
    }
  }),
  'three processes share 300 jobs, each is done once': withJobs(3, HOUR, async (utils) => {
    await add(utils, 'plain', names(300, 'shared'));
    await areDone(names(300, 'shared'));
  }),
  'jobs of SQL run with their transaction, or not at all': withJobs(1, HOUR, async () => {
    const job = (name) => `SELECT graphile_worker.add_job('plain', '{"name": "${name}"}')`;
    await query(`BEGIN; ${job('undone')}; ROLLBACK; BEGIN; ${job('one')}; ${job('two')}; COMMIT`);
    await areDone(['one', 'two']);
  }),
  'jobs of a queue run one after the other': withJobs(3, 500, async (utils) => {
    await add(utils, 'in_turn', names(20, 'queued'), { queueName: 'one' });
    await areDone(names(20, 'queued').flatMap((name) => [`${name} begins`, `${name} ends`]));
    const lines = await done();
    range(20).forEach((turn) => assert.strictEqual(lines[2 * turn].replace('begins', 'ends'), lines[2 * turn + 1]));
  }),
  'a job that fails is tried again': withJobs(1, 500, async (utils) => {
    await add(utils, 'fails_once', names(3, 'failed'));
    await areDone(names(3, 'failed'));
  }),
  'state between the transactions of a job': withJobs(3, HOUR, async (utils) => {
    await query('UPDATE shared SET value = 0');
    await add(utils, 'with_state', names(60, 'with state'));
    await areDone(names(60, 'with state').map((name) => `${name} 5MB`));
    assert.strictEqual((await query('SELECT value FROM shared'))[0].value, 60);
  }),
  'another process takes the job, the lock and the name of the table of a killed one': withJobs(1, 500, async (utils, [killed]) => {
    await add(utils, 'hangs', ['hung']);
    await killed.says(({ holds }) => holds);
    await killed.end('SIGKILL');
    const [{ locked_by }] = await query('SELECT locked_by FROM graphile_worker._private_jobs WHERE locked_by IS NOT NULL');
    await utils.forceUnlockWorkers([locked_by]);
    const next = new Worker(__filename, 500);
    try {
      await areDone(['hung 1', 'hung 2']);
    } finally {
      await next.end('SIGKILL');
    }
  }),
  'jobs run again after their servers were killed': withJobs(2, 500, async (utils) => {
    await add(utils, 'plain', names(10, 'before'));
    await areDone(names(10, 'before'));
    await query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()');
    await eventually(() => add(utils, 'plain', ['after']));
    await areDone([...names(10, 'before'), 'after']);
  }),
};

if (process.argv[2] === 'worker') {
  worker(...process.argv.slice(3)).catch((error) => {
    console.error(error);
    process.exit(1);
  });
} else {
  run(`graphile-worker ${versionOf('graphile-worker')}`, checks);
}
