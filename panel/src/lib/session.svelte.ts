// Who looks at this page, and what they may; and the process itself.
import { ApiError, get, post, whenLoginIsNeeded } from './api';
import type { Me, Status } from './types';

const ROLES = ['viewer', 'operator', 'admin'] as const;

class Session {
  me = $state<Me | null>(null);
  status = $state<Status | null>(null);
  loginNeeded = $state(false);
  /** Why nothing is known of who looks. */
  error = $state<unknown>(null);

  constructor() {
    whenLoginIsNeeded(() => (this.loginNeeded = true));
  }

  /** Whether they have at least this role. */
  may(role: Me['role']): boolean {
    return this.me !== null && ROLES.indexOf(this.me.role) >= ROLES.indexOf(role);
  }

  /** Whether this page is of use here: that of the cluster, only to a node of one. */
  has(page: string): boolean {
    return page !== 'cluster' || Boolean(this.status?.cluster);
  }

  async load() {
    this.error = null;
    try {
      this.me = await get<Me>('me');
      this.loginNeeded = this.me.login_needed && this.me.user === null;
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) this.loginNeeded = true;
      // Where there are no logins, everybody may everything.
      else if (error instanceof ApiError && error.absent) this.me = { user: null, role: 'admin', login_needed: false };
      else this.error = error;
    }
    // Nobody waits for it, and it is of no use to who has to log in first.
    if (!this.loginNeeded) void get<Status>('status').then((status) => (this.status = status), () => {});
  }

  async login(user: string, password: string) {
    await post('login', { user, password });
    await this.load();
  }

  async logout() {
    const farewell = await post<{ end_session: string } | undefined>('logout');
    this.me = null;
    this.loginNeeded = true;
    // A session at a provider would log in again at once.
    if (farewell) location.assign(farewell.end_session);
  }
}

export const session = new Session();
