// The same program with node-postgres: one client, a pool, and a connection for every query.

import pg from "pg";

import { CODES, LOCATIONS, QUERY, fail, main, place } from "./workloads.mjs";

const MAX = 100;

const pairs = async (queryable) => (await queryable.query(QUERY)).rows[0].pairs;

async function connected(where) {
  const client = new pg.Client(where);
  await client.connect();
  return client;
}

async function fill(users) {
  const client = await connected(place());
  const make = [
    'DROP TABLE IF EXISTS access_code, user_location_info, "user"',
    'CREATE TABLE "user" (id int PRIMARY KEY, name varchar(64) NOT NULL)',
    "CREATE TABLE access_code (id serial PRIMARY KEY, user_id int NOT NULL, code char(8) NOT NULL)",
    "CREATE TABLE user_location_info (id serial PRIMARY KEY, user_id int NOT NULL, " +
      "latitude double precision NOT NULL, longitude double precision NOT NULL)",
    `INSERT INTO "user" SELECT n, 'user ' || n FROM generate_series(1, ${users}) n`,
    `INSERT INTO access_code (user_id, code) SELECT id, lpad(to_hex(id * 97 + n), 8, '0')
      FROM "user", generate_series(1, ${CODES}) n`,
    `INSERT INTO user_location_info (user_id, latitude, longitude) SELECT id, (id + n) % 180 - 90, (id * n) % 360 - 180
      FROM "user", generate_series(1, ${LOCATIONS}) n`,
    "CREATE INDEX access_code_user ON access_code (user_id)",
    "CREATE INDEX user_location_info_user ON user_location_info (user_id)",
    'VACUUM ANALYZE "user"',
    "VACUUM ANALYZE access_code",
    "VACUUM ANALYZE user_location_info",
  ];
  for (const statement of make) await client.query(statement);
  return { query: () => pairs(client), close: () => client.end() };
}

// A connection for this query alone, as a program without a pool does.
async function alone(where) {
  const client = await connected(where);
  try {
    return await pairs(client);
  } finally {
    await client.end();
  }
}

async function open(variant, where) {
  const counting = await connected(where);
  const { rows } = await counting.query('SELECT COUNT(*) AS users FROM "user"');
  const users = Number(rows[0].users);
  if (variant === "one") return { users, query: () => pairs(counting), close: () => counting.end() };
  await counting.end();
  if (variant === "each") return { users, query: () => alone(where), close: async () => {} };
  if (variant !== "pool") fail(`no such variant: ${variant}`);
  // Idle connections stay, or they would go after ten seconds, which the other variants' turns may take.
  const pool = new pg.Pool({ ...where, max: MAX, idleTimeoutMillis: 0 });
  return { users, query: () => pairs(pool), close: () => pool.end() };
}

await main({ fill, open });
