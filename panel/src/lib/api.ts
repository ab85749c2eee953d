// Requests to the API: one place that knows how an error looks, and that a change says it comes from this page.

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly detail: string | null = null,
    readonly hint: string | null = null,
    /** The key of what was sent that is wrong, where the error is about one. */
    readonly key: string | null = null,
  ) {
    super(message);
  }

  /** Whether this Weir has no such path at all, as an older one. */
  get absent(): boolean {
    return (this.status === 404 && this.message === 'nothing is here') || this.status === 405;
  }
}

type Query = Record<string, string | number | null | undefined>;

/** Called when the API wants a login; the shell shows it. */
let onLogin: () => void = () => {};
export function whenLoginIsNeeded(then: () => void) {
  onLogin = then;
}

export function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return ask<T>('GET', path + text(query), undefined, signal);
}

export function post<T = void>(path: string, body?: unknown): Promise<T> {
  return ask<T>('POST', path, body);
}

export function put<T = void>(path: string, body: unknown): Promise<T> {
  return ask<T>('PUT', path, body);
}

export function patch<T = void>(path: string, body: unknown): Promise<T> {
  return ask<T>('PATCH', path, body);
}

export function remove<T = void>(path: string): Promise<T> {
  return ask<T>('DELETE', path);
}

/** A change that takes back the one that made this version: it is refused if there was another one since. */
export function afterVersion(path: string, version: number): string {
  return path + text({ latest: version });
}

export function poolPath(name: string, rest = ''): string {
  return `pools/${encodeURIComponent(name)}${rest}`;
}

function text(query: Query): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const params = new URLSearchParams(given.map(([key, value]) => [key, String(value)]));
  return given.length ? `?${params}` : '';
}

async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = { Accept: 'application/json' };
  if (method !== 'GET') headers['X-Weir-Panel'] = '1';
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const request: RequestInit = { method, headers, credentials: 'same-origin' };
  if (body !== undefined) request.body = JSON.stringify(body);
  if (signal) request.signal = signal;
  let response: Response;
  try {
    response = await ((method === 'GET' && early(path)) || fetch(`api/v1/${path}`, request));
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, 'Weir does not answer', null, 'check that it runs, and that this address is right');
  }
  if (response.status === 204) return undefined as T;
  const answer = await response.json().catch(() => null);
  if (response.ok) return answer as T;
  if (response.status === 401 && path !== 'login') onLogin();
  throw failure(response.status, answer);
}

/** The answer to what early.js has asked already. */
function early(path: string): Promise<Response> | undefined {
  const { weirAsked: asked = {} } = globalThis as { weirAsked?: Record<string, Promise<Response>> };
  const answer = asked[path];
  delete asked[path];
  return answer;
}

function failure(status: number, answer: unknown): ApiError {
  const said = (answer ?? {}) as Record<string, unknown>;
  const string = (key: string) => (typeof said[key] === 'string' ? (said[key] as string) : null);
  const message = string('error') ?? `the answer was ${status}, without a reason`;
  return new ApiError(status, message, string('detail'), string('hint'), string('key'));
}
