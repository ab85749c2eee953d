// The search over everything: whether it is open, what it finds, and where that leads.
import { get } from './api';
import { plural, when } from './format';
import { DOCS } from './docs';
import { openPages } from './pages';
import { pools } from './pools.svelte';
import { to } from './router.svelte';
import { session } from './session.svelte';
import { split } from './settings';
import type { ConnectionPage, Me, Setting } from './types';

export interface Found {
  kind: 'Page' | 'Task' | 'State' | 'Pool' | 'Server' | 'Application' | 'User' | 'Change' | 'Setting' | 'Documentation';
  name: string;
  /** A word about it. */
  note: string;
  /** Other words that find it. */
  words?: string;
  href: string;
}

/** What one wants to do, where it is done, and other words for it. */
const TASKS: [name: string, note: string, words: string, href: string, role: Me['role']][] = [
  ['Create pool', 'paste a URL', 'new add database', to('new'), 'admin'],
  ['Create user', 'who may log in', 'new add login account password', to('users'), 'admin'],
  ['Change a password or a user’s limits', 'in Users', 'secret rotate', to('users'), 'admin'],
  ['See what is broken', 'causes, and what to do', 'problem down incident outage why slow', to('incidents'), 'viewer'],
  ['Drop clients that leak', 'idle in transactions', 'kill disconnect leaking idle transaction', to('incidents'), 'operator'],
  ['Cancel a query or end a lock', 'holders and what they block', 'terminate backend blocked kill', to('incidents'), 'operator'],
  ['Pools that have a problem', 'only these', 'broken failing', `${to('pools')}?show=problems`, 'viewer'],
  ['Pools with waiting clients', 'only these', 'queue', `${to('pools')}?show=waiting`, 'viewer'],
  ['Pools that are paused or disabled', 'only these', 'resume enable', `${to('pools')}?show=stopped`, 'viewer'],
  ['Pools by their incident', 'in groups', 'group cause problem', `${to('pools')}?group=incident`, 'viewer'],
  ['Pools by their server', 'in groups', 'group host', `${to('pools')}?group=server`, 'viewer'],
  ['Changed settings', 'other than their defaults', 'differ', `${to('settings')}?show=changed`, 'viewer'],
  ['Reload the configuration file', 'in Settings', 'read again hup', to('settings'), 'admin'],
  ['Undo a change', 'roll back to a version', 'restore revert', to('history'), 'admin'],
  ['Silence an alert', 'in Alerts', 'mute page', to('alerts'), 'operator'],
  ['Resize a pool', 'sizes that fit the load', 'bigger smaller size', to('advice'), 'viewer'],
];

/** The states of a pool, and how it is found there: in its list, or in words. */
const STATES: [state: string, note: string][] = [
  ['healthy', 'no client waits, and the server answers'],
  ['waiting', 'a client waits'],
  ['slow', 'queries take far longer than before'],
  ['cannot grow', 'no further server can be opened'],
  ['saturated', 'all servers are busy, and clients wait'],
  ['stalled', 'clients idle in transactions hold the servers'],
  ['blocked', 'a query waits for a lock'],
  ['failing', 'queries end in errors'],
  ['not answering', 'the server gives no answer'],
  ['cannot connect', 'the server is down or refuses'],
  ['login rejected', 'wrong user, password or database'],
  ['paused', 'an operator has paused it'],
  ['disabled', 'takes no new clients'],
  ['not tried yet', 'no login has succeeded or failed'],
];

interface Version {
  number: number;
  at: number;
  user: string | null;
  comment: string | null;
  changes: { object: string; key: string | null }[];
}

/** An application's clients of a pool. */
interface Application {
  name: string;
  pool: string;
  clients: number;
}

/** So many clients are read, to find out which applications there are. */
const CLIENTS = 1000;
/** So many of a kind are shown. */
const MOST = 8;

class Palette {
  open = $state(false);
  readonly keys = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘K' : 'Ctrl K';
  private users = $state.raw<string[]>([]);
  private applications = $state.raw<Application[]>([]);
  private settings = $state.raw<Setting[]>([]);
  private versions = $state.raw<Version[]>([]);

  show() {
    this.open = true;
    // What is not known yet comes while the first letters are typed.
    void pools.refresh().catch(() => {});
    void get<Setting[]>('settings').then((settings) => (this.settings = settings), () => {});
    void get<{ versions: Version[] }>('config/versions', { limit: 50 }).then(({ versions }) => (this.versions = versions), () => {});
    void get<ConnectionPage>('clients', { limit: CLIENTS }).then(({ connections }) => (this.applications = applicationsOf(connections)), () => {});
    void get<{ users: { name: string }[] }>('users', { limit: 1000 }).then(({ users }) => (this.users = users.map(({ name }) => name)), () => {});
  }

  /** The database servers that pools lead to. */
  private servers(): string[] {
    return [...new Set(pools.rows.flatMap(({ pool }) => pool.hosts))];
  }

  private tasks(): Found[] {
    return TASKS.filter(([, , , , role]) => session.may(role)).map(([name, note, words, href]) => ({ kind: 'Task', name, note, words, href }));
  }

  /** Each with the pools that are in it now. */
  private states(): Found[] {
    const counts = new Map<string, number>();
    for (const { pool, now } of pools.rows) {
      const state = (now.health ?? pool.health).state;
      counts.set(state, (counts.get(state) ?? 0) + 1);
    }
    return STATES.map(([name, note]) => {
      const number = counts.get(name) ?? 0;
      const href = number > 0 ? `${to('pools')}?q=${encodeURIComponent(name)}` : to('docs', 'health', 'the-states');
      return { kind: 'State', name, note: `${number > 0 ? `${plural(number, 'pool')} now: ` : ''}${note}`, href };
    });
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
      ]),
      ...(words.length === 0 ? [] : [
        ...best(this.tasks()),
        ...best(this.states()),
      ]),
      ...best(pools.rows.map(({ pool }) => ({ kind: 'Pool', name: pool.name, note: `${pool.database} on ${pool.hosts.join(', ')}`, href: to('pools', pool.name) }))),
      ...(words.length === 0 ? [] : [
        ...best(this.applications.map(({ name, pool, clients }) => ({ kind: 'Application', name, note: `${plural(clients, 'client')} of ${pool}`, href: to('pools', pool, 'clients') }))),
        ...best(this.users.map((name) => ({ kind: 'User', name, note: 'limits, clients and pools', href: to('users', name) }))),
        ...best(this.servers().map((name) => ({ kind: 'Server', name, note: 'its connections and pools', href: `${to('databases')}?server=${encodeURIComponent(name)}` }))),
        ...best(this.versions.map(changeOf)),
        ...best(this.settings.map(({ key, name, section, value, description = '' }) => ({
          kind: 'Setting', name: name || key, note: `${value === '' ? 'none' : value} · ${split(description)[0]}`, words: `${key} [${section}]`, href: `${to('settings')}?q=${key}`,
        }))),
        ...best(DOCS.map(([name, title]) => ({ kind: 'Documentation', name: title, note: `${name}.md`, href: to('docs', name) }))),
      ]),
    ];
  }
}

/** The applications that have clients, for each of their pools. */
function applicationsOf(clients: ConnectionPage['connections']): Application[] {
  const all = new Map<string, Application>();
  for (const { application_name: name, pool } of clients.filter(({ application_name }) => application_name)) {
    const known = all.get(`${name}\n${pool}`) ?? { name, pool, clients: 0 };
    all.set(`${name}\n${pool}`, { ...known, clients: known.clients + 1 });
  }
  return [...all.values()].sort((a, b) => b.clients - a.clients);
}

/** A version of the configuration, by what it changed. */
function changeOf({ number, at, user, comment, changes }: Version): Found {
  const what = [...new Set(changes.map(({ object, key }) => `${object} ${key ?? ''}`.trim()))].slice(0, 3).join(', ');
  const note = [comment, user, when(at, 'minute')].filter(Boolean).join(' · ');
  return { kind: 'Change', name: `version ${number}: ${what || 'start'}`, note, href: `${to('history')}?q=${encodeURIComponent(changes[0]?.object ?? '')}` };
}

/** A name that begins with the text is best, then one that has it, then a note that has it. */
function rank({ name, note, words: more = '' }: Found, words: string[]): number {
  const [lower, other] = [name.toLowerCase(), `${note} ${more}`.toLowerCase()];
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
