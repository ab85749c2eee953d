//! The results of the projects' own test suites (`tests/drivers/suites`) on docs/drivers.md.
//!
//! Kept results are lines of `NAME.tsv`, and of `by-hand.tsv` for suites that no package has: package, PostgreSQL, mode, tests passed, tests failed, how many of these
//! only fail through a pooler for a known reason, and the day.

use std::fmt::Write as _;
use std::fs;

use super::folder;

const HEAD: &str = "
## The projects' own tests

The suites that drivers and frameworks publish with their packages, or in their repositories, each test with its own connections: the failed ones of those that ran.
*Other* are tests that fail through Weir only: each has a reason, which
[tests/drivers/suites](../tests/drivers/suites/run.sh) prints, and [pooling.md](pooling.md#auto) explains. The rows are from `tests/drivers/suites/run.sh`, but for
node-postgres, procrastinate and psycopg: no package has their suites, and they were run by hand. The tests that fail directly need what was not set up, as a standby. In auto
the pool has 3 servers, for pgx 12, since its tests keep more than three connections with temporary tables at once, for procrastinate 6. In mode transaction
nothing is compared: what these tests leave is lost there by design. A row of node-postgres counts files; one of its tests gives 5,000 statements five seconds, and a debug build of
Weir on a busy machine takes longer.

Job queues and migrations whose packages have no tests are used by programs beside the script, with several processes at once: jobs that a notification alone starts, that are done
once, and that a killed process leaves behind; migrations that are applied once, under locks of the session and of transactions. *Jobs by advisory locks* is a queue
as GoodJob's: a lock of the session for each job, also one that a function takes if there is a job. In auto these pools have 8 servers, Liquibase's has 4.

| suite | PostgreSQL | tests | failed: direct | session | (other) | auto | (other) | run |
|---|---|---|---|---|---|---|---|---|
";

/// A line of the results.
struct Line {
    package: String,
    server: String,
    mode: String,
    passed: u32,
    failed: u32,
    other: u32,
    date: String,
}

/// Writes the section.
pub(super) fn section(text: &mut String) {
    text.push_str(HEAD);
    let entries = folder().join("suites").read_dir().expect("tests/drivers/suites").flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "tsv"));
    files.sort();
    let mut suites: Vec<(String, Vec<Line>)> = Vec::new();
    for file in files {
        for line in fs::read_to_string(&file).expect("results").lines().map(read) {
            match suites.iter_mut().find(|(package, _)| *package == line.package) {
                Some((_, lines)) => lines.push(line),
                None => suites.push((line.package.clone(), vec![line])),
            }
        }
    }
    for (_, lines) in suites {
        let of = |mode: &str| lines.iter().find(|line| line.mode == mode).expect("each mode was run");
        let (direct, session, auto) = (of("direct"), of("session"), of("auto"));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            direct.package,
            direct.server,
            direct.passed + direct.failed,
            direct.failed,
            session.failed,
            session.other,
            auto.failed,
            auto.other,
            auto.date,
        );
    }
}

fn read(line: &str) -> Line {
    let mut words = line.split('\t').map(str::to_owned);
    let mut next = || words.next().unwrap_or_default();
    let (package, server, mode) = (next(), next(), next());
    let mut number = || next().parse().expect("a number");
    let (passed, failed, other) = (number(), number(), number());
    Line { package, server, mode, passed, failed, other, date: next() }
}
