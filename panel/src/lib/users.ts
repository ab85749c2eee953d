// Users as clients: who may log in to which pool, and a password that was just chosen, for as long as the page is open.
import { afterVersion, get, patch, post, remove } from './api';
import { notices, untilRestart } from './notices.svelte';
import type { Changed, User } from './types';

export const userPath = (name: string, rest = '') => `users/${encodeURIComponent(name)}${rest}`;

export const allUsers = () => get<{ users: User[] }>('users', { limit: 1000 }).then(({ users }) => users);

/** The pools that a user may use; none named: all. */
export const poolsOf = ({ rules }: User) => (Array.isArray(rules.pools) ? (rules.pools as string[]) : []);

/** Whether a client may log in to a pool as this user, with a password that Weir knows. */
export function mayUse(user: User, pool: string): boolean {
  const pools = poolsOf(user);
  return user.listed && user.secret !== 'empty' && !user.disabled && (pools.length === 0 || pools.includes(pool));
}

/** Those of a pool, the best to name in a connection string first: who uses it, who may not also use the console, by name. */
export function clientsOf(pool: string, users: User[]): User[] {
  const rank = (user: User) => Number(user.console !== null) * 2 + Number(!user.pools.some(({ name, clients }) => name === pool && clients > 0));
  return users.filter((user) => mayUse(user, pool)).sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}

/** The last password that was given to a user on this page. It is nowhere else, and gone when the page is. */
export const fresh: { user: string; password: string } = { user: '', password: '' };

export function remember(user: string, password: string) {
  Object.assign(fresh, { user, password });
}

export const passwordOf = (user: string) => (fresh.user === user ? fresh.password : '');

const CHARACTERS = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789';
const LENGTH = 24;

/** A random password, without characters that look alike or that a URL would have to quote. */
export function generated(): string {
  const limit = 256 - (256 % CHARACTERS.length);
  let text = '';
  while (text.length < LENGTH) {
    const bytes = crypto.getRandomValues(new Uint8Array(LENGTH));
    for (const byte of bytes) if (byte < limit && text.length < LENGTH) text += CHARACTERS[byte % CHARACTERS.length];
  }
  return text;
}

/** Changes a user, and says so. */
export async function changeUser(name: string, keys: Record<string, unknown>, said: string, undo: Record<string, unknown> | null = null) {
  const changed = await patch<Changed>(userPath(name), keys);
  const back = async () => {
    try {
      await patch(afterVersion(userPath(name), changed.version), undo);
      notices.changed(`user ${name}`, `${name} is set back`, null);
    } catch (error) {
      notices.notSetBack(name, error);
    }
  };
  notices.changed(`user ${name}`, said, undo && back, untilRestart(changed));
}

export async function makeUser(name: string, keys: Record<string, unknown>) {
  const made = await post<Changed>('users', { name, ...keys });
  notices.changed(`user ${name}`, `User ${name} is created`, null, untilRestart(made));
}

export async function dropUser(name: string) {
  const gone = await remove<Changed>(userPath(name));
  notices.changed(`user ${name}`, `User ${name} is deleted`, null, untilRestart(gone));
}

export interface LoginTested {
  ok: boolean;
  milliseconds?: number;
  server_user?: string;
  version?: string;
  error?: string;
  sqlstate?: string;
  detail?: string | null;
  hint?: string | null;
}

/** Logs in to Weir as a client would. */
export const tryLogin = (user: string, pool: string, password: string) => post<LoginTested>(userPath(user, '/test'), { pool, password });
