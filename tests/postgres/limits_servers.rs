//! Limits on servers that apply across pools and workers: a database's, and a user's.

use std::thread;

use weir_pgclient::Connection;
use weir_tests::{Mode, Setup, Site, User, eventually, users};

const USERS: [User; 4] = [users::APP, users::OTHER, users::PLAIN, users::TRUSTED];

fn connect(site: &Site, user: User, pool: &str) -> Connection {
    let params = site.weir().params(user.name, pool).password(user.password);
    Connection::connect(&params).unwrap_or_else(|error| panic!("{} at {pool}: {error}", user.name))
}

fn setup(workers: u32) -> Setup {
    let setup = Setup::new(Mode::Transaction).auth("plain").workers(workers).no_server_user();
    // The server requests a cleartext password from one of the users.
    setup.pool("require_auth = \"any\"")
}

#[test]
fn all_users_of_a_database_share_its_servers_and_all_are_served() {
    for workers in [1, 3] {
        let setup = setup(workers).limit("max_db_connections = 2");
        let site = Site::with(setup, Mode::Transaction);
        thread::scope(|scope| {
            for user in USERS {
                let site = &site;
                scope.spawn(move || {
                    for _ in 0..6 {
                        let mut client = connect(site, user, "app");
                        let most = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                                    AND usename <> 'postgres'";
                        let count: i64 = client.value(most).unwrap().unwrap().parse().unwrap();
                        // A server that is being closed may take a moment to go.
                        assert!(count <= 4, "{count} servers");
                    }
                });
            }
        });
        let pool = site.weir().pool("app");
        assert!(pool.servers() <= 2, "{pool:?}");
    }
}

#[test]
fn a_busy_server_is_waited_for_and_an_idle_one_makes_room() {
    for workers in [1, 3] {
        let setup = setup(workers).limit("max_db_connections = 1");
        let site = Site::with(setup, Mode::Transaction);
        let mut app = connect(&site, users::APP, "app");
        app.query("BEGIN").unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| connect(&site, users::OTHER, "app").value("SELECT 'served'").unwrap());
            eventually("the other waits", || {
                let pool = site.weir().pool("app");
                if pool.get("cl_waiting") == 1 { Ok(()) } else { Err(pool) }
            });
            assert_eq!(site.weir().pool("app").servers(), 1);
            app.query("COMMIT").unwrap();
            assert_eq!(waiting.join().unwrap().as_deref(), Some("served"));
        });
        assert_eq!(app.value("SELECT 'again'").unwrap().as_deref(), Some("again"));
    }
}

#[test]
fn a_user_has_a_limit_of_servers_over_all_databases() {
    for workers in [1, 3] {
        let more = format!(
            "[pools.two]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"postgres\"\n",
            weir_tests::Postgres::shared().port()
        );
        let setup = setup(workers).general("max_user_connections = 1").more(&more);
        let site = Site::with(setup, Mode::Transaction);
        let mut first = connect(&site, users::APP, "app");
        let mut second = connect(&site, users::APP, "two");
        for _ in 0..5 {
            first.query("SELECT 1").unwrap();
            second.query("SELECT 2").unwrap();
            let servers = site.weir().pool("app").servers() + site.weir().pool("two").servers();
            assert!(servers <= 1, "{servers}");
        }
        connect(&site, users::OTHER, "app").query("SELECT 3").unwrap();
    }
}
