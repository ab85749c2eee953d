//! PostgreSQL's own regression tests, once directly and once through Weir in session mode: the outputs must be equal.
//!
//! `regress FOLDER [TEST…]`: the folder is `src/test/regress` of PostgreSQL's sources, with `regress.so` built in it
//! (`tests/regress/run.sh` makes one). Each run has a new server. The output of psql in one run is compared with its
//! output in the other run, not with the files of expected output: where the distribution's server prints something
//! else, it does so in both runs. `tests/regress/differences.txt` names the tests that must differ, and why.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use weir_pglocal::{Account, Auth, Options, Server, TempFolder};
use weir_tests::Weir;

/// Servers for the twenty clients of the largest group, and for psql's reconnects.
const POOL: u32 = 24;

/// Settings that the tests expect of their server. pg_regress also has psql request the last three at startup, so RESET
/// returns to them; in a pool RESET returns to the server's own values (docs/pooling.md).
const SETTINGS: [(&str, &str); 5] = [
    ("max_prepared_transactions", "2"),
    ("lc_messages", "C"),
    ("timezone", "America/Los_Angeles"),
    ("datestyle", "Postgres, MDY"),
    ("intervalstyle", "postgres_verbose"),
];

const DIFFERENCES: &str = include_str!("../../../regress/differences.txt");

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(sources) = arguments.next().map(PathBuf::from) else {
        eprintln!(
            "usage: regress FOLDER [TEST…]\n  FOLDER is src/test/regress of PostgreSQL's sources; try `make regress`"
        );
        return ExitCode::from(2);
    };
    let chosen: Vec<String> = arguments.collect();
    match compare(&sources, &chosen) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("regress: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs both ways, and prints the differences.
fn compare(sources: &Path, chosen: &[String]) -> Result<bool, String> {
    let direct = run(sources, chosen, Way::Direct)?;
    let pooled = run(sources, chosen, Way::Pooled)?;
    let known = known_differences();
    let mut wrong = 0;
    let mut lines = 0;
    for (test, expected) in &direct.outputs {
        lines += expected.lines().count();
        let found = pooled.outputs.get(test).map_or("", String::as_str);
        match (found == expected, known.get(test.as_str())) {
            (true, None) => {}
            (true, Some(_)) => println!("{test} is listed as different, but is the same"),
            (false, Some(why)) => println!("{test} differs, as expected: {why}"),
            (false, None) => {
                wrong += 1;
                println!("{test} differs:\n{}", difference(expected, found));
            }
        }
    }
    println!(
        "regress: {} tests, {lines} lines of output, {wrong} differ; direct {} in {} s, through Weir {} in {} s",
        direct.outputs.len(),
        direct.summary,
        direct.seconds,
        pooled.summary,
        pooled.seconds,
    );
    Ok(wrong == 0 && !direct.outputs.is_empty())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Direct,
    Pooled,
}

/// The results of one run.
struct Run {
    /// The output of psql, by test.
    outputs: BTreeMap<String, String>,
    /// How many passed, as pg_regress prints it.
    summary: String,
    seconds: u64,
}

fn run(sources: &Path, chosen: &[String], way: Way) -> Result<Run, String> {
    let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let options = Options { max_connections: 60, settings, auth: Auth::Trust, ..Options::default() };
    let server = Server::start(options).map_err(|error| error.to_string())?;
    let folder = prepare(sources)?;
    let weir = (way == Way::Pooled).then(|| start_weir(&server));
    let port = weir.as_ref().map_or(server.port(), Weir::port);
    println!("{}", if way == Way::Direct { "directly:" } else { "through Weir:" });
    let began = Instant::now();
    let mut command = pg_regress(&server, folder.path(), port)?;
    if chosen.is_empty() {
        command.arg(format!("--schedule={}", folder.path().join("parallel_schedule").display()));
    } else {
        // Nearly all tests need the tables and types of these.
        command.args(["test_setup"]).args(chosen);
    }
    let output = command.output().map_err(|error| format!("pg_regress: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let summary = text.lines().find(|line| line.contains(" tests passed") || line.contains(" tests failed"));
    let summary = summary
        .map(|line| line.trim().trim_end_matches('.').to_owned())
        .ok_or_else(|| format!("pg_regress did not finish:\n{text}{}", String::from_utf8_lossy(&output.stderr)))?;
    println!("  {summary}");
    let outputs = outputs(folder.path())?;
    if let Some(weir) = &weir {
        weir.skip_final_checks();
    }
    Ok(Run { outputs, summary, seconds: began.elapsed().as_secs() })
}

/// A copy of the tests. The server's user can read it, and write its results into it.
fn prepare(sources: &Path) -> Result<TempFolder, String> {
    let error_text = |error: std::io::Error| format!("{}: {error}", sources.display());
    let folder = TempFolder::new().map_err(|error| error.to_string())?;
    let copy = Command::new("cp").arg("-r").arg(sources.join(".")).arg(folder.path()).status().map_err(error_text)?;
    if !copy.success() {
        return Err(format!("{} can't be copied", sources.display()));
    }
    let results = folder.path().join("results");
    fs::create_dir_all(&results).map_err(error_text)?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).map_err(error_text)?;
    if let Some(account) = Account::to_drop_to().map_err(|error| error.to_string())? {
        chown(&results, Some(account.uid), Some(account.gid)).map_err(error_text)?;
    }
    Ok(folder)
}

fn start_weir(server: &Server) -> Weir {
    let ini = format!(
        "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nauth_type = trust\n\
         auth_file = {{folder}}/userlist.txt\nadmin_users = admin\npool_mode = session\n\
         default_pool_size = {POOL}\nserver_lifetime = 0\n\n[databases]\n* = host=127.0.0.1 port={}\n",
        server.port()
    );
    let users = format!("\"admin\" \"console secret\"\n\"{}\" \"\"\n", server.superuser());
    Weir::start_ini(&ini, &[("userlist.txt".to_owned(), users)])
}

/// The distribution's pg_regress; it creates the database itself.
fn pg_regress(server: &Server, folder: &Path, port: u16) -> Result<Command, String> {
    let bin = server.programs().bin();
    let places = ["../lib/pgxs/src/test/regress/pg_regress", "../lib/postgresql/pgxs/src/test/regress/pg_regress"];
    let program = places.iter().map(|place| bin.join(place)).find(|place| place.exists());
    let program = program.ok_or_else(|| format!("there is no pg_regress beside {}", bin.display()))?;
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
    Ok(command)
}

/// The output of psql, by test, without the folder's own name, which some tests print.
fn outputs(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let own = folder.display().to_string();
    let folder = folder.join("results");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut outputs = BTreeMap::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "out") {
            let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            outputs.insert(name, String::from_utf8_lossy(&bytes).replace(&own, "FOLDER"));
        }
    }
    Ok(outputs)
}

/// The tests that must differ: `name: reason`, one per line.
fn known_differences() -> BTreeMap<&'static str, &'static str> {
    let lines = DIFFERENCES.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(':')).map(|(test, why)| (test.trim(), why.trim())).collect()
}

/// The first lines that differ, with two lines before them.
fn difference(expected: &str, found: &str) -> String {
    const SHOWN: usize = 12;
    let (expected, found): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    let same = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
    let tail = |mark: char, lines: &[&str], from: usize| {
        let shown = lines.iter().skip(from).take(SHOWN);
        shown.map(|line| format!("  {mark} {line}\n")).collect::<String>()
    };
    let before = same.saturating_sub(2);
    let context = tail(' ', &expected[..same], before);
    format!("  from line {}\n{context}{}{}", same + 1, tail('-', &expected, same), tail('+', &found, same))
}
