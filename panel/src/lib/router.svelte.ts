// Where the page is: the part of the address behind #, so that the server needs to know one page only.
import { untrack } from 'svelte';

export interface Route {
  page: string;
  /** Segments behind the page's name, decoded. */
  rest: string[];
  query: URLSearchParams;
}

function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter((part) => part !== '').map(decode);
  return { page: parts[0] ?? 'pools', rest: parts.slice(1), query: new URLSearchParams(query) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

class Router {
  route = $state<Route>(parse(location.hash));

  constructor() {
    window.addEventListener('hashchange', () => (this.route = parse(location.hash)));
  }
}

export const router = new Router();

/** A link to a page: `to('pools', name, 'clients')`. */
export function to(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join('/')}`;
}

export function go(...parts: string[]) {
  location.hash = to(...parts);
}

/** Changes what stands behind the question mark, without a step in the history. An effect that calls this does not depend on
    the address, which it would change for itself without an end. */
export function setQuery(values: Record<string, string | null>) {
  const query = new URLSearchParams(untrack(() => router.route.query));
  for (const [key, value] of Object.entries(values)) {
    if (value) query.set(key, value);
    else query.delete(key);
  }
  const path = location.hash.split('?')[0] || '#/pools';
  const rest = query.toString();
  if (rest === untrack(() => router.route.query).toString()) return;
  history.replaceState(null, '', rest ? `${path}?${rest}` : path);
  router.route = parse(location.hash);
}
