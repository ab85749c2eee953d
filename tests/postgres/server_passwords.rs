//! Passwords of a pool's logins at its servers that change while Weir runs: a new one replaces no server, and a program
//! may print them.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use weir_pgclient::Connection;
use weir_tests::{Mode, Postgres, Setup, Site, eventually, users, weir_binary};

/// A private server, and a Weir with a pool `rotated` of two servers that logs in there as `users::APP`.
struct Stage {
    server: Postgres,
    site: Site,
}

impl Stage {
    /// `keys`: how the pool gets the password; `files` beside the settings.
    fn new(keys: &str, files: &[(&str, &str)]) -> Stage {
        let server = Postgres::private();
        let pool = format!(
            "[pools.rotated]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"postgres\"\nuser = \"{}\"\nsize = 2\n{keys}\n",
            server.port(),
            users::APP.name
        );
        let setup = Setup::new(Mode::Transaction).more(&format!("[process]\nwatch_files = \"off\"\n{pool}"));
        let setup = files.iter().fold(setup, |setup, (name, text)| setup.file(name, text));
        let site = Site::on(&server, setup, Mode::Transaction);
        let stage = Stage { server, site };
        stage.on_server("first");
        stage
    }

    /// From now on the server wants this password.
    fn on_server(&self, password: &str) {
        let sql = format!("ALTER ROLE \"{}\" PASSWORD '{password}'", users::APP.name);
        self.server.superuser("postgres").query(&sql).unwrap();
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.site.weir().folder().join(file), text).unwrap();
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.site.weir().folder().join(file)).unwrap_or_default()
    }

    fn connect(&self) -> Result<Connection, weir_pgclient::Error> {
        let params = self.site.weir().params(users::APP.name, "rotated");
        Connection::connect(&params.password(users::APP.password))
    }

    /// The processes of the pool's servers.
    fn processes(&self) -> BTreeSet<String> {
        let servers = self.site.weir().show("SERVERS");
        let of_pool = (0..servers.rows.len()).filter(|row| servers.get(*row, "database") == Some("rotated"));
        of_pool.filter_map(|row| servers.get(row, "remote_pid").map(str::to_owned)).collect()
    }

    fn reconnect(&self) {
        self.site.weir().command("RECONNECT rotated").unwrap();
        eventually("no server is left", || match self.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        });
    }
}

fn process(client: &mut Connection) -> String {
    client.value("SELECT pg_backend_pid()::text").unwrap().unwrap()
}

#[test]
fn a_rotated_password_replaces_no_server_and_the_next_login_uses_it() {
    let stage = Stage::new("password_file = \"secret\"", &[("secret", "first\n")]);
    let (mut one, mut other) = (stage.connect().unwrap(), stage.connect().unwrap());
    one.query("BEGIN").unwrap();
    let pids = BTreeSet::from([process(&mut one), process(&mut other)]);
    assert_eq!((pids.len(), &stage.processes()), (2, &pids));
    stage.on_server("second");
    stage.write("secret", "second\n");
    stage.site.weir().command("RELOAD").unwrap();
    assert!(pids.contains(&process(&mut other)));
    one.query("COMMIT").unwrap();
    assert!(pids.contains(&process(&mut one)));
    assert_eq!(stage.processes(), pids);
    stage.reconnect();
    assert!(!pids.contains(&process(&mut one)), "a new server has logged in with the new password");
}

#[test]
fn a_login_that_failed_is_tried_again_with_the_new_password() {
    let stage = Stage::new("password_file = \"secret\"", &[("secret", "of yesterday\n")]);
    let refused = |client: &mut Connection| client.query("SELECT 1").expect_err("the password is wrong");
    let error = stage.connect().map_or_else(|error| error, |mut client| refused(&mut client));
    assert_eq!(error.sqlstate(), Some("28P01"), "{error}");
    stage.write("secret", "first\n");
    stage.site.weir().command("RELOAD").unwrap();
    stage.connect().unwrap().query("SELECT 1").unwrap();
}

/// What prints the file `token`, and counts that in the file `runs`.
const PRINTS: &str = "password_command = [\"/bin/sh\", \"-c\", \"echo x >>{folder}/runs; cat {folder}/token\"]\n\
     password_command_lifetime = \"1h\"";

#[test]
fn what_a_program_prints_is_the_password_until_the_server_refuses_it() {
    let stage = Stage::new(PRINTS, &[("token", "first\n")]);
    let runs = || stage.read("runs").lines().count();
    let mut clients: Vec<Connection> = (0..4).map(|_| stage.connect().unwrap()).collect();
    clients.iter_mut().for_each(|client| drop(process(client)));
    stage.reconnect();
    clients.iter_mut().for_each(|client| drop(process(client)));
    assert_eq!(runs(), 1, "logins within its lifetime use the same one");
    // It expires, while clients go on.
    stage.on_server("second");
    stage.write("token", "second\n");
    clients.iter_mut().for_each(|client| drop(process(client)));
    assert_eq!(runs(), 1, "servers that are logged in stay");
    stage.reconnect();
    clients.iter_mut().for_each(|client| drop(process(client)));
    assert_eq!(runs(), 2, "no client has seen that the old one was refused");
    let log = stage.site.weir().log();
    assert!(!log.contains("first") && !log.contains("second"), "{log}");
}

#[test]
fn a_program_that_fails_or_hangs_is_an_error_with_its_reason_for_its_pool_alone() {
    let fails = "password_command = [\"/bin/sh\", \"-c\", \"echo hush; echo the token service is away >&2; exit 3\"]";
    let hangs = "password_command = [\"/bin/sleep\", \"1000\"]\npassword_command_timeout = \"1s\"";
    for (keys, why) in [
        (fails, "password_command failed: /bin/sh ended with exit status: 3: the token service is away"),
        (hangs, "password_command failed: /bin/sleep did not end within 1 s"),
    ] {
        let stage = Stage::new(keys, &[]);
        // The console is served by the same worker.
        let mut asked = Connection::connect(&stage.site.weir().console_params()).unwrap();
        let error = stage
            .connect()
            .map_or_else(|error| error, |mut client| client.query("SELECT 1").expect_err("there is no password"));
        asked.query("SHOW VERSION").unwrap();
        assert!(error.to_string().contains(why), "{error}");
        assert!(!stage.site.weir().log().contains("hush"), "the output is in no log");
        let file = stage.site.weir().folder().join("weir.toml");
        let checked = Command::new(weir_binary()).args(["check", "--connect"]).arg(file).output().unwrap();
        let text = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(text.contains(why) && !checked.status.success(), "{text}");
    }
}

#[test]
fn a_check_logs_in_with_what_the_program_prints() {
    let stage = Stage::new(PRINTS, &[("token", "first\n")]);
    let file = stage.site.weir().folder().join("weir.toml");
    let checked = Command::new(weir_binary()).args(["check", "--connect"]).arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(text.contains("rotated") && !text.contains("password_command"), "{text}");
    assert_eq!(stage.read("runs").lines().count(), 1);
}
