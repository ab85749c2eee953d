// Entries of the audit log, and what was done in words.
import type { Difference } from '../pages/history/Differences.svelte';

export interface Entry {
  at: number;
  user: string | null;
  from: string;
  method: string;
  path: string;
  status: number | null;
  times: number;
  object: string;
  changes: Difference[];
  more_changes: number;
  comment: string | null;
  /** The version of the configuration that the change made. */
  version: number | null;
}

const CONTROL: Record<string, string> = {
  reload: 'read the configuration file again', pause: 'pause all pools', resume: 'resume all pools', reconnect: 'replace the servers of all pools',
  suspend: 'suspend all pools', kill: 'pause all pools and drop their clients', disable: 'disable all pools', enable: 'enable all pools',
  shutdown: 'shut Weir down', login: 'log in', logout: 'log out',
};

const COMMANDS: Record<string, string> = { START: 'start Weir', SIGHUP: 'read the configuration file again', RELOAD: 'read the configuration file again' };

/** A request as words: what, of which pool. */
export function whatOf({ method, path, object }: Entry): string {
  // Of the console, a signal or the start: the command.
  if (path === '') return COMMANDS[method] ?? `${method} ${object}`.trim();
  const [kind = '', name = '', act = '', process = '', signal = ''] = path.replace(/^\/api\/v1\//, '').split('/').map(decoded);
  if (kind === 'pools' && act === 'backends') return `${signal === 'cancel' ? 'cancel the query of' : signal} process ${process} of pool ${name}`;
  if (kind === 'pools' && act) return `${act.replaceAll('-', ' ')} pool ${name}`;
  if (kind === 'pools' && name === 'test') return 'test a connection';
  if (kind === 'advice') return `${act} advice for pool ${name}`;
  if (kind === 'config') return name === 'versions' ? `${process === '' ? act : process} version ${act} of the configuration` : 'change the configuration';
  if (kind === 'clients') return `drop client ${name}`;
  if (kind === 'settings') return `set ${name}`;
  if (kind === 'statements') return 'count statements from zero';
  const known = name === '' ? CONTROL[kind] : undefined;
  if (known) return known;
  // Any other thing that there is: its kind in the singular, and its name.
  const thing = `${kind.replace(/s$/, '').replaceAll('-', ' ')}${name ? ` ${name}` : ''}`;
  const verb = { POST: act || (name ? 'change' : 'create a'), PATCH: 'change', PUT: 'change', DELETE: 'delete' }[method] ?? method;
  return `${verb} ${thing}`;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
