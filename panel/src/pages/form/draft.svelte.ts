// A pool as the form has it, until it is saved: what stands in the fields, what is known of the server, and what is wrong.
// Knows nothing of how it looks.
import { ApiError, get, patch, poolPath, post, remove } from '../../lib/api';
import { notices, untilRestart } from '../../lib/notices.svelte';
import { pools } from '../../lib/pools.svelte';
import { BASICS, changes, fieldsOf, GROUPS, named, secondsOf, type Fields, type Key, type PoolKey } from '../../lib/poolkeys';
import { needed, type Needed } from '../../lib/sizing';
import type { Changed, Mode, Pool, PoolConfig, Setting, Tested } from '../../lib/types';

export const whole = (text: string | undefined) => (/^\d+$/.test((text ?? '').trim()) ? Number(text) : null);

export class PoolDraft {
  newName = $state('');
  fields = $state<Fields>({ ...fieldsOf({}), mode: 'transaction' });
  /** Each client logs in to the server as itself. */
  ownUser = $state(false);
  /** The pool that is there, and whether it has a password. */
  pool = $state.raw<Pool | null>(null);
  secret = $state(false);
  tested = $state.raw<Tested | null>(null);
  measured = $state.raw<Needed | null>(null);
  failed = $state<ApiError | null>(null);

  readonly host = $derived((this.fields.host ?? '').trim());
  readonly mode = $derived((this.fields.mode || this.setting('pool_mode') || 'transaction') as Mode);
  readonly size = $derived(whole(this.fields.size) ?? whole(this.setting('default_pool_size')) ?? 20);
  readonly room = $derived.by(() => {
    if (!this.tested?.ok || !this.tested.max_connections) return null;
    const reserved = this.tested.superuser_reserved_connections ?? 0;
    const others = Math.max(0, (this.tested.connections ?? 0) - this.own, this.promised);
    return { most: this.tested.max_connections, reserved, others, ours: this.size };
  });

  private before = $state.raw<Fields>(fieldsOf({}));
  private settings = $state.raw<Setting[]>([]);
  private keys = $state.raw<PoolKey[]>([]);
  /** The keys that every pool wants, by their names, and the others in their groups. */
  readonly basics = $derived(Object.fromEntries(named(BASICS, this.keys).map((key) => [key.key, key])));
  readonly groups = $derived(GROUPS.map(({ title, labels }) => ({ title, keys: named(labels, this.keys) })));
  private readonly own = $derived.by(() => {
    const servers = this.pool?.servers;
    return servers ? servers.active + servers.idle + servers.used + servers.tested : 0;
  });
  /** What other pools of the same server may open, of which any number may be open now. */
  private readonly promised = $derived.by(() => {
    const ports = (this.fields.port || '5432').split(',').map((port) => port.trim());
    const places = this.host.split(',').map((one, index) => `${one.trim()}:${ports[index] ?? ports[0]}`);
    const others = pools.rows.filter(({ pool }) => pool.name !== this.name && pool.hosts.some((place) => places.includes(place)));
    return others.reduce((sum, { pool }) => sum + pool.size * Math.max(1, pool.users.length), 0);
  });

  /** The pool to change; a new one without a name. */
  constructor(readonly name: string | null) {}

  async begin() {
    const table = Promise.all([get<Setting[]>('settings'), get<PoolKey[]>('pool-keys')]);
    if (this.name !== null) {
      const [shown, config, measured] = await Promise.all([
        get<Pool>(poolPath(this.name)),
        get<PoolConfig>(poolPath(this.name, '/config')),
        needed(this.name),
      ]);
      this.pool = shown;
      this.measured = measured;
      this.before = fieldsOf(config);
      this.fields = { ...this.before };
      this.ownUser = this.before.user === '';
      this.secret = ['password', 'password_file', 'password_env'].some((key) => config[key] !== undefined);
    }
    [this.settings, this.keys] = await table;
  }

  /** The value of a setting of the process. */
  setting(key?: string | null): string {
    return this.settings.find((row) => row.key === key)?.value ?? '';
  }

  /** What holds where nothing is given. */
  defaultOf(key: Key): string {
    const value = this.setting(key.setting);
    return key.kind === 'time' && value ? `${value} s` : value;
  }

  /** A time of the pool in seconds, its default included; null where the text is none. */
  seconds(key: string): number | null {
    return secondsOf(this.fields[key] || this.setting(key));
  }

  /** What is wrong with a field. */
  wrong(key: string): string | null {
    return this.failed?.key === key ? [this.failed.message, this.failed.hint].filter(Boolean).join('; ') : null;
  }

  /** Logs in where the pool would, and keeps what the server says. */
  async test() {
    this.failed = null;
    this.tested = await post<Tested>('pools/test', { name: this.name ?? (this.newName || 'test'), ...this.body() });
  }

  /** Makes or changes it; its name. */
  async save(): Promise<string> {
    this.failed = null;
    const lack = this.lacking();
    if (lack) throw lack;
    return this.name === null ? this.make() : this.change(this.name);
  }

  async drop(name: string) {
    await remove<Changed>(poolPath(name));
    notices.changed(name, `${name} is deleted`, null);
    await pools.refresh();
  }

  private body(): PoolConfig {
    return changes(this.before, this.ownUser ? { ...this.fields, user: '', password: '' } : this.fields, this.keys);
  }

  /** What no server needs to be asked about. */
  private lacking(): ApiError | null {
    if (this.name === null && this.newName.trim() === '') return new ApiError(0, 'A pool needs a name', null, null, 'name');
    if (this.host === '') return new ApiError(0, 'Say where the server is', null, null, 'host');
    return null;
  }

  private async make(): Promise<string> {
    const name = this.newName.trim();
    const made = await post<Changed>('pools', { name, ...this.body() });
    notices.changed(name, `${name} is created`, null, untilRestart(made));
    await pools.refresh();
    return name;
  }

  private async change(name: string): Promise<string> {
    const body = this.body();
    if (Object.keys(body).length === 0) return name;
    const changed = await patch<Changed>(poolPath(name), body);
    const undo = changes(this.fields, this.before, this.keys);
    // What the password was, nobody knows.
    delete undo.password;
    const back = async () => {
      try {
        await patch(poolPath(name), undo);
        notices.changed(name, `${name} is as it was`, null);
      } catch (error) {
        notices.fail(`${name} could not be set back`, error);
      }
    };
    const keys = Object.keys(body).join(', ');
    notices.changed(name, `${name} is changed: ${keys}`, Object.keys(undo).length ? back : null, untilRestart(changed));
    await pools.refresh();
    return name;
  }
}
