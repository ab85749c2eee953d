// What was changed about a pool and when, from the audit log: the marks on its graphs.
import { get } from './api';

export interface Deed {
  at: number;
  text: string;
}

interface Entry {
  at: number;
  user: string | null;
  method: string;
  path: string;
  status: number | null;
  changes?: { key: string; old: string | null; new: string | null }[];
}

const MOST = 300;
/** Changed keys that a mark names. */
const SHOWN = 2;

/** The changes of a pool, or of all pools; none for who may not see the log. */
export async function deedsOf(pool: string): Promise<Deed[]> {
  const log = await get<{ entries: Entry[] }>('audit', { limit: MOST }).catch(() => null);
  const deeds = (log?.entries ?? []).flatMap(({ at, user, method, path, status, changes = [] }) => {
    const done = status !== null && status < 400;
    const what = done ? whatOf(method, path, pool) : null;
    const how = changes.slice(0, SHOWN).map((one) => `${one.key} ${one.old ?? 'default'} → ${one.new ?? 'default'}`).join(', ');
    return what ? [{ at, text: `${what}${how ? `: ${how}` : ''}${user ? ` by ${user}` : ''}` }] : [];
  });
  return deeds.reverse();
}

function whatOf(method: string, path: string, pool: string): string | null {
  const [kind = '', name = '', act = ''] = path.replace(/^\/api\/v1\//, '').split('/').map(decoded);
  if (kind === 'pools' && name === pool) {
    if (['retry', 'backends', 'start-record', 'stop-record'].includes(act)) return null;
    return act || (method === 'DELETE' ? 'deleted' : 'changed');
  }
  if (kind === 'pools' && method === 'POST' && name === '') return null;
  if (kind === 'advice' && name === pool && act !== 'keep') return act === 'apply' ? 'advice applied' : 'advice undone';
  if (kind === 'settings') return `${name} changed`;
  if (['pause', 'resume', 'reconnect', 'reload'].includes(kind)) return kind === 'reload' ? 'file reloaded' : `all pools: ${kind}`;
  return null;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
