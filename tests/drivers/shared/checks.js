// Shared by all drivers of Node.js: where the server is, and how checks are run and reported. README.md has the names.
'use strict';

const { readFileSync } = require('node:fs');
const { join } = require('node:path');

const MODE = process.env.MODE;
const where = {
  host: process.env.HOST,
  port: Number(process.env.PORT),
  user: process.env.USER_NAME,
  password: process.env.PASSWORD,
  database: process.env.DATABASE,
};
const authority = process.env.TLS_AUTHORITY ? readFileSync(process.env.TLS_AUTHORITY, 'utf8') : null;

/** The installed version of a package: not every package exports its package.json. */
const versionOf = (name) => JSON.parse(readFileSync(join(__dirname, 'node_modules', name, 'package.json'))).version;

/** The driver, or a pool in this mode, does not have the checked feature; the text gives the reason. */
class NotThere extends Error {}

/** Thrown at the end of a check that passed, but only with the setting that the text names. */
class Setting extends Error {}

function sessionOnly(what) {
  if (MODE === 'transaction') throw new NotThere(`${what} needs session mode`);
}

function needsTls() {
  if (!authority) throw new NotThere('this PostgreSQL was built without TLS');
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const range = (count) => [...Array(count).keys()];

/** A value if it arrives within 20 seconds; else the check fails instead of hanging. */
const soon = (promise) => Promise.race([promise, sleep(20000).then(() => Promise.reject(new Error('nothing came')))]);

/** Opens so many connections with `open` at once, passes all of them to the function, and closes them. */
async function together(count, open, work) {
  const opened = await Promise.all(range(count).map(() => open()));
  await work(opened);
  await Promise.all(opened.map((one) => one.end()));
}

/** Runs the checks in their order, prints a line for each, and exits. */
async function run(version, checks) {
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
      console.log(`ok   ${name}`);
    } catch (error) {
      if (error instanceof NotThere) {
        console.log(`none ${name}: ${error.message}`);
      } else if (error instanceof Setting) {
        console.log(`set  ${name}: ${error.message}`);
      } else {
        failed += 1;
        console.log(`FAIL ${name}: ${String(error.message).replace(/\s+/g, ' ')}`);
        if (process.env.TRACE) console.error(error);
      }
    }
  }
  console.log(`${version}: ${Object.keys(checks).length} checks, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

module.exports = { MODE, where, authority, versionOf, NotThere, Setting, sessionOnly, needsTls, sleep, range, soon, together, run };
