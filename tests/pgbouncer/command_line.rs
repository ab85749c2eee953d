//! PgBouncer's command line: flags, exit statuses, the background, the pidfile.

use std::fs;
use std::process::{Command, Output};

use weir_pglocal::{Signal, send_signal};
use weir_tests::eventually;

use crate::harness::{Difference, Facts, Setup, Site, account, prepared};

fn run(site: &Site, words: &[&str]) -> Output {
    let mut command = site.pooler().command();
    command.args(words.iter().map(|word| site.fill(word)));
    site.finish(command)
}

/// The exit status, and which streams have output.
fn outcome(output: &Output) -> String {
    let amount = |bytes: &[u8]| if bytes.is_empty() { "nothing" } else { "something" };
    let code = output.status.code().map_or("none".to_owned(), |code| code.to_string());
    format!("{code}, stdout: {}, stderr: {}", amount(&output.stdout), amount(&output.stderr))
}

/// The process id in the pidfile, once it exists.
fn pid_of(site: &Site) -> u32 {
    eventually("the pidfile", || fs::read_to_string(site.path("pgbouncer.pid")).unwrap_or_default().trim().parse())
}

fn listens(facts: &mut Facts, name: &str, site: &Site) {
    facts.note(name, site.listens());
}

#[test]
fn version_and_help() {
    prepared(&Setup::new(), &[], |site, facts| {
        for flag in ["-V", "--version", "-h", "--help"] {
            facts.note(flag, outcome(&run(site, &[flag])));
        }
        facts.note("version with a file", outcome(&run(site, &["-V", "{dir}/pgbouncer.ini"])));
    });
}

#[test]
fn wrong_command_lines() {
    prepared(&Setup::new(), &[], |site, facts| {
        for words in [
            &[][..],
            &["--nonsense"],
            &["-x", "{dir}/pgbouncer.ini"],
            &["{dir}/missing.ini"],
            &["{dir}/pgbouncer.ini", "{dir}/pgbouncer.ini"],
            &["-u"],
            &["-u", "no-such-user", "{dir}/pgbouncer.ini"],
        ] {
            facts.note(&words.join(" "), outcome(&run(site, words)).split(',').next().unwrap_or_default().to_owned());
        }
    });
}

#[test]
fn quiet_prints_nothing_on_the_terminal() {
    for flag in ["-q", "--quiet"] {
        prepared(&Setup::new().flag(flag), &[], |site, facts| {
            site.run();
            listens(facts, "listens", site);
            eventually("the log", || if site.log().contains("process up") { Ok(()) } else { Err(site.log()) });
            facts.note("the terminal", fs::read_to_string(site.path("output")).unwrap_or_default());
        });
    }
}

#[test]
fn without_a_flag_the_terminal_has_the_log_too() {
    prepared(&Setup::new(), &[], |site, facts| {
        site.run();
        listens(facts, "listens", site);
        let terminal = || fs::read_to_string(site.path("output")).unwrap_or_default();
        let says = |text: String| if text.contains("process up") { Ok(()) } else { Err(text) };
        eventually("the terminal shows the log", || says(terminal()));
        eventually("the log file has it", || says(site.log()));
    });
}

#[test]
fn verbose_logs_more() {
    for flags in [&["-v"][..], &["-v", "-v"], &["-vv"], &["--verbose"]] {
        let setup = flags.iter().fold(Setup::new(), |setup, flag| setup.flag(flag));
        prepared(&setup, &[], |site, facts| {
            site.run();
            listens(facts, "listens", site);
            facts.note("verbose", site.config("verbose"));
        });
    }
}

#[test]
fn in_the_background() {
    for flag in ["-d", "--daemon"] {
        prepared(&Setup::new().flag(flag), &[], |site, facts| {
            site.run();
            facts.note(
                "the foreground ends",
                site.await_exit().code().map_or("none".to_owned(), |code| code.to_string()),
            );
            let pid = pid_of(site);
            eventually("it listens", || std::net::TcpStream::connect(("127.0.0.1", site.port())));
            facts.login("it serves", &site.params(weir_tests::users::APP, "app"));
            facts.note("a session of its own", leads_its_session(pid));
            facts.note("the terminal", fs::read_to_string(site.path("output")).unwrap_or_default());
            send_signal(pid, Signal::SIGINT);
            eventually(
                "it has ended",
                || if site.path("pgbouncer.pid").exists() { Err("still there") } else { Ok(()) },
            );
            facts.note("afterwards", std::net::TcpStream::connect(("127.0.0.1", site.port())).is_ok());
        });
    }
}

/// Whether a process has no terminal, and a session whose leader is not one of our processes.
fn leads_its_session(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let session = after_name.split_whitespace().nth(3).and_then(|text| text.parse::<u32>().ok());
    let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let own =
        own.rsplit(')').next().unwrap_or_default().split_whitespace().nth(3).and_then(|text| text.parse::<u32>().ok());
    session.is_some() && session != own
}

#[test]
fn the_background_wants_a_pidfile_and_a_log() {
    prepared(&Setup::new().unset("pidfile").flag("-d"), &[], |site, facts| {
        site.run();
        facts.note("no pidfile", site.await_exit().code().map_or("none".to_owned(), |code| code.to_string()));
    });
    let why = "its documentation forbids what 1.18 then allows: to run without any log";
    let differences = [Difference::of("no log", "0", "1", why)];
    prepared(&Setup::new().unset("logfile").flag("-d"), &differences, |site, facts| {
        site.run();
        facts.note("no log", site.await_exit().code().map_or("none".to_owned(), |code| code.to_string()));
    });
}

#[test]
fn a_pidfile_of_a_running_process_is_respected() {
    prepared(&Setup::new(), &[], |site, facts| {
        site.run();
        listens(facts, "listens", site);
        facts.note("its pidfile", pid_of(site) == site.pid());
        facts.note("a second one", outcome(&run(site, &["{dir}/pgbouncer.ini"])).starts_with('1'));
        facts.login("the first continues", &site.params(weir_tests::users::APP, "app"));
    });
    prepared(&Setup::new(), &[], |site, facts| {
        site.write("pgbouncer.pid", "999999999\n");
        site.run();
        listens(facts, "a stale one is replaced", site);
        facts.note("by its own", pid_of(site) == site.pid());
    });
}

#[test]
fn as_another_user() {
    let Some(account) = account() else { return };
    prepared(&Setup::new(), &[], |site, facts| {
        let mut command: Command = site.pooler().command_as_is();
        command.args(["-u", &account.name]).arg(site.path("pgbouncer.ini"));
        site.spawn(command);
        listens(facts, "listens", site);
        let status = fs::read_to_string(format!("/proc/{}/status", site.pid())).unwrap_or_default();
        let of = |field: &str| {
            status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default().trim().to_owned()
        };
        let ids = |id: u32| [id; 4].map(|id| id.to_string()).join("\t");
        facts.note("user", of("Uid:") == ids(account.uid));
        facts.note("group", of("Gid:") == ids(account.gid));
    });
    prepared(&Setup::new().set("user", &account.name), &[], |site, facts| {
        let mut command = site.pooler().command_as_is();
        command.arg(site.path("pgbouncer.ini"));
        site.spawn(command);
        listens(facts, "the setting does it too", site);
    });
}

#[test]
fn a_port_that_is_taken() {
    let why = "1.18 continues with its Unix socket alone, and only logs it";
    prepared(&Setup::new(), &[Difference::of("status", "none", "1", why)], |site, facts| {
        let _taken = std::net::TcpListener::bind(("127.0.0.1", site.port())).expect("it is free");
        let output = run(site, &["{dir}/pgbouncer.ini"]);
        facts.note("status", outcome(&output).split(',').next().unwrap_or_default().to_owned());
    });
}
