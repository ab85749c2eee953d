// The pages of the documentation that the binary has, by their files.

export const DOCS: [name: string, title: string][] = [
  ['tutorial', 'Tutorial'],
  ['pooling', 'What clients share'],
  ['settings', 'Settings'],
  ['troubleshooting', 'Troubleshooting'],
  ['health', 'Health of a pool'],
  ['operations', 'Operations'],
  ['pgbouncer', 'Coming from PgBouncer'],
  ['console', 'Console'],
  ['api', 'HTTP API'],
  ['errors', 'Errors'],
  ['authentication', 'Authentication'],
  ['auth-query', 'auth_query'],
  ['tls', 'TLS'],
  ['limits', 'Limits of queues and buffers'],
  ['panel', 'The panel'],
  ['glossary', 'Glossary'],
];
