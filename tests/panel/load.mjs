// Clients that run until they are stopped: pgbench if it is installed, else the driver. All their errors are reported
// at the end; none is allowed.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';

/** Long enough that a short queue causes a noticeable wait, on any machine. */
const WORK = 'SELECT pg_sleep(0.02)';

/** A client of the driver with exactly this address; the password comes from PGPASSWORD, as everywhere. */
export function client(uri) {
  return new pg.Client({ connectionString: uri });
}

/** Starts this many clients; the returned function stops them and returns their errors. */
export function load(uri, clients) {
  const pgbench = program();
  return pgbench ? bench(pgbench, uri, clients) : drive(uri, clients);
}

function program() {
  const found = spawnSync('pg_config', ['--bindir'], { encoding: 'utf8' });
  const places = ['pgbench', ...(found.status === 0 ? [join(found.stdout.trim(), 'pgbench')] : [])];
  return places.find((place) => spawnSync(place, ['--version']).status === 0);
}

function bench(pgbench, uri, clients) {
  const folder = mkdtempSync(join(tmpdir(), 'weir-load-'));
  const script = join(folder, 'work.sql');
  writeFileSync(script, `${WORK};\n`);
  const options = ['--no-vacuum', '--file', script, '--client', String(clients), '--time', '86400', '--progress', '1'];
  const run = spawn(pgbench, [...options, uri], { stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  for (const stream of [run.stdout, run.stderr]) stream.on('data', (data) => (printed += data));
  const ended = once(run, 'exit');
  // Whatever the outcome of the check, the load ends with it.
  process.once('exit', () => run.kill('SIGKILL'));
  return async () => {
    const early = run.exitCode;
    run.kill('SIGINT');
    await ended;
    rmSync(folder, { recursive: true, force: true });
    const lines = printed.split('\n').filter((line) => line !== '' && !/^pgbench \(|^progress: [^f]*(\b0 failed.*)?$/.test(line));
    return early === null ? lines : [`pgbench ended with ${early}`, ...lines];
  };
}

function drive(uri, clients) {
  let stop = false;
  const errors = [];
  const works = Array.from({ length: clients }, async () => {
    const one = client(uri);
    one.on('error', (error) => errors.push(error.message));
    try {
      await one.connect();
      while (!stop) await one.query(WORK);
      await one.end();
    } catch (error) {
      errors.push(error.message);
    }
  });
  return async () => {
    stop = true;
    await Promise.all(works);
    return errors;
  };
}
