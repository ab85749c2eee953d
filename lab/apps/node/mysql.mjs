// The article's program: mysql2 against MariaDB or MySQL, on one connection and on a pool.

import mysql from "mysql2/promise";

import { CODES, LOCATIONS, QUERY, fail, main, place } from "./workloads.mjs";

const CONNECTION_LIMIT = 100;

const DIGIT = "(SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 " +
  "UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)";

// The numbers below `limit`, made of decimal digits: MySQL and MariaDB count in different ways, but both can join.
function below(limit) {
  const places = Array.from(String(limit - 1), (_, place) => `d${place}`);
  const number = places.map((name, place) => `${name}.d * ${10 ** place}`).join(" + ");
  const digits = places.map((name) => `${DIGIT} ${name}`).join(" JOIN ");
  return `(SELECT number AS n FROM (SELECT ${number} AS number FROM ${digits}) numbers WHERE number < ${limit})`;
}

// PostgreSQL wants the table's name in quotes, MySQL does not.
const SELECT = QUERY.replace('"user"', "user");

const pairs = async (queryable) => (await queryable.query(SELECT))[0][0].pairs;

async function fill(users) {
  const connection = await mysql.createConnection(place());
  const make = [
    "DROP TABLE IF EXISTS access_code, user_location_info, user",
    "CREATE TABLE user (id INT PRIMARY KEY, name VARCHAR(64) NOT NULL)",
    "CREATE TABLE access_code (id INT PRIMARY KEY AUTO_INCREMENT, user_id INT NOT NULL, code CHAR(8) NOT NULL)",
    "CREATE TABLE user_location_info (id INT PRIMARY KEY AUTO_INCREMENT, user_id INT NOT NULL, " +
      "latitude DOUBLE NOT NULL, longitude DOUBLE NOT NULL)",
    `INSERT INTO user SELECT n + 1, CONCAT('user ', n + 1) FROM ${below(users)} n`,
    `INSERT INTO access_code (user_id, code) SELECT id, LPAD(HEX(id * 97 + n), 8, '0') FROM user, ${below(CODES)} n`,
    `INSERT INTO user_location_info (user_id, latitude, longitude) SELECT id, (id + n) % 180 - 90, (id * n) % 360 - 180
      FROM user, ${below(LOCATIONS)} n`,
    "CREATE INDEX access_code_user ON access_code (user_id)",
    "CREATE INDEX user_location_info_user ON user_location_info (user_id)",
    "ANALYZE TABLE user, access_code, user_location_info",
  ];
  for (const statement of make) await connection.query(statement);
  return { query: () => pairs(connection), close: () => connection.end() };
}

async function open(variant, where) {
  const queryable = variant === "one" ? await mysql.createConnection(where)
    : variant === "pool" ? mysql.createPool({ ...where, connectionLimit: CONNECTION_LIMIT })
    : fail(`no such variant: ${variant}`);
  const [[{ users }]] = await queryable.query("SELECT COUNT(*) AS users FROM user");
  return { users, query: () => pairs(queryable), close: () => queryable.end() };
}

await main({ fill, open });
