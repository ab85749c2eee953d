//! Signals and reloads: HUP, INT, TERM, QUIT, USR1, USR2.

use std::thread;
use std::time::Duration;

use weir_pgclient::Connection;
use weir_pglocal::Signal;
use weir_tests::{Mode, Setup, Site, eventually, until_quiet, users};

fn setup(size: u32) -> Setup {
    Setup::new(Mode::Transaction).size(size)
}

fn site() -> Site {
    Site::with(setup(2), Mode::Transaction)
}

fn reload(site: &Site, setup: &Setup) {
    site.weir().rewrite(&setup.toml(site.database()), &setup.userlist());
    site.weir().signal(Signal::SIGHUP);
}

/// A column of SHOW DATABASES for a pool; `None` if there is no such pool.
fn shown(site: &Site, pool: &str, column: &str) -> Option<String> {
    let databases = site.weir().show("DATABASES");
    let row = (0..databases.rows.len()).find(|row| databases.get(*row, "name") == Some(pool))?;
    databases.get(row, column).map(str::to_owned)
}

fn await_shown(site: &Site, pool: &str, column: &str, wanted: Option<&str>) {
    eventually("the reload is in force", || {
        let now = shown(site, pool, column);
        if now.as_deref() == wanted { Ok(()) } else { Err(now) }
    });
}

fn second_pool(site: &Site, name: &str) -> String {
    format!(
        "[pools.{name}]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"{}\"\nuser = \"truster\"\nsize = 1\n",
        site.database().postgres().port(),
        site.database().name()
    )
}

#[test]
fn a_pool_is_added_resized_and_removed_while_clients_stay() {
    let site = site();
    let mut client = site.connect();
    let pid = client.value("SELECT pg_backend_pid()").unwrap();
    let before = client.backend_pid();

    reload(&site, &setup(2).more(&second_pool(&site, "second")));
    await_shown(&site, "second", "pool_size", Some("1"));
    let params = site.weir().params(users::APP.name, "second").password(users::APP.password);
    let mut on_second = Connection::connect(&params).unwrap();
    assert_eq!(on_second.value("SELECT current_user").unwrap().as_deref(), Some("truster"));

    reload(&site, &setup(7));
    await_shown(&site, "app", "pool_size", Some("7"));
    await_shown(&site, "second", "name", None);
    assert_eq!(client.value("SELECT pg_backend_pid()").unwrap(), pid, "an unchanged server is kept");
    assert_eq!(client.backend_pid(), before);
    let refused = Connection::connect(&params).unwrap_err();
    assert_eq!(refused.sqlstate(), Some("3D000"), "{refused}");
    eventually("the clients of a removed pool get an error", || match on_second.query("SELECT 1") {
        Ok(_) => Err("still served"),
        Err(_) => Ok(()),
    });
}

#[test]
fn a_pool_whose_login_is_corrected_tries_it_at_once() {
    let site = site();
    let right = site.database().name().to_owned();
    let second = |database: &str| {
        let section = second_pool(&site, "second").replace(&format!("\"{right}\""), &format!("\"{database}\""));
        setup(2).more(&(section + "server_login_retry = \"1h\"\n"))
    };
    reload(&site, &second("nowhere"));
    await_shown(&site, "second", "database", Some("nowhere"));
    let params = site.weir().params(users::APP.name, "second").password(users::APP.password);
    for _ in 0..2 {
        let refused = Connection::connect(&params).unwrap_err().to_string();
        assert!(refused.contains("nowhere"), "{refused}");
    }
    reload(&site, &second(&right));
    await_shown(&site, "second", "database", Some(&right));
    let mut client = Connection::connect(&params).expect("the new login is tried");
    assert_eq!(client.value("SELECT current_database()").unwrap().as_deref(), Some(&*right));
}

#[test]
fn a_pool_whose_users_secret_is_corrected_tries_it_at_once() {
    let site = site();
    // Without a user of its own, it logs in as its client, with the listed password.
    let own = second_pool(&site, "second").replace("user = \"truster\"\n", "");
    let setup = setup(2).more(&(own + "server_login_retry = \"1h\"\n"));
    let listed = setup.userlist();
    let line = listed.lines().find(|line| line.starts_with("\"app\" ")).expect("the user is listed");
    let earlier = listed.replace(line, "\"app\" \"an earlier one\"");
    let reload = |list: &str| {
        site.weir().rewrite(&setup.toml(site.database()), list);
        site.weir().command("RELOAD").expect("it is valid");
    };
    reload(&earlier);
    let params = site.weir().params(users::APP.name, "second");
    for _ in 0..2 {
        let refused = Connection::connect(&params.clone().password("an earlier one")).unwrap_err().to_string();
        assert!(refused.contains("password authentication failed for user"), "{refused}");
    }
    reload(&listed);
    let mut client = Connection::connect(&params.password(users::APP.password)).expect("the new secret is tried");
    assert_eq!(client.value("SELECT current_user").unwrap().as_deref(), Some("app"));
}

#[test]
fn a_smaller_pool_closes_servers_as_they_become_free() {
    let site = Site::with(setup(6), Mode::Transaction);
    let mut clients: Vec<_> = (0..6).map(|_| site.connect()).collect();
    clients.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
    reload(&site, &setup(2));
    await_shown(&site, "app", "pool_size", Some("2"));
    for client in &mut clients {
        assert_eq!(client.value("SELECT 'in peace'").unwrap().as_deref(), Some("in peace"));
    }
    clients.iter_mut().for_each(|client| drop(client.query("COMMIT").unwrap()));
    eventually("two are left", || {
        let backends = site.database().backends();
        if backends.len() <= 2 { Ok(()) } else { Err(backends) }
    });
    for client in &mut clients {
        assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
    }
}

#[test]
fn a_larger_pool_serves_waiting_clients() {
    let site = Site::with(setup(1), Mode::Transaction);
    let mut holder = site.connect();
    holder.query("BEGIN").unwrap();
    thread::scope(|scope| {
        let mut client = site.connect();
        let waits = scope.spawn(move || client.value("SELECT 'served'"));
        site.weir().await_pool("it waits", |pool| pool.get("cl_waiting") == 1);
        reload(&site, &setup(2));
        assert_eq!(waits.join().unwrap().unwrap().as_deref(), Some("served"));
    });
}

#[test]
fn a_limit_of_clients_below_those_connected_refuses_others_with_the_reason_and_lets_operators_in() {
    for workers in [1, 2] {
        let setup = |max: u32| setup(2).workers(workers).general(&format!("max_clients = {max}"));
        let site = Site::with(setup(100), Mode::Transaction);
        let mut clients: Vec<Connection> = (0..50).map(|_| site.connect()).collect();
        for max in [20, 3] {
            reload(&site, &setup(max));
            eventually("the limit is in force", || match Connection::connect(&site.params()) {
                Err(error) if error.sqlstate() == Some("53300") => Ok(()),
                other => Err(other.map(drop)),
            });
            assert!(site.weir().show("VERSION").rows.len() == 1, "an operator gets in");
        }
        assert!(clients.iter_mut().all(|client| client.query("SELECT 1").is_ok()), "they stay");
        drop(clients);
        eventually("there is room again", || Connection::connect(&site.params()).map(drop));
    }
}

#[test]
fn a_broken_file_is_reported_and_changes_nothing() {
    let site = site();
    let good = setup(2).toml(site.database());
    for broken in ["[general", "[general]\nno_such_key = 1\n", "[pools.app]\nhost = \"x\"\nsize = \"many\"\n"] {
        site.weir().rewrite(broken, &setup(2).userlist());
        let error = site.weir().command("RELOAD").expect_err(broken);
        assert!(error.to_string().contains("RELOAD failed"), "{error}");
        let says_where = || if site.weir().log().contains("weir.toml") { Ok(()) } else { Err(site.weir().log()) };
        eventually("the log has the place", says_where);
        assert_eq!(site.connect().value("SELECT 1").unwrap().as_deref(), Some("1"));
        assert_eq!(shown(&site, "app", "pool_size").as_deref(), Some("2"));
    }
    // Each of several mistakes is reported, to the operator and in the log.
    let broken = good.replace("size = 2", "size = many\nsizee = 2\nmode = \"sesion\"");
    site.weir().rewrite(&broken, "no list\n");
    let error = site.weir().command("RELOAD").expect_err("four mistakes");
    let detail = error.server().and_then(|server| server.detail.clone()).unwrap_or_default();
    assert_eq!(detail.lines().count(), 4, "{detail}");
    let logged = || {
        let log = site.weir().log();
        let reported =
            detail.lines().all(|line| log.contains(&format!("RELOAD failed, the old configuration stays: {line}")));
        if reported { Ok(()) } else { Err(log) }
    };
    eventually("the log has all mistakes", logged);
    site.weir().rewrite(&good.replace("size = 2", "size = 3"), &setup(2).userlist());
    assert_eq!(site.weir().command("RELOAD").unwrap().tag, "RELOAD");
    assert_eq!(shown(&site, "app", "pool_size").as_deref(), Some("3"));
}

#[test]
fn new_users_and_passwords_count_from_the_next_login() {
    let site = site();
    let mut old = site.connect();
    let changed = setup(2).secret(users::APP.name, "changed").without(users::OTHER.name).secret("new", "comer");
    site.weir().rewrite(&changed.toml(site.database()), &changed.userlist());
    site.weir().command("RELOAD").unwrap();
    assert_eq!(old.value("SELECT 1").unwrap().as_deref(), Some("1"));
    assert!(Connection::connect(&site.params()).is_err());
    assert!(Connection::connect(&site.params_of(users::OTHER)).is_err());
    for (user, password) in [(users::APP.name, "changed"), ("new", "comer")] {
        let params = site.weir().params(user, "app").password(password);
        assert_eq!(Connection::connect(&params).unwrap().value("SELECT 1").unwrap().as_deref(), Some("1"));
    }
}

#[test]
fn a_changed_server_replaces_connections_and_disconnects_no_client() {
    let site = site();
    let server = |client: &mut Connection| client.value("SELECT pg_backend_pid()").unwrap().unwrap();
    let mut busy = site.connect();
    let mut idle = site.connect();
    busy.query("BEGIN").unwrap();
    let (of_busy, of_idle) = (server(&mut busy), server(&mut idle));
    let changed = setup(2).toml(site.database()).replace("host = \"127.0.0.1\"", "host = \"localhost\"");
    site.weir().rewrite(&changed, &setup(2).userlist());
    site.weir().command("RELOAD").unwrap();
    assert_eq!(server(&mut busy), of_busy, "a transaction is not cut");
    busy.query("COMMIT").unwrap();
    for client in [&mut busy, &mut idle] {
        assert!(![&of_busy, &of_idle].contains(&&server(client)), "a new connection to the new address");
    }
}

#[test]
fn hundreds_of_reloads_under_load_affect_no_client() {
    let site = Site::with(setup(3), Mode::Transaction);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|number| {
                let site = &site;
                scope.spawn(move || {
                    let mut client = site.connect();
                    for round in 0..300 {
                        let tag = format!("{number}/{round}");
                        assert_eq!(client.value(&format!("SELECT '{tag}'")).unwrap(), Some(tag));
                    }
                })
            })
            .collect();
        let mut size = 2;
        while clients.iter().any(|client| !client.is_finished()) {
            size = 2 + (size + 1) % 4;
            reload(&site, &setup(size));
            thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn term_lets_clients_finish_and_takes_no_new_ones() {
    let site = site();
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    site.weir().signal(Signal::SIGTERM);
    eventually("new clients are refused", || match Connection::connect(&site.params()) {
        Ok(_) => Err("accepted"),
        Err(_) => Ok(()),
    });
    client.query("SELECT 1").unwrap();
    client.query("COMMIT").unwrap();
    assert_eq!(client.value("SELECT 'still served'").unwrap().as_deref(), Some("still served"));
    assert!(site.weir().exited().is_none());
    drop(client);
    assert_eq!(site.weir().wait_for_exit().code(), Some(0));
}

#[test]
fn term_serves_waiting_clients() {
    let site = Site::with(setup(1), Mode::Transaction);
    let mut holder = site.connect();
    holder.query("BEGIN").unwrap();
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..4)
            .map(|number| {
                let mut client = site.connect();
                scope.spawn(move || client.value(&format!("SELECT 'waiter {number}'")))
            })
            .collect();
        site.weir().await_pool("four wait", |pool| pool.get("cl_waiting") == 4);
        site.weir().signal(Signal::SIGTERM);
        await_line(&site, "got SIGTERM");
        holder.query("COMMIT").unwrap();
        for (number, waiter) in waiters.into_iter().enumerate() {
            assert_eq!(waiter.join().unwrap().unwrap(), Some(format!("waiter {number}")));
        }
    });
    drop(holder);
    assert_eq!(site.weir().wait_for_exit().code(), Some(0));
}

#[test]
fn a_second_term_ends_it_at_once() {
    let site = site();
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    site.weir().signal(Signal::SIGTERM);
    await_line(&site, "got SIGTERM");
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
    site.weir().signal(Signal::SIGTERM);
    site.weir().wait_for_exit();
    let transcript = until_quiet(&mut client, Duration::from_secs(20));
    assert_eq!(transcript.last().unwrap(), "Closed");
}

#[test]
fn int_waits_for_transactions_only() {
    let site = site();
    let mut busy = site.connect();
    let idle = site.connect();
    busy.query("BEGIN").unwrap();
    site.weir().signal(Signal::SIGINT);
    await_line(&site, "got SIGINT");
    assert_eq!(busy.value("SELECT 1").unwrap().as_deref(), Some("1"));
    busy.query("COMMIT").unwrap();
    assert_eq!(site.weir().wait_for_exit().code(), Some(0));
    drop(idle);
}

#[test]
fn quit_ends_it_at_once() {
    let site = site();
    let mut client = site.connect();
    client.query("BEGIN").unwrap();
    site.weir().signal(Signal::SIGQUIT);
    site.weir().wait_for_exit();
    let transcript = until_quiet(&mut client, Duration::from_secs(20));
    assert_eq!(transcript.last().unwrap(), "Closed");
}

#[test]
fn usr1_pauses_and_usr2_resumes() {
    let site = site();
    let mut client = site.connect();
    client.query("SELECT 1").unwrap();
    site.weir().signal(Signal::SIGUSR1);
    eventually("it is paused", || {
        let state = site.weir().show("STATE");
        let row = (0..state.rows.len()).find(|row| state.get(*row, "key") == Some("paused"));
        if row.and_then(|row| state.get(row, "value")) == Some("yes") { Ok(()) } else { Err(format!("{state:?}")) }
    });
    thread::scope(|scope| {
        let held = scope.spawn(|| client.value("SELECT 'resumed'"));
        site.weir().await_pool("it waits", |pool| pool.get("cl_waiting") == 1);
        site.weir().signal(Signal::SIGUSR2);
        assert_eq!(held.join().unwrap().unwrap().as_deref(), Some("resumed"));
    });
}

#[test]
fn who_reloads_is_told_which_settings_need_a_restart() {
    let site = site();
    let toml = setup(3).toml(site.database());
    let port = site.weir().port();
    site.weir().rewrite(&toml.replace("port = {port}\n", "port = 7\n"), &setup(3).userlist());
    let mut console = site.weir().console();
    assert_eq!(console.query("RELOAD").unwrap().tag, "RELOAD");
    let notices = console.take_notices();
    let [notice] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!(notice.message, "a restart is needed for what has changed in the file");
    let detail = format!("listen.port stays \"{port}\"; the file has \"7\"");
    assert_eq!(notice.detail.as_deref(), Some(&detail[..]));
    assert_eq!(shown(&site, "app", "pool_size").as_deref(), Some("3"), "the rest of the file is in force");

    site.weir().rewrite(&toml, &setup(3).userlist());
    assert_eq!(console.query("RELOAD").unwrap().tag, "RELOAD");
    assert!(console.take_notices().is_empty());
}

/// The log has a line with these words.
fn await_line(site: &Site, words: &str) {
    eventually(words, || {
        let log = site.weir().log();
        if log.contains(words) { Ok(()) } else { Err(log) }
    });
}
