// What both programs have in common: the data's shape, its size, and the three workloads with their clocks.
//
// A result is one JSON object on standard output; everything else goes to standard error.

// Each user has this many access codes and this many locations; the join counts every pair of them.
export const CODES = 20;
export const LOCATIONS = 25;

export const QUERY = `SELECT COUNT(*) AS pairs
FROM "user" u
JOIN access_code a ON a.user_id = u.id
JOIN user_location_info l ON l.user_id = u.id`;

// How many queries "five in series" and "five in parallel" are.
const FIVE = 5;

// A query is slow enough, and not too slow, if it takes between these shares of what was asked for.
const SHORTEST = 0.8;
const LONGEST = 1.3;

const MOST_USERS = 400_000;

// Where the server is; the lab says it by the environment, so that it is not on the command line.
export function place() {
  const wanted = (name) => process.env[name] ?? fail(`${name} is not set`);
  return {
    host: wanted("LAB_HOST"),
    port: Number(wanted("LAB_PORT")),
    user: wanted("LAB_USER"),
    password: wanted("LAB_PASSWORD"),
    database: wanted("LAB_DATABASE"),
  };
}

// Runs what the command line asks for:
//   fill MILLISECONDS USERS               make the data, this many users at first, until one query takes about that long
//   measure TIMES NAME=VARIANT@PORT ...   the three workloads of each variant, this many times
export async function main({ fill, open }) {
  const [verb, ...words] = process.argv.slice(2);
  if (verb === "fill") return say(await sized(Number(words[0]), Number(words[1]), fill));
  if (verb === "measure") return say(await measured(Number(words[0]), words.slice(1), open));
  return fail(`usage: ${process.argv[1]} fill MILLISECONDS USERS | measure TIMES NAME=VARIANT@PORT ...`);
}

// Fills the tables until one query takes about `wanted` ms. `fill` makes the data for this many users and returns a query.
async function sized(wanted, guess, fill) {
  for (let users = guess, tries = 1; ; tries += 1) {
    const { query, close } = await fill(users);
    // The first one reads what was just written; it is not typical.
    await query();
    const ms = middle(await repeat(3, () => timed(query)));
    await close();
    const near = ms >= wanted * SHORTEST && ms <= wanted * LONGEST;
    // One step may mislead where the server changes its plan with the size; five do not.
    if (near || tries === 5) return { users, ms, tries };
    const factor = Math.min(Math.max(wanted / ms, 1 / 50), 50);
    users = Math.min(Math.max(Math.round(users * factor), 1), MOST_USERS);
  }
}

// All variants and workloads alternately, so that a disturbance reaches all of them. Each round begins with another
// variant.
async function measured(times, words, open) {
  const variants = [];
  for (const word of words) variants.push(await opened(word, open));
  for (let turn = 0; turn < times; turn += 1) {
    for (let next = 0; next < variants.length; next += 1) await workloads(variants[(turn + next) % variants.length]);
  }
  for (const { close } of variants) await close();
  return Object.fromEntries(variants.map(({ name, users, runs }) => [name, { users, ...runs }]));
}

// Opens a variant, and lets it run one query that is not counted.
async function opened(word, open) {
  const [name, way] = word.split("=");
  const [variant, port] = way.split("@");
  const { users, query, close } = await open(variant, { ...place(), port: Number(port) });
  const checked = async () => {
    const pairs = Number(await query());
    if (pairs !== users * CODES * LOCATIONS) fail(`counted ${pairs} pairs of ${users} users`);
  };
  await checked();
  return { name, users, query: checked, close, runs: { one: [], series: [], parallel: [] } };
}

async function workloads({ query, runs }) {
  runs.one.push(await run((each) => each(query)));
  runs.series.push(await run((each) => repeat(FIVE, () => each(query))));
  runs.parallel.push(await run((each) => Promise.all(Array.from({ length: FIVE }, () => each(query)))));
}

// One run of a workload: how long it took, and how long each of its queries did, in ms.
async function run(workload) {
  const queries = [];
  const ms = await timed(() => workload(async (query) => queries.push(await timed(query))));
  return { ms, queries };
}

async function repeat(times, action) {
  const results = [];
  for (let turn = 0; turn < times; turn += 1) results.push(await action());
  return results;
}

async function timed(action) {
  const began = performance.now();
  await action();
  return performance.now() - began;
}

function middle(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

function say(result) {
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

export function fail(text) {
  process.stderr.write(`${text}\n`);
  process.exit(1);
}
