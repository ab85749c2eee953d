// Why a server could not be reached, in plain words, at the field that is to be changed. The server's own text is shown beside it.

export interface PlainError {
  /** The key of the field; null where no field is wrong. */
  key: string | null;
  text: string;
}

interface Place {
  host: string;
  port: string;
  database: string;
  user: string;
}

type Rule = [pattern: RegExp, key: string | null, text: (at: Place) => string];

const RULES: Rule[] = [
  [/28P01|password authentication failed/i, 'password', ({ user }) => `PostgreSQL refused this password for ${user || 'this user'}`],
  [/none is known|needs? a password|no password|asks for the password/i, 'password', () => 'The server asks for a password: enter it'],
  [/3D000|database "[^"]*" does not exist/i, 'database', ({ database, host }) => `There is no database “${database}” on ${host}`],
  [/role "[^"]*" does not exist/i, 'user', ({ user, host }) => `There is no user “${user}” on ${host}`],
  [/28000|pg_hba/i, 'user', ({ user }) => `The server does not let ${user || 'this user'} in from this machine (pg_hba.conf)`],
  [/53300|too many (clients|connections)/i, null, () => 'The server has no connection left (max_connections)'],
  [/look ?up|resolve|name or service|no such host|no address|nodename|name does not/i, 'host', ({ host }) => `No machine named “${host}” was found: check the spelling`],
  [/SSLRequest|unexpected (answer|message)/i, 'port', ({ host, port }) => `What answers on port ${port || 5432} of ${host} is not PostgreSQL: check host and port`],
  [/refused SSL/i, 'host', () => 'The server does not offer TLS, which [tls.server] of weir.toml requires'],
  [/certificate/i, 'host', () => 'The server’s certificate could not be verified ([tls.server] of weir.toml)'],
  [/connection refused|os error 111/i, 'port', ({ host, port }) => `Nothing listens on port ${port || 5432} of ${host}: check the port, and that PostgreSQL runs there`],
  [/timed? ?out|in time|os error 110|WouldBlock/i, 'host', ({ host, port }) => `${host} does not answer: check the address, and that no firewall closes port ${port || 5432}`],
  [/no route|unreachable|os error (101|113)/i, 'host', ({ host }) => `${host} cannot be reached from this machine: check the address and the network`],
  [/no such file|os error 2\b/i, 'host', ({ host }) => `There is no PostgreSQL socket in ${host}`],
];

/** What is wrong, where it is one of the usual reasons. */
export function plain(error: string, at: Place): PlainError {
  const rule = RULES.find(([pattern]) => pattern.test(error));
  return rule ? { key: rule[1], text: rule[2](at) } : { key: null, text: 'The server could not be reached' };
}
