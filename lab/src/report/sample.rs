//! A made-up report with a little of everything, for tests and visual checks.

use std::collections::BTreeMap;

use crate::length::Length;
use crate::model::*;

/// A report of four experiments, with plausible made-up figures.
pub(super) fn report() -> Report {
    let versions = [
        ("PostgreSQL", "15.18"),
        ("pgbench", "15.18"),
        ("PgBouncer", "1.18.0"),
        ("MariaDB", "10.11.14"),
        ("Node.js", "20.19.2"),
        ("Go", "1.26.0"),
        ("Weir", "0.1.0"),
    ];
    Report {
        format: FORMAT,
        command: "weir lab all --quick --out /tmp/report".to_owned(),
        length: Length::Quick,
        began: "2026-11-21T06:24:06Z".to_owned(),
        ended: "2026-11-21T06:32:50Z".to_owned(),
        machine: Machine {
            cores: 2,
            processor: "Intel(R) Xeon(R) Processor @ 2.60GHz".to_owned(),
            memory_bytes: 4_136_144_896,
            kernel: "Linux 6.1.0-38-amd64".to_owned(),
            system: "Debian GNU/Linux 12 (bookworm)".to_owned(),
        },
        versions: BTreeMap::from(versions.map(|(program, version)| (program.to_owned(), version.to_owned()))),
        experiments: vec![pgbench(), reconnect(), products(), node()],
    }
}

/// All sentences of an experiment.
pub(super) fn sentences(experiment: &Experiment) -> Vec<String> {
    let mut all = vec![experiment.title.clone(), experiment.question.clone(), experiment.source.clone()];
    all.extend(experiment.setup.iter().chain(&experiment.hides).chain(&experiment.warnings).cloned());
    all.extend(experiment.claims.iter().flat_map(|claim| [claim.text.clone(), claim.why.clone()]));
    all.extend(experiment.missing.iter().flat_map(|m| [m.what.clone(), m.effect.clone(), m.get.clone()]));
    all.extend(experiment.commands.iter().flat_map(|ran| [ran.what.clone(), ran.line.clone(), ran.raw.clone()]));
    all.extend(experiment.tables.iter().flat_map(|table| [table.title.clone(), table.note.clone()]));
    all.extend(experiment.tables.iter().flat_map(|table| table.rows.iter().map(|row| row.label.clone())));
    all.extend(experiment.charts.iter().flat_map(|chart| [chart.title.clone(), chart.note.clone()]));
    all.retain(|text| !text.is_empty());
    all
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn column(title: &str, unit: &str, better: Option<Better>) -> Column {
    Column { title: title.to_owned(), unit: unit.to_owned(), better }
}

fn row(label: &str, cells: Vec<Cell>) -> Row {
    Row { label: label.to_owned(), cells }
}

fn axis(title: &str, unit: &str, scale: Scale) -> Axis {
    Axis { title: title.to_owned(), unit: unit.to_owned(), scale }
}

fn series(name: &str, origin: Origin, points: &[(f64, f64)]) -> Series {
    Series { name: name.to_owned(), origin, points: points.to_vec() }
}

fn median(value: f64, least: f64, most: f64) -> Option<Value> {
    Some(Value::Number { value, spread: Some((least, most)) })
}

fn number(value: f64) -> Option<Value> {
    Some(Value::number(value))
}

fn text(text: &str) -> Option<Value> {
    Some(Value::text(text))
}

fn ran(what: &str, line: &str, raw: &str) -> Ran {
    Ran { what: what.to_owned(), line: line.to_owned(), raw: raw.to_owned() }
}

fn pgbench() -> Experiment {
    Experiment {
        id: "pgbench".to_owned(),
        title: "A pool in front of a server that takes 100 connections".to_owned(),
        question: "What do 150 clients get from a server that takes 97, directly and through a pool? And do 50 lose \
                   anything by it?"
            .to_owned(),
        source: "\"How to manage connection pools, and benchmarking with pgbench\", DigitalOcean, \
                 https://www.digitalocean.com/community/tutorials/managed-databases"
            .to_owned(),
        setup: words(&[
            "PostgreSQL 15.18 with max_connections = 100, of which 3 are reserved.",
            "Filled by pgbench -i -s 150: 15,000,000 accounts.",
            "Weir with a pool named test-pool of 97 connections in transaction mode; clients use its name as database.",
        ]),
        tables: vec![pgbench_table()],
        charts: vec![size(), usage(), tps()],
        claims: vec![
            Claim::decided(
                "150 clients through the pool lose no client, and do more than direct does with what gets in",
                Some(true),
                "2,013 transactions a second against 1,726 of the 97 that fit (+17%; the article has +33%)",
            ),
            Claim::decided(
                "50 clients gain nothing by the pool, and lose less than 5%",
                Some(false),
                "1,698 through the pool against 1,844: a loss of 7.9%. Both cores are busy here, and the pooler takes \
                 its share of them; in the article the server was a machine of its own",
            ),
            Claim::decided("In a burst, clients wait in a queue and are not refused", Some(true), "0 of 150 refused"),
            Claim::decided("Pooling costs the server less CPU", None, "the server's CPU could not be sampled"),
        ],
        hides: words(&[
            "The article's \"150 direct\" had about 75 at work (281 ms × 258 = 73): its +33% compares 150 with 75.",
            "With fewer branches than clients, the rows of the branches are the queue, not the pool.",
        ]),
        warnings: words(&["pgbench took 94% of a core: it may have been the limit (direct, 97 clients)"]),
        missing: vec![],
        commands: vec![
            ran(
                "direct, 50 clients",
                "pgbench -h 127.0.0.1 -p 35001 -c 50 -j 2 -P 1 -T 10 benchmark",
                "raw/pgbench-direct-50-1.txt",
            ),
            ran(
                "through the pool, 150 clients",
                "pgbench -h 127.0.0.1 -p 35002 -c 150 -j 2 -P 1 -T 10 'sslmode=require dbname=test-pool user=app \
                 application_name=a-long-line-that-must-wrap-on-a-phone'",
                "raw/pgbench-pooled-150-1.txt",
            ),
        ],
    }
}

fn pgbench_table() -> Table {
    Table {
        title: "pgbench through the pool and without it".to_owned(),
        rows_are: "run".to_owned(),
        columns: vec![
            column("throughput", "1/s", Some(Better::Higher)),
            column("transactions", "", None),
            column("latency", "ms", Some(Better::Lower)),
            column("errors", "", Some(Better::Lower)),
        ],
        rows: vec![
            row(
                "direct, 50 clients",
                vec![
                    Cell::both(median(1844.3, 1801.0, 1873.2), number(175.3)),
                    Cell::both(number(18_443.0), number(105_256.0)),
                    Cell::both(median(27.11, 26.7, 27.8), number(282.0)),
                    Cell::both(number(0.0), text("none")),
                ],
            ),
            row(
                "direct, 150 clients",
                vec![
                    Cell::both(text("refused"), number(258.0)),
                    Cell::both(None, number(154_892.0)),
                    Cell::both(None, number(281.4)),
                    Cell::both(text("too many clients"), text("clients refused")),
                ],
            ),
            row(
                "direct, 97 clients",
                vec![
                    Cell::ours(median(1725.9, 1690.0, 1770.0).unwrap()),
                    Cell::ours(Value::number(17_259.0)),
                    Cell::ours(median(56.2, 54.8, 57.0).unwrap()),
                    Cell::ours(Value::number(0.0)),
                ],
            ),
            row(
                "through the pool, 150 clients",
                vec![
                    Cell::both(median(2012.7, 1969.2, 2044.8), number(344.2)),
                    Cell::both(number(20_127.0), number(206_768.0)),
                    Cell::both(median(74.5, 73.2, 76.0), number(421.7)),
                    Cell::both(number(0.0), text("none")),
                ],
            ),
        ],
        note: "The pgbench of then went on when clients were refused; today's stops.".to_owned(),
    }
}

fn usage() -> Chart {
    Chart {
        title: "The server's memory while 97 connect directly, and 150 through the pool".to_owned(),
        kind: ChartKind::Lines,
        x: axis("time", "s", Scale::Linear),
        y: axis("memory", "MB", Scale::Linear),
        groups: vec![],
        series: vec![
            series("direct", Origin::Measured, &wave(460.0, 30.0)),
            series("pooled", Origin::Measured, &wave(310.0, 22.0)),
        ],
        note: String::new(),
    }
}

fn size() -> Chart {
    Chart {
        title: "Throughput against the pool's size".to_owned(),
        kind: ChartKind::Lines,
        x: axis("server connections", "", Scale::Log),
        y: axis("throughput", "1/s", Scale::Log),
        groups: vec![],
        series: vec![
            series(
                "read-only",
                Origin::Measured,
                &[
                    (1.0, 5100.0),
                    (2.0, 9800.0),
                    (4.0, 10_900.0),
                    (10.0, 11_050.0),
                    (20.0, 10_600.0),
                    (50.0, 9700.0),
                    (97.0, 8700.0),
                ],
            ),
            series(
                "read-write",
                Origin::Measured,
                &[
                    (1.0, 410.0),
                    (2.0, 790.0),
                    (4.0, 1300.0),
                    (10.0, 1800.0),
                    (20.0, 2010.0),
                    (50.0, 1990.0),
                    (97.0, 1870.0),
                ],
            ),
            series(
                "slow, 100 ms",
                Origin::Measured,
                &[(1.0, 9.9), (2.0, 19.7), (4.0, 39.6), (10.0, 98.9), (20.0, 196.0), (50.0, 478.0), (97.0, 900.0)],
            ),
            series("slow, by Little's law", Origin::Calculated, &[(1.0, 10.0), (97.0, 970.0)]),
        ],
        note: "A statement that waits needs as many connections as wait; one that computes, as many as cores."
            .to_owned(),
    }
}

fn tps() -> Chart {
    Chart {
        title: "Throughput, measured and published".to_owned(),
        kind: ChartKind::Bars,
        x: axis("", "", Scale::Linear),
        y: axis("throughput", "1/s", Scale::Linear),
        groups: words(&[
            "50 clients, direct",
            "97 clients, direct",
            "150 clients, direct",
            "150 clients through the pool",
        ]),
        series: vec![
            series("here", Origin::Measured, &[(0.0, 1844.3), (1.0, 1725.9), (3.0, 2012.7)]),
            series("article", Origin::Published, &[(0.0, 175.3), (2.0, 258.0), (3.0, 344.2)]),
        ],
        note: String::new(),
    }
}

fn wave(level: f64, swing: f64) -> Vec<(f64, f64)> {
    (0..60).map(f64::from).map(|t| (t, level * (1.0 - (-t / 4.0).exp()) + swing * (t / 5.0).sin())).collect()
}

fn reconnect() -> Experiment {
    let clients = [10.0, 20.0, 40.0, 80.0, 100.0, 200.0];
    let none = [16.96, 16.97, 16.73, 16.75, 16.51];
    let bouncer = [26.86, 27.19, 26.77, 26.64, 26.73, 26.93];
    let second = [15.52, 15.67, 15.33, 15.53, 15.66];
    let ours = |i: usize, base: f64| {
        let value = base * (1.0 - 0.013 * f64::from(u8::try_from(i).unwrap()));
        median(value, value * 0.97, value * 1.02)
    };
    let published = |all: &[f64], i: usize, words: &str| all.get(i).map_or_else(|| text(words), |v| number(*v));
    let rows = clients.iter().enumerate().map(|(i, clients)| {
        row(
            &clients.to_string(),
            vec![
                Cell::both(if i == 5 { text("refused") } else { ours(i, 173.2) }, published(&none, i, "dropped")),
                Cell::both(ours(i, 268.8), published(&bouncer, i, "")),
                Cell::both(text("not installed"), published(&second, i, "dropped, or hangs")),
                Cell::ours(ours(i, 402.1).unwrap()),
            ],
        )
    });
    let points = |values: &[f64], factor: f64| -> Vec<(f64, f64)> {
        clients.iter().zip(values).map(|(x, y)| (*x, y * factor)).collect()
    };
    let columns = ["none", "PgBouncer", "Pgpool-II", "Weir"].map(|name| column(name, "1/s", Some(Better::Higher)));
    Experiment {
        id: "reconnect".to_owned(),
        title: "A new connection for every transaction".to_owned(),
        question: "How much does each pooler gain when clients connect anew for every transaction?".to_owned(),
        source: "\"So sánh Pgpool-II và PgBouncer – Phần 2\", Đặng Xuân Duy, after ScaleGrid".to_owned(),
        setup: words(&["pgbench -C with one thread, autovacuum off."]),
        tables: vec![Table {
            title: "Throughput by number of clients".to_owned(),
            rows_are: "clients".to_owned(),
            columns: columns.to_vec(),
            rows: rows.collect(),
            note: String::new(),
        }],
        charts: vec![Chart {
            title: "Throughput by number of clients".to_owned(),
            kind: ChartKind::Lines,
            x: axis("clients", "", Scale::Linear),
            y: axis("throughput", "1/s", Scale::Linear),
            groups: vec![],
            series: vec![
                series("none", Origin::Measured, &points(&none, 10.2)),
                series("PgBouncer", Origin::Measured, &points(&bouncer, 10.0)),
                series("Weir", Origin::Measured, &points(&bouncer, 14.9)),
                series("none, published", Origin::Published, &points(&none, 1.0)),
                series("PgBouncer, published", Origin::Published, &points(&bouncer, 1.0)),
            ],
            note: String::new(),
        }],
        claims: vec![
            Claim::decided("PgBouncer gains about 60%", Some(true), "+55% at 10 clients, +54% at 100"),
            Claim::decided("Weir gains at least what PgBouncer gains", Some(true), "+132% against +55% at 10 clients"),
            Claim::decided("Pgpool-II on the server's machine loses", None, "Pgpool-II is not installed"),
        ],
        hides: words(&["A server of its own for Pgpool-II is out of reach on one machine."]),
        warnings: vec![],
        missing: vec![Missing {
            what: "Pgpool-II".to_owned(),
            effect: "its column is empty".to_owned(),
            get: "apt-get install pgpool2".to_owned(),
        }],
        commands: vec![ran("none, 10 clients", "pgbench -C -c 10 -j 1 -T 5", "raw/reconnect-none-10.txt")],
    }
}

fn products() -> Experiment {
    let chart = Chart {
        title: "Requests served in ten seconds, 200 at once".to_owned(),
        kind: ChartKind::Bars,
        x: axis("", "", Scale::Linear),
        y: axis("successes", "1/s", Scale::Log),
        groups: words(&["/products/new", "/products/normal", "/products/pooled", "/products/weir"]),
        series: vec![
            series("without TLS", Origin::Measured, &[(0.0, 9.7), (1.0, 612.0), (2.0, 1490.0), (3.0, 1210.0)]),
            series(
                "with TLS to the server",
                Origin::Measured,
                &[(0.0, 9.1), (1.0, 233.0), (2.0, 1402.0), (3.0, 1135.0)],
            ),
            series("without TLS (article)", Origin::Published, &[(0.0, 10.0), (1.0, 820.6), (2.0, 1679.2)]),
        ],
        note: String::new(),
    };
    let cells = |all: [(f64, f64); 3]| all.map(|(ours, published)| Cell::both(number(ours), number(published)));
    Experiment {
        id: "products".to_owned(),
        title: "A web API with four ways to reach its database".to_owned(),
        question: "What does a web program gain by a pool, and does it need one of its own?".to_owned(),
        source: "\"Database connection pooling: overview and benchmark with Go\"; Kiên Đinh, Viblo Asia".to_owned(),
        setup: words(&["The app is in Go, with database/sql and lib/pq, as the article had it."]),
        tables: vec![Table {
            title: "Ten seconds of load, 20 requests at once".to_owned(),
            rows_are: "figure".to_owned(),
            columns: ["new", "normal", "pooled"].map(|name| column(name, "", None)).to_vec(),
            rows: vec![
                row("successes by wall second, 1/s", cells([(9.7, 10.0), (935.2, 935.8), (2210.4, 1701.0)]).to_vec()),
                row(
                    "as the article counts, 1/s",
                    cells([(1204.1, 538.55), (941.0, 935.56), (2213.0, 1702.88)]).to_vec(),
                ),
                row("average, ms", cells([(16.6, 37.1), (21.2, 21.4), (9.04, 11.7)]).to_vec()),
                row("errors", cells([(38_411.0, 29_433.0), (0.0, 0.0), (0.0, 0.0)]).to_vec()),
            ],
            note: String::new(),
        }],
        charts: vec![chart],
        claims: vec![Claim::decided("/products/new fails past the server's limit", Some(true), "38,411 errors")],
        hides: vec![],
        warnings: vec![],
        missing: vec![],
        commands: vec![],
    }
}

fn node() -> Experiment {
    let points = [0.341, 1.702, 1.688, 0.352, 1.731, 0.871];
    let x = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    let chart = Chart {
        title: "Time of the whole program".to_owned(),
        kind: ChartKind::Bars,
        x: axis("", "", Scale::Linear),
        y: axis("time", "s", Scale::Linear),
        groups: words(&[
            "1 query",
            "5 in series",
            "5 in parallel",
            "1, pool",
            "5 in series, pool",
            "5 in parallel, pool",
        ]),
        series: vec![series("MariaDB", Origin::Measured, &x.into_iter().zip(points).collect::<Vec<_>>())],
        note: String::new(),
    };
    let mut node = Experiment::empty("node", "Serial and parallel queries of a Node.js program");
    node.question = "Do parallel queries gain anything on one connection?".to_owned();
    node.charts = vec![chart];
    node.claims = vec![Claim::decided(
        "Parallel queries gain only with several connections",
        Some(true),
        "1.69 s on one connection, 0.87 s on a pool: 1.9 ×, and two cores",
    )];
    node
}
