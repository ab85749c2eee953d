//! Databases without a section: pools made on demand of `*`.

use weir_pgclient::Connection;
use weir_pgwire::{put_front, tag};
use weir_tests::{Mode, Postgres, Setup, Site, eventually, read_until_ready, users};

fn site(workers: u32) -> Site {
    let star = format!("[pools.\"*\"]\nhost = \"127.0.0.1\"\nport = {}\n", Postgres::shared().port());
    let setup = Setup::new(Mode::Transaction).workers(workers).no_server_user();
    let setup = setup.general("autodb_idle_timeout = \"1s\"").limit("server_idle_timeout = \"1s\"");
    Site::with(setup.more(&star), Mode::Transaction)
}

fn connect(site: &Site, database: &str) -> Result<Connection, weir_pgclient::Error> {
    Connection::connect(&site.weir().params(users::APP.name, database).password(users::APP.password))
}

#[test]
fn any_database_of_the_server_is_served_and_its_unused_pool_is_dropped() {
    for workers in [1, 3] {
        let site = site(workers);
        let name = site.database().name().to_owned();
        let mut client = connect(&site, &name).unwrap();
        assert_eq!(client.value("SELECT current_database()::text").unwrap(), Some(name.clone()));
        let known = || {
            let stats = site.weir().show("STATS");
            (0..stats.rows.len()).any(|row| stats.get(row, "database") == Some(&name))
        };
        assert!(known());
        client.close().unwrap();
        eventually("its statistics are dropped", || if known() { Err("they are there") } else { Ok(()) });
        connect(&site, &name).unwrap().query("SELECT 1").unwrap();
    }
}

#[test]
fn a_missing_database_is_reported_and_leaves_no_pool() {
    for workers in [1, 3] {
        let site = site(workers);
        for number in 0..20 {
            let error = connect(&site, &format!("invented{number}")).expect_err("there is no such database");
            assert_eq!(error.sqlstate(), Some("3D000"), "{error}");
        }
        eventually("nothing is left of them", || {
            let stats = site.weir().show("STATS");
            let left = (0..stats.rows.len()).filter_map(|row| stats.get(row, "database").map(str::to_owned));
            let left: Vec<_> = left.filter(|name| name.starts_with("invented")).collect();
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }
}

#[test]
fn a_database_is_copied_renamed_and_dropped_although_its_pool_has_idle_servers() {
    let server = Postgres::private();
    server.superuser("postgres").query(&format!("ALTER ROLE {} CREATEDB", users::APP.name)).unwrap();
    for workers in [1, 3] {
        let star = format!("[pools.\"*\"]\nhost = \"127.0.0.1\"\nport = {}\n", server.port());
        let setup = Setup::new(Mode::Transaction).workers(workers).no_server_user();
        let site = Site::with(setup.more(&star), Mode::Transaction);
        let mut client = connect(&site, "postgres").unwrap();
        let use_once = |name: &str| drop(connect(&site, name).unwrap().query("SELECT 1").unwrap());
        client.query("CREATE DATABASE made").unwrap();
        use_once("made");
        client.query("CREATE DATABASE copied TEMPLATE made").unwrap();
        use_once("made");
        client.query("ALTER DATABASE made RENAME TO renamed").unwrap();
        use_once("renamed");
        use_once("copied");
        client.query("DROP DATABASE renamed").unwrap();
        // By the extended protocol, too.
        let mut dropping = Vec::new();
        put_front::parse(&mut dropping, b"", b"drop database if exists copied\0\0\0");
        put_front::bind_no_params(&mut dropping, b"", b"");
        put_front::execute(&mut dropping, b"", 0);
        put_front::sync(&mut dropping);
        client.send_bytes(&dropping).unwrap();
        let frames = read_until_ready(&mut client, 1);
        assert!(frames.iter().all(|frame| frame.tag != tag::back::ERROR), "{frames:?}");
    }
}
