// The search over everything: whether it is open, what it finds, and where that leads.
import { get } from './api';
import { when } from './format';
import { DOCS } from './docs';
import { openPages } from './pages';
import { pools } from './pools.svelte';
import { to } from './router.svelte';
import { session } from './session.svelte';
import { split } from './settings';
import type { Setting } from './types';

export interface Found {
  kind: 'Page' | 'Pool' | 'Server' | 'User' | 'Change' | 'Setting' | 'Documentation';
  name: string;
  /** A word about it. */
  note: string;
  href: string;
}

/** Pages that the navigation has no link to. */
const MORE: [name: string, note: string, href: string, role: 'viewer' | 'admin'][] = [
  ['Create pool', 'paste a URL', to('new'), 'admin'],
  ['Changed settings', 'other than their defaults', `${to('settings')}?show=changed`, 'viewer'],
];

interface Version {
  number: number;
  at: number;
  user: string | null;
  comment: string | null;
  changes: { object: string; key: string | null }[];
}

/** So many of a kind are shown. */
const MOST = 8;

class Palette {
  open = $state(false);
  readonly keys = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘K' : 'Ctrl K';
  private users = $state.raw<string[]>([]);
  private settings = $state.raw<Setting[]>([]);
  private versions = $state.raw<Version[]>([]);

  show() {
    this.open = true;
    // What is not known yet comes while the first letters are typed.
    void pools.refresh().catch(() => {});
    void get<Setting[]>('settings').then((settings) => (this.settings = settings), () => {});
    void get<{ versions: Version[] }>('config/versions', { limit: 50 }).then(({ versions }) => (this.versions = versions), () => {});
    void get<{ users: { name: string }[] }>('users', { limit: 1000 }).then(({ users }) => (this.users = users.map(({ name }) => name)), () => {});
  }

  /** The database servers that pools lead to. */
  private servers(): string[] {
    return [...new Set(pools.rows.flatMap(({ pool }) => pool.hosts))];
  }

  /** What has all of these words, the best first in each kind. */
  find(text: string): Found[] {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const best = (all: Found[], most = MOST) => all
      .map((found) => [rank(found, words), found] as const)
      .filter(([rank]) => rank > 0)
      .sort(([a], [b]) => b - a)
      .slice(0, most)
      .map(([, found]) => found);
    return [
      ...best([
        ...openPages().map(({ page, label, note }): Found => ({ kind: 'Page', name: label, note, href: to(page) })),
        ...MORE.filter(([, , , role]) => session.may(role)).map(([name, note, href]): Found => ({ kind: 'Page', name, note, href })),
      ]),
      ...best(pools.rows.map(({ pool }) => ({ kind: 'Pool', name: pool.name, note: `${pool.database} on ${pool.hosts.join(', ')}`, href: to('pools', pool.name) }))),
      ...(words.length === 0 ? [] : [
        ...best(this.users.map((name) => ({ kind: 'User', name, note: 'limits, clients and pools', href: `${to('users')}?q=${encodeURIComponent(name)}` }))),
        ...best(this.servers().map((name) => ({ kind: 'Server', name, note: 'its connections and pools', href: `${to('databases')}?server=${encodeURIComponent(name)}` }))),
        ...best(this.versions.map(changeOf)),
        ...best(this.settings.map(({ key, description = '' }) => ({ kind: 'Setting', name: key, note: split(description)[0], href: `${to('settings')}?q=${key}` }))),
        ...best(DOCS.map(([name, title]) => ({ kind: 'Documentation', name: title, note: `${name}.md`, href: to('docs', name) }))),
      ]),
    ];
  }
}

/** A version of the configuration, by what it changed. */
function changeOf({ number, at, user, comment, changes }: Version): Found {
  const what = [...new Set(changes.map(({ object, key }) => `${object} ${key ?? ''}`.trim()))].slice(0, 3).join(', ');
  const note = [comment, user, when(at, 'minute')].filter(Boolean).join(' · ');
  return { kind: 'Change', name: `version ${number}: ${what || 'start'}`, note, href: `${to('history')}?q=${encodeURIComponent(changes[0]?.object ?? '')}` };
}

/** A name that begins with the text is best, then one that has it, then a note that has it. */
function rank({ name, note }: Found, words: string[]): number {
  const [lower, other] = [name.toLowerCase(), note.toLowerCase()];
  let sum = 1;
  for (const word of words) {
    if (lower.startsWith(word)) sum += 3;
    else if (lower.includes(word)) sum += 2;
    else if (other.includes(word)) sum += 1;
    else return 0;
  }
  return sum;
}

export const palette = new Palette();
