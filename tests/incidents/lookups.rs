//! Secrets from the server (auth_query): no client's SQL runs in the lookup, and expiry dates are checked.

use weir_pgclient::{ConnectParams, Connection, Error};
use weir_tests::{Ini, Mode, PgBouncer, Postgres, Setup, Site, User, users};

use crate::report::Report;

/// The role of the lookup; a superuser, as it reads pg_authid.
const ASKER: User = User { name: "asker", password: "asks for others", method: "scram-sha-256" };

/// PgBouncer's default query: names without their schema.
const UNQUALIFIED: &str = "SELECT usename, passwd FROM pg_shadow WHERE usename = $1";

fn postgres() -> Postgres {
    let postgres = Postgres::private();
    let sql = format!("CREATE ROLE {} LOGIN SUPERUSER PASSWORD '{}'", ASKER.name, ASKER.password);
    postgres.superuser("postgres").query(&sql).unwrap();
    postgres
}

/// Objects that a lookup would use instead of PostgreSQL's own if this schema came first. Each of them advances a
/// sequence when it runs, which no rollback undoes.
const TRAP: &str = "
    CREATE SCHEMA evil;
    CREATE SEQUENCE evil.sprung;
    CREATE FUNCTION evil.spring(name, text) RETURNS bool LANGUAGE sql AS 'SELECT nextval(''evil.sprung'') > 0';
    CREATE FUNCTION evil.spring(name, name) RETURNS bool LANGUAGE sql AS 'SELECT nextval(''evil.sprung'') > 0';
    CREATE FUNCTION evil.spring(timestamptz, timestamptz) RETURNS bool
        LANGUAGE sql AS 'SELECT nextval(''evil.sprung'') < 0';
    CREATE OPERATOR evil.= (FUNCTION = evil.spring, LEFTARG = name, RIGHTARG = text);
    CREATE OPERATOR evil.= (FUNCTION = evil.spring, LEFTARG = name, RIGHTARG = name);
    CREATE OPERATOR evil.< (FUNCTION = evil.spring, LEFTARG = timestamptz, RIGHTARG = timestamptz);
    CREATE FUNCTION evil.now() RETURNS timestamptz
        LANGUAGE sql AS 'SELECT ''-infinity''::timestamptz + nextval(''evil.sprung'') * ''0s''::interval';
    CREATE VIEW evil.pg_shadow AS
        SELECT usename, 'evil'::text AS passwd FROM pg_catalog.pg_shadow WHERE nextval('evil.sprung') > 0;
    CREATE VIEW evil.pg_authid AS
        SELECT rolname, 'evil'::text AS rolpassword, true AS rolcanlogin, NULL::timestamptz AS rolvaliduntil
        FROM pg_catalog.pg_authid WHERE nextval('evil.sprung') > 0;
    GRANT USAGE ON SCHEMA evil TO PUBLIC; GRANT ALL ON ALL TABLES IN SCHEMA evil TO PUBLIC;
    GRANT ALL ON ALL SEQUENCES IN SCHEMA evil TO PUBLIC";

/// Whether any object of the trap has ever run.
fn has_run(superuser: &mut Connection) -> bool {
    superuser.value("SELECT is_called FROM evil.sprung").unwrap().as_deref() == Some("t")
}

/// Startup parameters by which an unauthenticated client might get SQL to run in the lookup of its secret.
fn hostile(params: &ConnectParams) -> Vec<ConnectParams> {
    let path = "evil, pg_catalog";
    let mut all: Vec<_> = ["search_path", "SEARCH_PATH", "\"search_path\"", "_pq_.search_path"]
        .iter()
        .map(|name| params.clone().option(name, path))
        .collect();
    for options in
        ["-c search_path=evil,pg_catalog", "--search_path=evil,pg_catalog", "-csearch_path=evil -c role=asker"]
    {
        all.push(params.clone().option("options", options));
    }
    let inject = "x'; SELECT evil.now(); SET search_path = evil; --";
    for name in ["application_name", "client_encoding", "DateStyle", "TimeZone", "IntervalStyle", "lc_messages", "role"]
    {
        all.push(params.clone().option(name, inject));
    }
    for name in ["app'; SELECT evil.now(); --", "app\" OR evil.now() IS NOT NULL --", "$1", "%s", "app\\'"] {
        let mut other = params.clone();
        name.clone_into(&mut other.user);
        all.push(other);
    }
    all
}

/// Logs in as unknown users with wrong passwords and all hostile parameters.
fn try_hostile_logins(params: impl Fn(&str) -> ConnectParams) -> usize {
    let mut tried = 0;
    for user in [users::APP.name, "nobody", ASKER.name] {
        for params in hostile(&params(user)) {
            tried += 1;
            match Connection::connect(&params.password("evil")) {
                Ok(_) => panic!("{user} was logged in"),
                Err(error) => assert!(!matches!(error, Error::Timeout), "{user}: {error}"),
            }
        }
    }
    tried
}

/// A Weir that looks secrets up as the asker, which can read all, and keeps the hostile parameters for its clients.
fn asking(postgres: &Postgres, query: Option<&str>) -> Site {
    let setup = Setup::new(Mode::Transaction).auth("scram-sha-256").no_server_user();
    let setup =
        users::ALL.iter().fold(setup, |setup, user| setup.without(user.name)).secret(ASKER.name, ASKER.password);
    let setup = setup.pool(&format!("auth_user = \"{}\"", ASKER.name)).auth_line("failure_delay = 0");
    let setup = setup.general("track_extra_parameters = [\"search_path\", \"IntervalStyle\", \"role\"]");
    let setup = query.iter().fold(setup, |setup, query| setup.auth_line(&format!("query = \"{query}\"")));
    Site::on(postgres, setup, Mode::Transaction)
}

/// Unauthenticated clients name a search path, in every way there is, in which functions, operators and views come
/// before PostgreSQL's own; and they put SQL into every other value that they can send before the login. The lookup of
/// their secret, which runs as a superuser, never runs any of it: neither in Weir's own query, nor in one that an
/// operator wrote without schemas. A session that does set that path shows that the trap works.
#[test]
fn no_sql_of_a_client_runs_before_its_login() {
    let report = Report::begin();
    let postgres = postgres();
    let mut tried = 0;
    for query in [None, Some(UNQUALIFIED)] {
        let site = asking(&postgres, query);
        site.superuser().query_all(TRAP).unwrap();
        tried += try_hostile_logins(|user| site.weir().params(user, "app"));
        assert!(!has_run(&mut site.superuser()), "SQL of the trap ran before the login");
        // A known user logs in with the same path, which then applies to its own session.
        let known = site.params().option("search_path", "evil, pg_catalog");
        let mut client = Connection::connect(&known).unwrap_or_else(|error| panic!("{query:?}: {error}"));
        assert_eq!(client.value("SELECT current_user::text").unwrap().as_deref(), Some("app"));
        assert!(!has_run(&mut site.superuser()), "SQL of the trap ran during the login");
        client.query(&UNQUALIFIED.replace("$1", "'app'")).unwrap();
        assert!(has_run(&mut site.superuser()), "the trap itself does not work");
    }
    report.figure(format!("{tried} hostile logins, nothing ran"));
}

/// A trap on the search path of the asking role itself, as a careless `ALTER ROLE` sets it. Weir's own query qualifies
/// all names; that of PgBouncer 1.18 runs the trap.
#[test]
fn a_search_path_of_the_asking_role_changes_no_lookup() {
    let report = Report::begin();
    let postgres = postgres();
    let site = asking(&postgres, None);
    let path = format!("ALTER ROLE {} SET search_path = evil, pg_catalog", ASKER.name);
    site.superuser().query_all(&format!("{TRAP}; {path}")).unwrap();
    let tried = try_hostile_logins(|user| site.weir().params(user, "app"));
    let mut client = site.connect();
    assert_eq!(client.value("SELECT current_user::text").unwrap().as_deref(), Some("app"));
    assert!(!has_run(&mut site.superuser()), "Weir was deceived");
    report.figure(format!("{tried} hostile logins, nothing ran"));

    let database = site.database();
    let ini = Ini::transaction(1).set("auth_user", ASKER.name).without(users::APP.name);
    if let Some(pgbouncer) = PgBouncer::start(&ini.secret(ASKER.name, ASKER.password), database) {
        let _ = Connection::connect(&pgbouncer.params(users::APP));
        assert!(has_run(&mut database.superuser()), "PgBouncer did not run the trap, so the trap proves nothing");
        report.figure("PgBouncer 1.18 runs the trap");
    }
}

/// A password whose VALID UNTIL has passed is refused, by every method, although the pool's own login to the server
/// would succeed; a password that is still valid is accepted. PgBouncer with its older query, which requests the
/// password alone, accepts both.
#[test]
fn an_expired_password_is_refused() {
    let report = Report::begin();
    let postgres = postgres();
    let mut superuser = postgres.superuser("postgres");
    for (encryption, suffix) in [("md5", "md5"), ("scram-sha-256", "scram")] {
        for (name, until) in
            [("late", "2001-01-01"), ("now", "2999-01-01"), ("ever", "infinity"), ("past", "-infinity")]
        {
            let sql = format!(
                "SET password_encryption = '{encryption}'; \
                 CREATE ROLE {name}_{suffix} LOGIN PASSWORD 'its password' VALID UNTIL '{until}'"
            );
            superuser.query_all(&sql).unwrap();
        }
    }
    let try_with = |params: ConnectParams| Connection::connect(&params.password("its password")).map(drop);
    let mut refused = 0;
    for (auth, kinds) in [("plain", &["md5", "scram"][..]), ("md5", &["md5", "scram"]), ("scram-sha-256", &["scram"])] {
        let setup = Setup::new(Mode::Transaction).auth(auth).auth_line("failure_delay = 0");
        let setup = setup.secret(ASKER.name, ASKER.password).pool(&format!("auth_user = \"{}\"", ASKER.name));
        let site = Site::on(&postgres, setup, Mode::Transaction);
        for kind in kinds {
            for name in ["late", "past"] {
                let error = try_with(site.weir().params(&format!("{name}_{kind}"), "app"));
                let error = error.expect_err("the password has expired");
                assert_eq!(error.sqlstate(), Some("28P01"), "{auth}: {name}_{kind}: {error}");
                refused += 1;
            }
            for name in ["now", "ever"] {
                let entered = try_with(site.weir().params(&format!("{name}_{kind}"), "app"));
                entered.unwrap_or_else(|error| panic!("{auth}: {name}_{kind}: {error}"));
            }
        }
    }
    report.figure(format!("{refused} expired logins refused"));

    let database = postgres.database();
    let ini = Ini::transaction(1).forced(users::APP).set("auth_user", ASKER.name);
    let ini = ini.set("auth_query", UNQUALIFIED);
    if let Some(pgbouncer) = PgBouncer::start(&ini.secret(ASKER.name, ASKER.password), &database) {
        let entered = try_with(pgbouncer.named("late_md5", "app"));
        entered.expect("PgBouncer's older query reads no date, so the check can fail");
        report.figure("PgBouncer with its older query accepts expired passwords");
    }
}
