//! The console's tables as views over dblink read them: by position, with the types that tools for PgBouncer 1.25
//! declare.

use std::collections::BTreeMap;

use weir_tests::{Ini, Mode, Setup, Site, WATCHER};

/// The types of each table's columns, in order: t text, i int, b bigint, z timestamp with time zone, f boolean.
const TABLES: [(&str, &str); 11] = [
    ("clients", "ttttttitizziiittittii"),
    ("servers", "ttttttitizziiittittii"),
    ("sockets", "ttttttitizziiittittiiiiiiiii"),
    ("config", "tttf"),
    ("databases", "ttittiiiitiiiiiii"),
    ("dns_hosts", "tbt"),
    ("dns_zones", "tti"),
    ("lists", "ti"),
    ("pools", "ttiiiiiiiiiiiiiti"),
    ("stats", "tibbbbbbbiiiibbbbbbbiiiii"),
    ("users", "ttttiiii"),
];

struct Views {
    site: Site,
    direct: weir_pgclient::Connection,
}

impl Views {
    fn of(site: Site) -> Views {
        let mut direct = site.superuser();
        direct.query("create extension dblink").unwrap();
        site.connect().query("select 1").unwrap();
        Views { site, direct }
    }

    fn read(&mut self, table: &str, columns: &str) -> Result<Vec<Vec<Option<String>>>, weir_pgclient::Error> {
        let kinds = BTreeMap::from([('t', "text"), ('i', "int"), ('b', "bigint"), ('z', "timestamptz"), ('f', "bool")]);
        let columns = columns.chars().enumerate().map(|(at, kind)| format!("c{at} {}", kinds[&kind]));
        let columns: Vec<String> = columns.collect();
        let place = format!(
            "host=127.0.0.1 port={} dbname=pgbouncer user={} password=''{}''",
            self.site.weir().port(),
            WATCHER.0,
            WATCHER.1
        );
        let query = format!("select * from dblink('{place}', 'show {table}') as x ({})", columns.join(", "));
        self.direct.query(&query).map(|answer| answer.rows)
    }

    fn version(&mut self) -> String {
        self.read("version", "t").unwrap().remove(0).remove(0).expect("a version")
    }
}

#[test]
fn views_over_dblink_read_the_tables_of_an_ini_as_pgbouncer_s() {
    let mut views = Views::of(Site::ini(&Ini::transaction(2)));
    for (table, columns) in TABLES {
        let rows = views.read(table, columns).unwrap_or_else(|error| panic!("{table}: {error}"));
        assert!(!rows.is_empty() || table.starts_with("dns"), "{table} is empty");
    }
    let version = views.version();
    let numbers: Vec<Result<u32, _>> = version.trim_start_matches("PgBouncer ").split('.').map(str::parse).collect();
    assert!(version.starts_with("PgBouncer ") && numbers.len() == 3, "{version}");
    assert!(numbers.iter().all(Result::is_ok), "{version}");
}

#[test]
fn with_a_file_of_its_own_weir_says_what_it_is() {
    let mut views = Views::of(Site::with(Setup::new(Mode::Transaction), Mode::Transaction));
    assert!(views.version().contains("(Weir "), "{}", views.version());
}
