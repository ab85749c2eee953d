// node-postgres' pool, with its defaults but for the size.
'use strict';

const { Pool } = require('pg');

const BUSY = 8;
const CALM = 8;
const GAP = Number(process.env.GAP ?? 5);

const { HOST, PORT, USER_NAME, PASSWORD, DATABASE } = process.env;
const pool = new Pool({
  host: HOST,
  port: Number(PORT),
  user: USER_NAME,
  password: PASSWORD,
  database: DATABASE,
  max: BUSY + CALM,
});
// An idle client whose connection ends is reported here; the pool has removed it already.
pool.on('error', () => {});
let ends = false;
let done = 0;
const errors = [];
const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

async function work(number) {
  while (!ends) {
    try {
      if (done % 3 === 0) {
        const client = await pool.connect();
        let broken;
        try {
          for (const text of ['BEGIN', 'SELECT 1', 'COMMIT']) await client.query(text);
        } catch (error) {
          broken = error;
          throw error;
        } finally {
          client.release(broken);
        }
      } else {
        await pool.query('SELECT $1::int', [number]);
      }
      done += 1;
    } catch (error) {
      errors.push(`${error.name} ${error.code ?? ''}: ${error.message}`);
    }
    await sleep(Math.random() * (number < BUSY ? GAP : 3000));
  }
}

async function main() {
  const tasks = Array.from({ length: BUSY + CALM }, (_, number) => work(number));
  console.log('works');
  for await (const _ of process.stdin);
  ends = true;
  await Promise.all(tasks);
  await pool.end();
  console.log(`node-postgres ${require('pg/package.json').version}: ${done} done, ${errors.length} failed`);
  errors.forEach((error) => console.log(`error ${error}`));
}

main();
