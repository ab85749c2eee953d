// A pool as the form has it, until it is saved: what is in the fields, what is known of the server, and what is wrong.
// Knows nothing of how it looks.
import { afterVersion, ApiError, get, patch, poolPath, post, remove } from '../../lib/api';
import { handover } from '../../lib/handover';
import { notices, untilRestart } from '../../lib/notices.svelte';
import { pools } from '../../lib/pools.svelte';
import { parseAddress } from '../../lib/pgurl';
import { BASICS, changes, fieldsOf, GROUPS, named, secondsOf, type Fields, type Key, type PoolKey } from '../../lib/poolkeys';
import { inWords } from '../../lib/settings';
import { needed, type Needed } from '../../lib/sizing';
import { remember } from '../../lib/users';
import { plain } from './plain';
import type { Changed, Mode, Pool, PoolConfig, Setting, Tested } from '../../lib/types';

/** How clients log in to Weir where it needs to know their secrets. */
const WITH_SECRETS = ['scram-sha-256', 'md5', 'plain'];

export const whole = (text: string | undefined) => (/^\d+$/.test((text ?? '').trim()) ? Number(text) : null);

export class PoolDraft {
  newName = $state('');
  fields = $state<Fields>({ ...fieldsOf({}), mode: 'auto' });
  /** Each client logs in to the server as itself. */
  ownUser = $state(false);
  /** The pool that is there, and whether it has a password. */
  pool = $state.raw<Pool | null>(null);
  secret = $state(false);
  /** What was pasted as an address, and what of it has no field. */
  address = $state('');
  ignored = $state<string[]>([]);
  /** Whether clients may log in to Weir as the pool's user, with its password, and whether Weir knows that user already. */
  letIn = $state(true);
  known = $state<boolean | null>(null);
  tested = $state.raw<Tested | null>(null);
  measured = $state.raw<Needed | null>(null);
  failed = $state<ApiError | null>(null);

  /** What is wrong with the address, if it is none. */
  readonly unreadable = $derived(
    this.address.trim() === '' || parseAddress(this.address) !== null
      ? null
      : 'This is no connection URL of PostgreSQL: it reads postgres://user:password@host:5432/database',
  );

  /** A pool is called as its database unless it has a name. */
  readonly newPool = $derived(this.newName.trim() || (this.fields.database ?? '').trim());
  readonly host = $derived((this.fields.host ?? '').trim());
  readonly mode = $derived((this.fields.mode || this.setting('pool_mode') || 'auto') as Mode);
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

  /** Whether clients need a secret of their own, which the pool's user could be. */
  get canLetIn(): boolean {
    const { user, password } = this.fields;
    return this.name === null && !this.ownUser && !!user && !!password && this.known === false && WITH_SECRETS.includes(this.setting('auth_type'));
  }

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
    if (this.name === null && handover.address) {
      this.paste(handover.address);
      handover.address = '';
      await this.lookUp();
    }
  }

  /** The value of a setting of the process. */
  setting(key?: string | null): string {
    return this.settings.find((row) => row.key === key)?.value ?? '';
  }

  /** What holds where nothing is given. */
  defaultOf(key: Key): string {
    const value = this.setting(key.setting);
    return value === '' ? '' : inWords(key.setting ?? '', key.kind, value);
  }

  /** A time of the pool in seconds, its default included; null where the text is none. */
  seconds(key: string): number | null {
    return secondsOf(this.fields[key] || this.setting(key));
  }

  /** What is wrong with a field. */
  wrong(key: string): string | null {
    return this.failed?.key === key ? [this.failed.message, this.failed.hint].filter(Boolean).join('; ') : null;
  }

  /** Takes the parts of an address into the fields, as soon as the text is one. */
  paste(text: string) {
    this.address = text;
    this.ignored = [];
    if (this.failed?.key === 'address') this.failed = null;
    const address = parseAddress(text);
    if (!address) return;
    const { rest, ...fields } = address;
    Object.assign(this.fields, fields);
    this.ownUser = false;
    this.ignored = Object.keys(rest);
    this.failed = null;
    this.tested = null;
  }

  /** Asks whether Weir knows the user already. */
  async lookUp() {
    const user = (this.fields.user ?? '').trim();
    this.known = null;
    if (this.name !== null || user === '') return;
    const found = await get<{ listed: boolean }>(`users/${encodeURIComponent(user)}`).catch((error: unknown) =>
      error instanceof ApiError && error.status === 404 ? { listed: false } : null);
    if (user === (this.fields.user ?? '').trim()) this.known = found?.listed ?? null;
  }

  /** Logs in where the pool would, and keeps what the server says. */
  async test(): Promise<Tested> {
    this.failed = null;
    this.tested = null;
    const tested = await post<Tested>('pools/test', { name: this.name ?? (this.newPool || 'test'), ...this.body() });
    if (!tested.ok) {
      const { host, port = '', database = '', user = '' } = { host: this.host, ...this.fields, ...{ database: this.fields.database || this.newPool } };
      const { key, text } = plain(tested.error ?? '', { host, port, database, user });
      this.failed = key ? new ApiError(0, text, null, null, key) : null;
      tested.plain = text;
    }
    this.tested = tested;
    return tested;
  }

  /** Whether a new pool can be made: its name is free, and its server lets it in. */
  async checked(): Promise<boolean> {
    this.failed = null;
    this.tested = null;
    const lack = this.lacking();
    if (lack) throw lack;
    const taken = await get(poolPath(this.newPool)).then(() => true, () => false);
    if (taken) throw new ApiError(409, `there is a pool ${this.newPool} already`, null, 'choose another name', 'name');
    return (await this.test()).ok;
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
    if (this.unreadable !== null) return new ApiError(0, this.unreadable, null, null, 'address');
    if (this.host === '') return new ApiError(0, 'Enter the host that PostgreSQL runs on', null, null, 'host');
    if (this.name === null && this.newPool === '') return new ApiError(0, 'Enter a name for the pool', null, null, 'name');
    return null;
  }

  private async make(): Promise<string> {
    const name = this.newPool;
    const body = this.body();
    const made = await post<Changed>('pools', { name, ...body });
    notices.changed(name, `${name} is created`, null, untilRestart(made));
    if (this.canLetIn && this.letIn) await this.admit();
    await pools.refresh();
    return name;
  }

  /** Lists the pool's user with its password, so that clients can log in to Weir. */
  private async admit() {
    const { user = '', password = '' } = this.fields;
    try {
      await post<Changed>('users', { name: user.trim(), password });
      remember(user.trim(), password);
    } catch (error) {
      notices.fail(`Clients cannot log in as ${user} yet`, error);
    }
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
        await patch(afterVersion(poolPath(name), changed.version), undo);
        notices.changed(name, `${name} is set back`, null);
      } catch (error) {
        notices.notSetBack(name, error);
      }
    };
    const keys = Object.keys(body).join(', ');
    notices.changed(name, `${name} is changed: ${keys}`, Object.keys(undo).length ? back : null, untilRestart(changed));
    await pools.refresh();
    return name;
  }
}
