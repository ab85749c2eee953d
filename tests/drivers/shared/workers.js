// Shared by the job queues of Node.js: worker processes that say what they do, and what must have been done.
'use strict';

const { fork } = require('node:child_process');
const { Client } = require('pg');
const { where, sleep, soon } = require('./checks.js');

/** A worker process of the program that calls: the same file, with these arguments. */
class Worker {
  constructor(file, ...args) {
    this.process = fork(file, ['worker', ...args.map(String)]);
    this.said = [];
    this.process.on('message', (what) => this.said.push(what));
    this.gone = new Promise((done) => this.process.on('exit', done));
  }

  /** Waits until the worker has said something that fits. */
  async says(fits) {
    await eventually(() => {
      if (this.process.exitCode !== null) throw new Error('the worker has ended');
      if (!this.said.some(fits)) throw new Error(`the worker has said ${JSON.stringify(this.said)}`);
    });
    return this.said.find(fits);
  }

  async end(signal = 'SIGTERM') {
    this.process.kill(signal);
    await soon(this.gone);
  }
}

/** So many workers, ready, for as long as the function runs. */
async function withWorkers(count, file, args, work) {
  const workers = Array.from({ length: count }, () => new Worker(file, ...args));
  try {
    await Promise.all(workers.map((worker) => worker.says((what) => what === 'ready')));
    return await work(workers);
  } finally {
    await Promise.all(workers.map((worker) => worker.end('SIGKILL')));
  }
}

/** Tries until it does not throw, for half a minute. */
async function eventually(work) {
  for (let tries = 0; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (tries >= 300) throw error;
      await sleep(100);
    }
  }
}

/** The rows of a query on a connection of its own. */
async function query(text, values) {
  const client = new Client(where);
  await client.connect();
  try {
    return (await client.query(text, values)).rows;
  } finally {
    await client.end();
  }
}

module.exports = { Worker, withWorkers, eventually, query };
