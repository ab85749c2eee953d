//! `auth_type = hba`: the first matching line decides; the method of each type, and which lines are errors.

use std::process::Command;

use weir_tests::users;

use crate::harness::{Difference, Setup, Site, account, differ, prepared, same};

fn hba(lines: &str) -> Setup {
    let setup = Setup::new().set("auth_type", "hba").set("auth_hba_file", "{dir}/hba.conf").file("hba.conf", lines);
    setup.database("second", "").database("other", "")
}

/// Without a matching line, later versions report that; in 1.18 it looks as if a line rejected the client.
fn unmatched(fact: &'static str) -> Difference {
    let (old, new) = ("FATAL 08P01 login rejected", "FATAL 08P01 no authentication method is found");
    Difference::of(fact, old, new, "1.18 does not tell a missing line from one that rejects")
}

#[test]
fn each_method() {
    for method in ["trust", "md5", "scram-sha-256", "password", "reject"] {
        same(&hba(&format!("host all all 127.0.0.1/32 {method}\n")), |site, facts| {
            facts.login("right password", &site.params(users::APP, "app"));
            facts.login("wrong password", &site.params(users::APP, "app").password("x"));
            facts.login("an unknown user", &site.named("stranger", "app").password("x"));
            facts.login("another database", &site.params(users::APP, "nowhere"));
            let console = site.named("admin", "pgbouncer").password("console secret");
            facts.login("the console", &console);
        });
    }
}

#[test]
fn the_first_matching_line_decides() {
    let lines = "# comment\nhost second all 127.0.0.1/32 reject\nhost app,other app 127.0.0.1/32 trust\n\
                 host app other,md5er 127.0.0.1/32 reject # a comment at the end\nhost all all 127.0.0.1/32 md5\n";
    same(&hba(lines), |site, facts| {
        facts.login("second", &site.params(users::APP, "second"));
        facts.login("app as app", &site.params(users::APP, "app").password("x"));
        facts.login("other as app", &site.params(users::APP, "other").password("x"));
        facts.login("app as other", &site.params(users::OTHER, "app"));
        facts.login("other as other", &site.params(users::OTHER, "other"));
        facts.login("app as md5er", &site.params(users::MD5, "app"));
        facts.login("app as truster", &site.params(users::TRUSTED, "app"));
        facts.login("app as truster, wrong", &site.params(users::TRUSTED, "app").password("x"));
    });
}

#[test]
fn without_a_matching_line_no_client_is_accepted() {
    let nowhere = [
        "",
        "host all all 10.0.0.0/8 trust\n",
        "hostssl all all 0.0.0.0/0 trust\n",
        "host nowhere all 0.0.0.0/0 trust\n",
    ];
    for lines in nowhere {
        differ(&hba(lines), &[unmatched("TCP"), unmatched("socket")], |site, facts| {
            facts.login("TCP", &site.params(users::APP, "app"));
            facts.login("socket", &site.unix("app", "app"));
        });
    }
    differ(&hba("local all all trust\n"), &[unmatched("TCP")], |site, facts| {
        facts.login("TCP", &site.params(users::APP, "app"));
        facts.login("socket", &site.unix("app", "app"));
    });
}

#[test]
fn addresses_in_every_form() {
    same(&hba("host all all ::1/128 trust\nhost all all 127.0.0.1/32 reject\n"), |site, facts| {
        facts.login("of the other family", &site.named("app", "app"));
    });
    let all = Difference::of("all", "FATAL 08P01 login rejected", "welcome", "1.18 does not know the word");
    differ(&hba("host all all all trust\n"), &[all], |site, facts| {
        facts.login("all", &site.named("app", "app"));
    });
    for address in ["127.0.0.1/32", "127.0.0.0/8", "0.0.0.0/0", "127.0.0.1 255.255.255.255"] {
        same(&hba(&format!("host all all {address} trust\n")), |site, facts| {
            facts.login(address, &site.named("app", "app"));
        });
    }
}

#[test]
fn sameuser_and_files_of_names() {
    let lines = "host sameuser all 127.0.0.1/32 trust\nhost @names @names 127.0.0.1/32 trust\n\
                 host \"all\" all 127.0.0.1/32 trust\n";
    let setup = hba(lines).file("names", "second, md5er\n");
    differ(&setup, &[unmatched("app in other"), unmatched("app in second")], |site, facts| {
        facts.login("other in other", &site.named("other", "other"));
        facts.login("app in app", &site.named("app", "app"));
        facts.login("app in other", &site.named("app", "other"));
        facts.login("md5er in second", &site.named("md5er", "second"));
        facts.login("app in second", &site.named("app", "second"));
    });
}

#[test]
fn hostnossl_and_hostssl() {
    same(&hba("hostssl all all 127.0.0.1/32 reject\nhostnossl all all 127.0.0.1/32 trust\n"), |site, facts| {
        facts.login("plain", &site.named("app", "app"));
    });
}

#[test]
fn local_lines_and_peer() {
    let psql = |site: &Site, user: &str| {
        let mut psql = Command::new("psql");
        if let Some(account) = account() {
            account.run(&mut psql);
        }
        psql.args(["-X", "-A", "-t", "-w", "-h"]).arg(site.folder());
        psql.args(["-p", &site.port().to_string(), "-U", user, "-d", "app", "-c", "select 7"]);
        let output = site.finish(psql);
        let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        printed.trim().rsplit("FATAL:  ").next().unwrap_or_default().to_owned()
    };
    let own = account().map_or_else(|| "root".to_owned(), |account| account.name.clone());
    let setup = hba("local all app trust\nlocal all all peer\nhost all all 127.0.0.1/32 md5\n");
    let setup = setup.secret(&own, "x").database("app", "user=app");
    same(&setup, |site, facts| {
        facts.login("trust", &site.unix("app", "app"));
        facts.note("peer, its own name", psql(site, &own));
        facts.note("peer, another's name", psql(site, "other"));
        facts.login("peer, another process", &site.unix("other", "app"));
        facts.login("TCP", &site.params(users::APP, "app"));
    });
}

#[test]
fn a_line_that_cant_be_read_is_an_error_at_start() {
    let why = "1.18 skips the line, which may admit a client that the line was to reject";
    for line in [
        "hosts all all 127.0.0.1/32 trust",
        "host all all 300.0.0.1/32 trust",
        "host all all 127.0.0.1/99 trust",
        "host all all 127.0.0.1/32 kerberos",
        "host all all",
    ] {
        let lines = format!("{line}\nhost all app 127.0.0.1/32 md5\n");
        prepared(&hba(&lines), &[Difference::of("starts", "true", "false", why)], |site, facts| {
            site.run();
            facts.note("starts", site.listens());
        });
    }
}
