//! The pages' tables of the benchmarks' figures are made from the rows in bench/MEASURED.md, and no page has such a
//! figure beside them.
//!
//! Owns what is between `<!-- figures:NAME -->` and `<!-- /figures -->`: `WEIR_BLESS=1 cargo test -p weir --test
//! figures` writes it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages with such tables.
const PAGES: [&str; 3] = ["README.md", "docs/comparison.md", "docs/performance.md"];

/// The cases of the rounds: their name there, and the head of their column.
const CASES: [(&str, &str); 9] = [
    ("simple-1", "simple, 1 client"),
    ("simple-4", "4"),
    ("simple-20", "20"),
    ("simple-50", "50"),
    ("simple-200", "200"),
    ("prepared-50", "prepared, 50"),
    ("extended-50", "extended, 50"),
    ("connect-10", "login per transaction, 10"),
    ("tpcb-50", "TPC-B, 50"),
];

/// How the rows begin that are of a pooler; its version follows.
const POOLERS: [&str; 8] =
    ["PgBouncer", "Weir epoll", "Weir", "PgCat", "pg_doorman", "bare forwarder", "Odyssey", "Pgpool-II"];

const BASE: &str = "PgBouncer";
const OURS: &str = "Weir";
const EPOLL: &str = "Weir epoll";

#[test]
fn the_tables_of_the_pages_are_those_of_the_measured_rows() {
    let measured = read("bench/MEASURED.md");
    let mut stale = Vec::new();
    for page in PAGES {
        let text = read(page);
        let made = filled(&text, &measured);
        if made == text {
            continue;
        }
        if std::env::var_os("WEIR_BLESS").is_some() {
            fs::write(root().join(page), made).expect("a page");
        } else {
            stale.push(page);
        }
    }
    assert!(stale.is_empty(), "WEIR_BLESS=1 cargo test -p weir --test figures writes these anew: {stale:?}");
}

#[test]
fn no_page_has_a_figure_of_the_benchmarks_by_hand() {
    let mut found = Vec::new();
    for folder in ["", "docs", "docs/howto"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            let page = entry.expect("an entry").path();
            if page.extension().is_none_or(|e| e != "md") || page.ends_with("CHANGELOG.md") {
                continue;
            }
            let text = without_blocks(&fs::read_to_string(&page).expect("a page"));
            found.extend(by_hand(&text).into_iter().map(|figure| format!("{}: {figure}", page.display())));
        }
    }
    assert!(found.is_empty(), "put the rows into bench/MEASURED.md, and link to performance.md: {found:#?}");
}

#[test]
fn figures_by_hand_are_found() {
    for text in [
        "CPU time is 0.84 × PgBouncer's, and",
        "at most 0.44 × that of\nPgBouncer",
        "An idle client costs about 460 bytes.",
        "| memory of an\nidle client | 441 B |",
        "here 433 B an idle client",
    ] {
        assert_eq!(by_hand(text).len(), 1, "{text}");
    }
    for text in [
        "20 × the cores",
        "An idle client is closed after 30 s.",
        "a message of 16 bytes",
        "an idle client: at most 640 B",
    ] {
        assert_eq!(by_hand(text), [""; 0], "{text}");
    }
    assert_eq!(without_blocks("a\n<!-- figures:cpu -->\n| 0.84 |\n<!-- /figures -->\nb"), "a\n\nb");
}

#[test]
fn rows_are_understood() {
    let row = Row::of(
        "simple-20        Weir epoll 0.1.0   28074 (1..3)    11.60   1.86   9.62 (1..2)   1.15 (1.01..1.27)    1.12 ≤ 0.9: MISSED",
    );
    let row = row.expect("a row");
    assert_eq!((row.what.as_str(), row.pooler, row.name.as_str()), ("simple-20", EPOLL, "Weir epoll 0.1.0"));
    assert_eq!(row.values, [28074.0, 11.60, 1.86, 9.62, 1.15, 1.12]);
    let row =
        Row::of("COPY out, TLS  bare forwarder         0.49 (0.48..0.54)    0.42 (0.42..0.46)      1.01        4.9")
            .expect("a row");
    assert_eq!((row.what.as_str(), row.name.as_str(), row.values.len()), ("COPY out, TLS", "bare forwarder", 4));
    assert!(Row::of("CPU is that of the pooler's process, of PgBouncer too").is_none());
    let missed = Missed::of(
        "CPU, simple, 4 clients, × PgBouncer, epoll     ≤ 0.9    1.13 (0.92..1.22)      MISSED   make bench",
    );
    let missed = missed.expect("a budget");
    assert_eq!(
        (missed.what, missed.limit.as_str(), missed.figure),
        ("CPU, simple, 4 clients, × PgBouncer, epoll", "≤ 0.9", "1.13")
    );
}

/// The page with what its blocks should hold.
fn filled(page: &str, measured: &str) -> String {
    let mut made = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("<!-- figures:") {
        let (name, after) = after.split_once(" -->").expect("a block's name ends");
        let (_, after) = after.split_once("<!-- /figures -->").expect("a block ends");
        let _ = write!(made, "{before}<!-- figures:{name} -->\n{}\n<!-- /figures -->", table(name, measured).trim());
        rest = after;
    }
    made + rest
}

fn table(name: &str, measured: &str) -> String {
    let rounds = || part(measured, "rounds", "case ", "CPU is that");
    match name {
        "run" => run(measured),
        "cpu" => cpu(&rounds()),
        "tps" => tps(&rounds()),
        "latency" => latency(&part(measured, "rounds", "p50 ms", "Latencies are")),
        "tail" => tail(&part(measured, "tail", "medians;", "p99 / p50")),
        "bulk" => bulk(&part(measured, "bulk", "what ", "")),
        "idle" => idle(measured),
        "idle-others" => idle_others(measured),
        "odyssey" => odyssey(measured),
        "burst" => burst(measured),
        "workers" => workers(measured),
        "budgets" => budgets(measured),
        "missed" => missed(measured),
        "short" => short(measured),
        _ => panic!("there are no figures of the name {name}"),
    }
}

/// A row of a group's output: what was measured, by which pooler, and the numbers that are not in brackets.
#[derive(Clone, Debug)]
struct Row {
    what: String,
    pooler: &'static str,
    name: String,
    values: Vec<f64>,
}

impl Row {
    fn of(line: &str) -> Option<Row> {
        let at = |pooler: &&&str| line.find(**pooler).filter(|at| *at == 0 || line[..*at].ends_with(' '));
        let pooler = POOLERS.iter().find(|pooler| at(pooler).is_some())?;
        let start = at(&pooler)?;
        let mut rest = line[start + pooler.len()..].split_whitespace().peekable();
        let version = rest.next_if(|token| token.split('.').count() > 2);
        let name = version.map_or_else(|| (*pooler).to_owned(), |version| format!("{pooler} {version}"));
        let values: Vec<f64> = rest.filter_map(|token| token.parse().ok()).collect();
        (values.len() > 1).then(|| Row { what: line[..start].trim().to_owned(), pooler, name, values })
    }

    /// How a page calls its pooler.
    fn title(&self) -> String {
        match self.pooler {
            OURS => "Weir, io_uring (default)".to_owned(),
            EPOLL => "Weir, epoll".to_owned(),
            _ => self.name.clone(),
        }
    }
}

/// A group's output as `weir-bench` wrote it.
fn block<'m>(measured: &'m str, group: &str) -> &'m str {
    let rest = measured.split_once(&format!("<!-- weir-bench {group} -->\n```\n")).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split_once("\n```")).unwrap_or_else(|| panic!("bench/MEASURED.md lacks {group}")).0
}

/// The rows of a group behind the line with `from`, up to the line that begins with `to`.
fn part(measured: &str, group: &str, from: &str, to: &str) -> Vec<Row> {
    let lines = block(measured, group).lines().skip_while(|line| !line.contains(from)).skip(1);
    let rows: Vec<_> = lines.take_while(|line| to.is_empty() || !line.starts_with(to)).filter_map(Row::of).collect();
    assert!(rows.len() > 1, "the rows of {group} were not understood");
    rows
}

/// When, where and how the rounds were measured.
fn run(measured: &str) -> String {
    let (stamp, poolers) = (stamp(measured, "rounds"), block(measured, "rounds").lines().nth(2).unwrap_or_default());
    let poolers = poolers.split(':').next().unwrap_or_default().replace("Weir epoll 0.1.0, ", "");
    format!(
        "One run: {stamp}. {poolers}; one worker thread each, a pool of 20, pgbench in interleaved rounds, release builds; medians. \
         Single rounds lie up to a fifth apart, with one client further; [MEASURED.md](../bench/MEASURED.md) has the ranges."
    )
}

/// The first line of a group's output, which has the date, the machine and the command.
fn stamp(measured: &str, group: &str) -> String {
    let line = block(measured, group).lines().next().unwrap_or_default();
    match line.split_once(": make") {
        Some((place, command)) => format!("{place} (`make{command}`)"),
        None => line.to_owned(),
    }
}

/// Each pooler of these rows, in their order, with its rows.
fn by_pooler(rows: &[Row]) -> Vec<(&Row, Vec<&Row>)> {
    let mut poolers: Vec<(&Row, Vec<&Row>)> = Vec::new();
    for row in rows {
        match poolers.iter_mut().find(|(first, _)| first.name == row.name) {
            Some((_, rows)) => rows.push(row),
            None => poolers.push((row, vec![row])),
        }
    }
    poolers
}

/// A table with a column for each case.
fn of_cases(rows: &[Row], cell: impl Fn(&Row) -> String) -> String {
    let mut table = format!("| pgbench | {} |\n|---|", CASES.map(|(_, title)| title).join(" | "));
    table.push_str(&"--:|".repeat(CASES.len()));
    for (first, rows) in by_pooler(rows) {
        let _ = write!(table, "\n| {} |", first.title());
        for (case, _) in CASES {
            let row = rows.iter().find(|row| row.what == case);
            let _ = write!(table, " {} |", row.map_or_else(|| "–".to_owned(), |row| cell(row)));
        }
    }
    table
}

fn cpu(rows: &[Row]) -> String {
    let table = of_cases(rows, |row| match row.pooler {
        BASE => format!("{} µs = 1", digits(row.values[1])),
        OURS | EPOLL if row.values[4] > 1.0 => format!("**{:.2}**", row.values[4]),
        _ => format!("{:.2}", row.values[4]),
    });
    table + "\n\nBold: Weir needs more than PgBouncer."
}

/// The rows of Weir and of PgBouncer.
fn of_both(rows: &[Row]) -> Vec<Row> {
    rows.iter().filter(|row| matches!(row.pooler, BASE | OURS | EPOLL)).cloned().collect()
}

fn tps(rows: &[Row]) -> String {
    let base =
        |case: &str| rows.iter().find(|row| row.what == case && row.pooler == BASE).map_or(0.0, |row| row.values[0]);
    of_cases(&of_both(rows), |row| {
        let ratio = row.values[0] / base(&row.what);
        match row.pooler {
            BASE => format!("{} = 1", thousands(row.values[0])),
            _ if ratio < 1.0 => format!("**{ratio:.2}**"),
            _ => format!("{ratio:.2}"),
        }
    })
}

fn latency(rows: &[Row]) -> String {
    of_cases(&of_both(rows), |row| format!("{}, {}", digits(row.values[0]), digits(row.values[1])))
}

fn tail(rows: &[Row]) -> String {
    let mut table = "| | p50, ms | p99, ms | p99.9, ms | p99 / p50 |\n|---|--:|--:|--:|--:|".to_owned();
    for row in rows {
        let v = &row.values;
        let _ = write!(
            table,
            "\n| {} | {} | {} | {} | {:.2} |",
            row.title(),
            digits(v[0]),
            digits(v[1]),
            digits(v[2]),
            v[4]
        );
    }
    table
}

fn bulk(rows: &[Row]) -> String {
    let mut whats: Vec<&str> = rows.iter().map(|row| row.what.as_str()).collect();
    whats.dedup();
    let mut table = format!("| | {} |\n|---|{}", whats.join(" | "), "--:|".repeat(whats.len()));
    for (first, rows) in by_pooler(rows) {
        let _ = write!(table, "\n| {} |", first.title());
        for what in &whats {
            let row = rows.iter().find(|row| row.what == *what);
            let cell = row.map_or_else(
                || "–".to_owned(),
                |row| match row.pooler {
                    BASE => format!("{} s = 1", digits(row.values[0])),
                    _ => format!("{:.2}", row.values[1]),
                },
            );
            let _ = write!(table, " {cell} |");
        }
    }
    table
}

/// The memory of an idle client, with the number of them at which it is the largest, as the budget has it.
fn idle_bytes(measured: &str, pooler: &str) -> (String, f64) {
    let rows = part(measured, "idle", "pooler ", "100 active").into_iter().filter(|row| row.pooler == pooler);
    let row =
        rows.max_by(|a, b| a.values[1].total_cmp(&b.values[1])).unwrap_or_else(|| panic!("{pooler} is not in idle"));
    (row.name, row.values[1])
}

fn idle(measured: &str) -> String {
    let ((_, ours), (base, theirs)) = (idle_bytes(measured, OURS), idle_bytes(measured, BASE));
    format!(
        "An idle client costs Weir {ours:.0} bytes of resident memory, and {base} {theirs:.0} bytes: {}.",
        stamp(measured, "idle")
    )
}

fn idle_others(measured: &str) -> String {
    let lines = block(measured, "idle-others").lines().skip(2);
    let mut table =
        format!("| | memory of an idle client |\n|---|--:|\n| Weir | {:.0} B |", idle_bytes(measured, OURS).1);
    for line in lines {
        let (name, bytes) = line.rsplit_once(' ').expect("a name and bytes");
        let bytes: f64 = bytes.parse().expect("a number");
        let _ = write!(table, "\n| {} | {} B |", name.trim(), thousands(bytes));
    }
    format!(
        "{table}\n\nWeir: {}. The others: {}.",
        stamp(measured, "idle"),
        stamp(measured, "idle-others").split(':').next().unwrap_or_default()
    )
}

fn odyssey(measured: &str) -> String {
    let lines: Vec<Vec<&str>> =
        block(measured, "odyssey").lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
    let cells = |at: usize, unit: &str| -> String {
        let of = |(case, _): (&str, &str)| {
            lines.iter().find(|cells| cells[0] == case).map_or("–".to_owned(), |cells| format!("{}{unit}", cells[at]))
        };
        CASES[2..].iter().map(|case| of(*case)).collect::<Vec<_>>().join(" | ")
    };
    let heads: Vec<_> = CASES[2..]
        .iter()
        .map(|(case, title)| if *case == "simple-20" { "simple, 20 clients" } else { title })
        .collect();
    format!(
        "| pgbench | {} |\n|---|{}\n| PgBouncer 1.25.2 | {} |\n| Odyssey 1.5.3-rc1 | {} |",
        heads.join(" | "),
        "--:|".repeat(heads.len()),
        cells(1, " µs = 1"),
        cells(2, "")
    )
}

fn burst(measured: &str) -> String {
    let lines: Vec<Vec<&str>> =
        block(measured, "burst").lines().map(|line| line.split_whitespace().collect()).collect();
    let cell = |pooler: &str, way: &str| {
        let runs = lines.iter().filter(|line| line.first() == Some(&pooler) && line.get(2) == Some(&way));
        let list = |at: usize| {
            runs.clone().map(|run| thousands(run[at].parse().expect("a number"))).collect::<Vec<_>>().join(" and ")
        };
        format!("{}; {}", list(3), list(5))
    };
    let row = |pooler: &str| format!("| {pooler} | {} | {} |", cell(pooler, "TCP"), cell(pooler, "Unix"));
    format!(
        "| 5,000 logins at once: refused; p99 in ms | by TCP | by a Unix socket |\n|---|---|---|\n{}\n{}",
        row(BASE),
        row(OURS)
    )
}

fn workers(measured: &str) -> String {
    let lines: Vec<&str> = block(measured, "workers")
        .lines()
        .filter(|line| line.contains("workers ") && line.starts_with("Weir"))
        .collect();
    let numbers: Vec<f64> = lines[0].split_whitespace().filter_map(|token| token.parse().ok()).collect();
    // "2 workers", then CPU µs, its ratio, TPS, its ratio.
    let [_, _, cpu, _, tps] = numbers[..] else { panic!("not understood: {lines:?}") };
    format!(
        "One pool of 20 over two workers, compared with one, 50 clients: {cpu:.2} × the CPU time a transaction, {tps:.2} × the transactions."
    )
}

/// A budget that was missed.
struct Missed<'l> {
    what: &'l str,
    limit: String,
    figure: &'l str,
}

impl<'l> Missed<'l> {
    fn of(line: &'l str) -> Option<Missed<'l>> {
        let at = line.find(['≤', '≥'])?;
        let mut rest = line[at..].split_whitespace();
        let limit = format!("{} {}", rest.next()?, rest.next()?);
        let figure = rest.next()?;
        line.contains(" MISSED ").then(|| Missed { what: line[..at].trim(), limit, figure })
    }
}

fn budgets(measured: &str) -> String {
    let lines = || block(measured, "budgets").lines();
    let held = lines().filter(|line| line.contains(" held ")).count();
    let missed = lines().filter(|line| line.contains(" MISSED ")).count();
    format!("Of {} measured budgets {held} were held and {missed} [missed](#missed-budgets).", held + missed)
}

fn missed(measured: &str) -> String {
    let all: Vec<Missed> = block(measured, "budgets").lines().filter_map(Missed::of).collect();
    let mut kinds: Vec<&str> = Vec::new();
    for missed in &all {
        let kind = missed.what.split(',').next().unwrap_or_default();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let mut table = "| of PgBouncer's | missed: measured (asked) |\n|---|---|".to_owned();
    for kind in kinds {
        let of_kind = all.iter().filter(|missed| missed.what.split(',').next() == Some(kind));
        let cells: Vec<_> = of_kind
            .map(|missed| {
                let what = missed.what.trim_start_matches(kind).trim_start_matches(", ").replace(", × PgBouncer", "");
                format!("{what}: {} ({})", missed.figure, missed.limit).trim_start_matches(": ").to_owned()
            })
            .collect();
        let _ = write!(table, "\n| {kind} | {} |", cells.join("; "));
    }
    table
}

/// README's sentence.
fn short(measured: &str) -> String {
    let rows = part(measured, "bulk", "what ", "");
    let most =
        rows.iter().filter(|row| matches!(row.pooler, OURS | EPOLL)).map(|row| row.values[1]).fold(0.0, f64::max);
    let budgets = budgets(measured).replace("#missed", "docs/performance.md#missed");
    format!(
        "This run: {}. In runs of their own, large results cost at most {most:.2} × PgBouncer's CPU time, and an idle client {:.0} bytes. \
         {budgets}",
        stamp(measured, "rounds").replace(": ", " ").split(" (`").next().unwrap_or_default(),
        idle_bytes(measured, OURS).1
    )
}

/// Three digits, as a reader needs them.
fn digits(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A page without its blocks.
fn without_blocks(page: &str) -> String {
    let mut parts = page.split("<!-- figures:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once("<!-- /figures -->").map_or("", |(_, rest)| rest))
}

/// Ratios to PgBouncer's figures, and the memory of an idle client.
fn by_hand(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for paragraph in text.split("\n\n") {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        for (at, pair) in words.windows(2).enumerate() {
            let after = &words[at..words.len().min(at + 6)];
            let ratio = pair[1] == "×" && pair[0].parse::<f64>().is_ok();
            if ratio && after.iter().any(|word| word.starts_with(BASE)) {
                found.push(after.join(" "));
            }
        }
        let idle = words.windows(2).any(|pair| pair[0] == "idle" && pair[1].starts_with("client"));
        let bytes = words.windows(3).find(|three| {
            let unit = three[2].trim_end_matches(['.', ',', ';', '|']);
            // A limit is no figure that was measured.
            let limit = ["most", "limit:", "≤"].contains(&three[0]);
            !limit && ["B", "bytes"].contains(&unit) && three[1].replace(',', "").parse::<f64>().is_ok()
        });
        found.extend(bytes.filter(|_| idle).map(|three| three.join(" ")));
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace's folder")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
