// A Weir for one check, where that of the stand is not suitable: with accounts, with other pools, or with none.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from './stage.mjs';

const WEIR = process.env.WEIR_BIN;
export const PASSWORD = 'seven swift swans';

/** The length of the log that an error shows. */
const MAX_OUTPUT = 4096;

/** The users, as lines of [web.users]; all have the same password. */
export function accounts(roles) {
  const line = ([name, role]) =>
    execFileSync(WEIR, ['account', name, '--role', role], { input: `${PASSWORD}\n`, stdio: ['pipe', 'pipe', 'ignore'] });
  return `[web.users]\n${Object.entries(roles).map(line).join('')}`;
}

/** Serves until `stop` is called. The text has the authentication and the pools; the addresses are added here. `files`: others
 * beside it, by name. */
export async function serve(text, files = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'weir-panel-'));
  const [port, web] = [await freePort(), await freePort()];
  const listen = `[listen]\naddress = "127.0.0.1"\nport = ${port}\n[web]\naddress = "127.0.0.1"\nport = ${web}\n`;
  const file = join(folder, 'weir.toml');
  writeFileSync(file, listen + text, { mode: 0o600 });
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content, { mode: 0o600 });
  const weir = spawn(WEIR, ['serve', file], { stdio: ['ignore', 'ignore', 'pipe'] });
  // Whatever the outcome of the check, nothing is left running.
  process.once('exit', () => {
    weir.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  let output = '';
  weir.stderr.on('data', (data) => (output = (output + data).slice(-MAX_OUTPUT)));
  const panel = `http://127.0.0.1:${web}/`;
  const stop = async () => {
    if (weir.exitCode === null && weir.signalCode === null) {
      weir.kill('SIGQUIT');
      await once(weir, 'exit');
    }
    rmSync(folder, { recursive: true, force: true });
  };
  await until('it serves', () => {
    if (weir.exitCode !== null) throw new Error(`weir has ended: ${output}`);
    return fetch(`${panel}healthz`).then((answer) => answer.ok, () => false);
  });
  /** The process dies at once, as in a crash. */
  const kill = () => weir.kill('SIGKILL');
  /** Its configuration, a change of it by hand, and the request to read it again. */
  const read = () => readFileSync(file, 'utf8');
  const edit = (by) => writeFileSync(file, by(read()));
  const hangUp = () => weir.kill('SIGHUP');
  return { panel, port, stop, kill, file: read, edit, hangUp, log: () => output };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}
