// An address of a database as programs have it: a URL (postgres://…), or pairs of libpq (host=… dbname=…).

export interface Address {
  host: string;
  port: string;
  database: string;
  user: string;
  password: string;
  /** What the address says beside these, by name. */
  rest: Record<string, string>;
}

/** The parts of an address; null if the text is none, or not yet. */
export function parseAddress(text: string): Address | null {
  // What a provider shows is often a command of psql.
  const trimmed = text.trim().replace(/^psql\s+/, '').replace(/^(['"])(.*)\1$/, '$2').replace(/^jdbc:/, '');
  const url = /^postgres(?:ql)?(?:\+\w+)?:\/\/(.*)$/i.exec(trimmed);
  if (url) return ofUrl(url[1] ?? '');
  if (/^\w+\s*=/.test(trimmed)) return ofPairs(trimmed);
  return null;
}

function ofUrl(text: string): Address | null {
  const [place = '', query = ''] = split(text, '?');
  const slash = place.indexOf('/');
  const authority = slash < 0 ? place : place.slice(0, slash);
  const database = slash < 0 ? '' : decoded(place.slice(slash + 1));
  const at = authority.lastIndexOf('@');
  const [user = '', password = ''] = at < 0 ? [] : split(authority.slice(0, at), ':');
  // Several hosts have commas between; an IPv6 address has brackets.
  const places = authority.slice(at + 1).split(',').map((one) => /^(\[[^\]]*\]|[^:]*)(?::(\d*))?$/.exec(one));
  if (places.some((one) => one === null)) return null;
  const hosts = places.map((one) => decoded(one?.[1] ?? '').replace(/^\[(.*)\]$/, '$1'));
  const ports = places.map((one) => one?.[2] ?? '');
  const rest = Object.fromEntries(new URLSearchParams(query.replaceAll('+', '%2B')));
  const from = (name: string, value: string) => {
    const other = rest[name];
    delete rest[name];
    return value || (other ?? '');
  };
  return {
    host: from('host', hosts.join(',')),
    port: from('port', ports.every((port) => port === ports[0]) ? (ports[0] ?? '') : ports.map((port) => port || '5432').join(',')),
    database: from('dbname', database),
    user: from('user', decoded(user)),
    password: from('password', decoded(password)),
    rest,
  };
}

function ofPairs(text: string): Address | null {
  const pairs: Record<string, string> = {};
  for (const [, name = '', quoted, plain] of text.matchAll(/(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S*))/g)) {
    pairs[name] = (quoted ?? plain ?? '').replace(/\\(.)/g, '$1');
  }
  const { host = '', hostaddr = '', port = '', dbname = '', user = '', password = '', ...rest } = pairs;
  return host || hostaddr || dbname ? { host: host || hostaddr, port, database: dbname, user, password, rest } : null;
}

function split(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
