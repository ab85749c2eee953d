// A Weir of a check's own, where that of the stand won't do: with accounts, with other pools, or with none.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from './stage.mjs';

const WEIR = process.env.WEIR_BIN;
export const PASSWORD = 'seven swift swans';

/** Of its log, what an error shows. */
const MOST_SAID = 4096;

/** Who may log in, as lines of [web.users]; all have the same password. */
export function accounts(roles) {
  const line = ([name, role]) =>
    execFileSync(WEIR, ['account', name, '--role', role], { input: `${PASSWORD}\n`, stdio: ['pipe', 'pipe', 'ignore'] });
  return `[web.users]\n${Object.entries(roles).map(line).join('')}`;
}

/** Serves until `stop` is called. What clients log in with, and the pools, stand in the text; the addresses are its own. */
export async function serve(text) {
  const folder = mkdtempSync(join(tmpdir(), 'weir-panel-'));
  const [port, web] = [await freePort(), await freePort()];
  const listen = `[listen]\naddress = "127.0.0.1"\nport = ${port}\n[web]\naddress = "127.0.0.1"\nport = ${web}\n`;
  const file = join(folder, 'weir.toml');
  writeFileSync(file, listen + text, { mode: 0o600 });
  const weir = spawn(WEIR, ['serve', file], { stdio: ['ignore', 'ignore', 'pipe'] });
  // Whatever becomes of the check, nothing is left behind.
  process.once('exit', () => {
    weir.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  let said = '';
  weir.stderr.on('data', (data) => (said = (said + data).slice(-MOST_SAID)));
  const panel = `http://127.0.0.1:${web}/`;
  const stop = async () => {
    if (weir.exitCode === null) {
      weir.kill('SIGQUIT');
      await once(weir, 'exit');
    }
    rmSync(folder, { recursive: true, force: true });
  };
  await until('it serves', () => {
    if (weir.exitCode !== null) throw new Error(`weir has ended: ${said}`);
    return fetch(`${panel}healthz`).then((answer) => answer.ok, () => false);
  });
  return { panel, port, stop, log: () => said };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}
