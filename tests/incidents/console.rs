//! The console permits each role's commands, and nothing more.

use std::process::Command;

use weir_pgclient::{ConnectParams, Connection, Error};
use weir_tests::{ADMIN, Mode, Setup, Site, WATCHER, account, users};

use crate::report::Report;

/// The role of a console client.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Role {
    /// Of `admin_users`.
    Admin,
    /// Of `stats_users`.
    Stats,
    /// A client of the pools, with its correct password.
    Client,
    /// An administrator's name, with a wrong password.
    WrongPassword,
    /// An unknown user.
    Unknown,
}

const ROLES: [Role; 5] = [Role::Admin, Role::Stats, Role::Client, Role::WrongPassword, Role::Unknown];

impl Role {
    fn params(self, site: &Site, console: &str) -> ConnectParams {
        let (user, password) = match self {
            Role::Admin => ADMIN,
            Role::Stats => WATCHER,
            Role::Client => (users::APP.name, users::APP.password),
            Role::WrongPassword => (ADMIN.0, "wrong"),
            Role::Unknown => ("nobody", ""),
        };
        site.weir().params(user, console).password(password)
    }
}

/// The console's commands, in every form that its own help names, with placeholders filled in.
fn commands(site: &Site) -> Vec<String> {
    let mut console = site.weir().console();
    console.query("SHOW HELP").unwrap();
    let help = console.take_notices().pop().expect("the help is a notice").detail.expect("its detail is the list");
    let mut all = Vec::new();
    // The last line is a remark.
    for line in help.split("\n\t").filter(|line| !line.trim().is_empty() && !line.starts_with("SELECT")) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut forms = rest.split('|').map(|choice| format!("{verb} {choice}")).collect::<Vec<_>>();
        if rest.contains('[') || verb == "SHUTDOWN" {
            forms.push(verb.to_owned());
        }
        all.extend(forms.into_iter().map(|form| {
            let form = form
                .replace("[<db>]", "app")
                .replace("<db>", "app")
                .replace("<client_id>", "1")
                .replace("<host>", "127.0.0.1");
            let form = form.replace("[<seconds>]", "60");
            form.replace("key = arg", "query_timeout = 1").trim().to_owned()
        }));
    }
    // All commands again, in unusual spellings.
    let odd = |command: &String| format!("/* select */ {};;", command.to_lowercase());
    let odd: Vec<_> = all.iter().map(odd).collect();
    all.sort();
    all.dedup();
    all.into_iter().chain(odd).collect()
}

fn is_look(command: &str) -> bool {
    let plain = command.trim_start_matches("/* select */ ").to_ascii_lowercase();
    (plain.starts_with("show") || plain.starts_with("select")) && !plain.contains("fds")
}

/// The state that commands without the right must not change.
fn state(site: &Site) -> (Vec<String>, Vec<Option<String>>) {
    let column = |table: &str, name: &str| {
        let answer = site.weir().show(table);
        (0..answer.rows.len()).map(|row| answer.get(row, name).map(str::to_owned)).collect::<Vec<_>>()
    };
    let values = column("CONFIG", "value").into_iter().flatten().collect();
    (values, [column("DATABASES", "paused"), column("DATABASES", "disabled"), column("STATE", "value")].concat())
}

/// Every role sends every command of the console's own help, with both names of the console's database: an
/// administrator may run all, a stats user gets an error for all but SHOW commands, and all other clients can't log in.
/// A refused command has changed nothing.
#[test]
fn each_role_may_give_its_own_commands_and_no_others() {
    let report = Report::begin();
    let site = Site::with(
        Setup::new(Mode::Transaction).size(1).auth_line("failure_delay = 0").console_by_socket(),
        Mode::Transaction,
    );
    let commands = commands(&site);
    assert!(commands.len() > 60, "{commands:?}");
    let mut held = site.connect();
    held.query("BEGIN").unwrap();
    let before = state(&site);
    let mut tried = 0;
    for role in ROLES.into_iter().filter(|role| *role != Role::Admin) {
        for console in ["weir", "pgbouncer"] {
            for command in &commands {
                tried += 1;
                let outcome = Connection::connect(&role.params(&site, console)).and_then(|mut it| it.query(command));
                match (role, outcome) {
                    (Role::Stats, Ok(_)) => assert!(is_look(command), "{role:?} may {command}"),
                    (Role::Stats, Err(Error::Server(reported))) => {
                        assert!(!is_look(command), "{role:?} may not {command}: {}", reported.message);
                        assert_eq!(reported.message, "admin access needed", "{command}");
                    }
                    (_, Err(Error::Server(reported))) => {
                        assert_eq!(reported.severity, "FATAL", "{role:?}: {}", reported.message)
                    }
                    (_, outcome) => panic!("{role:?}: {command}: {outcome:?}"),
                }
            }
        }
    }
    assert_eq!(state(&site), before, "a command without the right has changed something");
    assert_eq!(held.value("SELECT 'still here'").unwrap().as_deref(), Some("still here"));
    held.query("COMMIT").unwrap();
    report.figure(format!("{tried} commands without the right, none executed"));
}

/// No command of an administrator fails for lack of rights: the other half of the table.
#[test]
fn an_administrator_may_give_every_command() {
    let report = Report::begin();
    let site = Site::with(Setup::new(Mode::Transaction).size(1), Mode::Transaction);
    let commands = commands(&site);
    let count = commands.len();
    for command in &commands {
        if command.to_ascii_uppercase().contains("SHUTDOWN") {
            continue;
        }
        let outcome = site.weir().console().query(command);
        if let Err(error) = outcome {
            let reported = error.server().unwrap_or_else(|| panic!("{command}: {error}"));
            assert_ne!(reported.message, "admin access needed", "{command}");
        }
        let _ = site.weir().command("RESUME");
        let _ = site.weir().command("RESUME app");
    }
    site.weir().command("ENABLE app").unwrap();
    assert_eq!(site.connect().value("SELECT 1").unwrap().as_deref(), Some("1"));
    let _ = site.weir().console().query("SHUTDOWN");
    assert!(site.weir().wait_for_exit().success());
    report.figure(format!("{count} commands of an administrator, none refused for lack of rights"));
}

/// By the Unix socket the owner of the process administers it without a password; another user of the machine does not.
#[test]
fn another_user_of_the_machine_is_not_the_owner_of_the_process() {
    let report = Report::begin();
    let setup = Setup::new(Mode::Transaction).listen("unix_socket_mode = \"0777\"").console_by_socket();
    let site = Site::with(setup, Mode::Transaction);
    assert!(site.weir().command("SHOW VERSION").is_ok(), "the owner");
    // Only root can become another user.
    let Some(account) = account() else { return };
    let folder = site.weir().folder();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder, open).expect("our own folder");
    for name in ["weir", "pgbouncer"] {
        let mut psql = Command::new("psql");
        let place = format!("host={} port={} user=pgbouncer dbname={name}", folder.display(), site.weir().port());
        psql.args(["-X", "-w", "-c", "SHUTDOWN", &place]).env("HOME", "/");
        account.run(&mut psql);
        let output = psql.output().expect("psql runs");
        assert!(!output.status.success(), "{output:?}");
    }
    assert!(site.weir().exited().is_none());
    report.figure("another user of the machine is refused");
}
