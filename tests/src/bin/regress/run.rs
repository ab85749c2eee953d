//! One run of a suite: a server, a Weir in front of it, PostgreSQL's program, and its output by test.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use weir_pglocal::{Account, Auth, Options, Server, TempFolder};
use weir_tests::Weir;

use crate::listed::{self, Listed};
use crate::said;
use crate::suite::{Suite, Way};

/// Settings that the tests expect of their server. pg_regress also has psql request the last three at startup, so RESET
/// returns to them; in a pool RESET returns to the server's own values (docs/pooling.md).
const SETTINGS: [(&str, &str); 5] = [
    ("max_prepared_transactions", "5"),
    ("lc_messages", "C"),
    ("timezone", "America/Los_Angeles"),
    ("datestyle", "Postgres, MDY"),
    ("intervalstyle", "postgres_verbose"),
];

/// The database of the isolation tests.
const ISOLATION_DATABASE: &str = "isolation_regression";

/// isolationtester asks whether a session is blocked by the process ids that its connections were told. Through a pool
/// these are Weir's own, so `name_sessions.c` puts each into its session's `application_name`, by which this function
/// finds the session's server.
const BLOCKED_BY_NAME: [&str; 2] = [
    "ALTER FUNCTION pg_catalog.pg_isolation_test_session_is_blocked RENAME TO blocked_by_pid",
    "CREATE FUNCTION pg_catalog.pg_isolation_test_session_is_blocked(session int, others int[]) RETURNS bool \
     LANGUAGE sql AS $$ \
     WITH named AS MATERIALIZED (SELECT pid, split_part(application_name, '/', 1) AS told FROM pg_stat_activity \
     WHERE datname = current_database()) \
     SELECT coalesce(bool_or(pg_catalog.blocked_by_pid(pid, (SELECT array_agg(pid) FROM named \
     WHERE named.told = ANY (others::text[])))), false) FROM named WHERE named.told = session::text $$",
];

/// The results of one run.
pub(crate) struct Run {
    /// The output by test.
    pub(crate) outputs: BTreeMap<String, String>,
    /// How many passed, as the program prints it.
    pub(crate) summary: String,
    pub(crate) seconds: u64,
}

pub(crate) fn run(sources: &Path, suite: Suite, tests: &[String], way: Way) -> Result<Run, String> {
    let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let options = Options { max_connections: 60, settings, auth: Auth::Trust, ..Options::default() };
    let server = Server::start(options).map_err(|error| error.to_string())?;
    let folder = prepare(&sources.join(suite.folder()))?;
    if suite == Suite::Isolation {
        make_isolation_database(&server)?;
    }
    let weir = (way != Way::Direct).then(|| start_weir(&server, suite, way));
    let port = weir.as_ref().map_or(server.port(), Weir::port);
    println!("{suite}, {way}:");
    let began = Instant::now();
    let mut command = program(&server, suite, folder.path(), port)?;
    if tests.is_empty() {
        command.arg(format!("--schedule={}", schedule(folder.path(), suite, way)?.display()));
    } else {
        command.args(suite.first_test()).args(tests);
    }
    let output = command.output().map_err(|error| format!("{}: {error}", suite.program()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let summary = text.lines().find(|line| line.contains(" tests passed") || line.contains(" tests failed"));
    let summary = summary.map(|line| line.trim().trim_end_matches('.').to_owned()).ok_or_else(|| {
        format!("{} did not finish:\n{text}{}", suite.program(), String::from_utf8_lossy(&output.stderr))
    })?;
    println!("  {summary}");
    let outputs = outputs(folder.path())?;
    if let Some(weir) = &weir {
        weir.skip_final_checks();
    }
    Ok(Run { outputs, summary, seconds: began.elapsed().as_secs() })
}

/// A copy of the tests. The server's user can read it, and write its results into it.
fn prepare(sources: &Path) -> Result<TempFolder, String> {
    let folder = TempFolder::new().map_err(|error| error.to_string())?;
    let mut copy = Command::new("cp");
    let copied = copy.arg("-r").arg(sources.join(".")).arg(folder.path()).status().map_err(said(sources))?;
    if !copied.success() {
        return Err(format!("{} can't be copied", sources.display()));
    }
    let results = folder.path().join("results");
    fs::create_dir_all(&results).map_err(said(&results))?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).map_err(said(folder.path()))?;
    if let Some(account) = Account::to_drop_to().map_err(|error| error.to_string())? {
        chown(&results, Some(account.uid), Some(account.gid)).map_err(said(&results))?;
    }
    Ok(folder)
}

/// The suite's schedule, without the tests that can't be run this way.
fn schedule(folder: &Path, suite: Suite, way: Way) -> Result<PathBuf, String> {
    let path = folder.join(suite.schedule());
    let text = fs::read_to_string(&path).map_err(said(&path))?;
    let runs = |word: &&str| !matches!(listed::of(suite, way, word), Some(Listed { lines: None, .. }));
    let line = |line: &str| match line.strip_prefix("test:") {
        Some(tests) => {
            let tests: Vec<&str> = tests.split_whitespace().filter(runs).collect();
            if tests.is_empty() { String::new() } else { format!("test: {}\n", tests.join(" ")) }
        }
        None => format!("{line}\n"),
    };
    fs::write(&path, text.lines().map(line).collect::<String>()).map_err(said(&path))?;
    Ok(path)
}

fn make_isolation_database(server: &Server) -> Result<(), String> {
    let execute = |database: &str, sql: &str| server.execute(database, sql).map_err(|error| format!("{sql}: {error}"));
    execute("postgres", &format!("CREATE DATABASE {ISOLATION_DATABASE} TEMPLATE template0"))?;
    BLOCKED_BY_NAME.iter().try_for_each(|sql| execute(ISOLATION_DATABASE, sql))
}

fn start_weir(server: &Server, suite: Suite, way: Way) -> Weir {
    let ini = format!(
        "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nauth_type = trust\n\
         auth_file = {{folder}}/userlist.txt\nadmin_users = admin\npool_mode = {way}\n{}\n\
         [databases]\n* = host=127.0.0.1 port={}\n",
        suite.pool(way),
        server.port()
    );
    let users = format!("\"admin\" \"console secret\"\n\"{}\" \"\"\n", server.superuser());
    Weir::start_ini(&ini, &[("userlist.txt".to_owned(), users)])
}

/// The distribution's program; that of the regression tests creates its database itself.
fn program(server: &Server, suite: Suite, folder: &Path, port: u16) -> Result<Command, String> {
    let bin = server.programs().bin();
    let name = format!("src/test/{}/{}", suite.folder(), suite.program());
    let places = ["../lib/pgxs", "../lib/postgresql/pgxs"];
    let program = places.iter().map(|place| bin.join(place).join(&name)).find(|place| place.exists());
    let program = program.ok_or_else(|| format!("there is no {} beside {}", suite.program(), bin.display()))?;
    let mut command = Command::new(program);
    command
        .arg(format!("--bindir={}", bin.display()))
        .arg(format!("--inputdir={}", folder.display()))
        .arg(format!("--outputdir={}", folder.display()))
        .arg(format!("--dlpath={}", folder.display()))
        .arg(format!("--port={port}"))
        .arg(format!("--user={}", server.superuser()))
        .args(["--host=127.0.0.1", "--max-concurrent-tests=20", "--encoding=UTF8", "--no-locale"])
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    if suite == Suite::Isolation {
        command
            .args(["--use-existing", &format!("--dbname={ISOLATION_DATABASE}")])
            .env("PGISOLATIONTIMEOUT", "60")
            .env("LD_PRELOAD", folder.join("name_sessions.so"));
    }
    Ok(command)
}

/// The output by test, without the folder's own name, which some tests print.
fn outputs(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let own = folder.display().to_string();
    let folder = folder.join("results");
    let mut outputs = BTreeMap::new();
    for path in fs::read_dir(&folder).map_err(said(&folder))?.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "out") {
            let bytes = fs::read(&path).map_err(said(&path))?;
            outputs.insert(name, String::from_utf8_lossy(&bytes).replace(&own, "FOLDER"));
        }
    }
    Ok(outputs)
}
