//! Shared by all drivers of Rust: where the server is, and how checks are named, run and reported. Knows no driver.
//! README.md two folders up explains the names.

use std::env::var;
use std::error::Error;
use std::fmt::{self, Debug};
use std::future::Future;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The error of a check.
pub type Failure = Box<dyn Error + Send + Sync>;

/// The result of a check.
pub type Outcome = Result<(), Failure>;

/// Terminates all other connections of the user, and waits until their processes have ended.
pub const KILL_OTHERS: &str = "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity \
                               WHERE usename = current_user AND pid <> pg_backend_pid()";

/// A value of the environment; a missing one is empty.
pub fn env(name: &str) -> String {
    var(name).unwrap_or_default()
}

/// The driver, or a pool in this mode, does not have the checked feature.
#[derive(Debug)]
struct None(String);

impl fmt::Display for None {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for None {}

/// There is nothing to check, and the reason.
pub fn none(why: &str) -> Outcome {
    Err(Box::new(None(why.into())))
}

/// Nothing to check in transaction mode.
pub fn session_only(what: &str) -> Outcome {
    if env("MODE") == "transaction" { none(&format!("{what} needs session mode")) } else { Ok(()) }
}

/// Succeeds if the actual value is the expected one; the error shows both.
pub fn same<T: PartialEq<U> + Debug, U: Debug>(got: T, wanted: U) -> Outcome {
    if got == wanted { Ok(()) } else { Err(format!("{got:?}, not {wanted:?}").into()) }
}

/// Retries for a while; returns the last error.
pub async fn eventually<F: Future<Output = Outcome>>(work: impl Fn() -> F) -> Outcome {
    let began = Instant::now();
    loop {
        match work().await {
            Err(error) if began.elapsed() > Duration::from_secs(60) => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            Ok(()) => return Ok(()),
        }
    }
}

/// Runs this many at once; returns the first failure.
pub async fn each<F: Future<Output = Outcome> + 'static>(count: i32, work: impl Fn(i32) -> F) -> Outcome {
    let tasks: Vec<_> = (0..count).map(|number| tokio::task::spawn_local(work(number))).collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Prints a line for each check when it ends, and the total.
#[derive(Default)]
pub struct Report {
    count: u32,
    failed: u32,
}

impl Report {
    /// Runs one check. A panic fails it.
    pub async fn check(&mut self, name: &str, work: impl Future<Output = Outcome> + 'static) {
        self.count += 1;
        let outcome = tokio::task::spawn_local(work).await.unwrap_or_else(|panic| Err(panic.into()));
        match outcome {
            Ok(()) => println!("ok   {name}"),
            Err(why) if why.is::<None>() => println!("none {name}: {why}"),
            Err(why) => {
                self.failed += 1;
                let why = format!("{why} {why:?}");
                println!("FAIL {name}: {}", why.split_whitespace().collect::<Vec<_>>().join(" "));
            }
        }
    }

    /// The last line, and the exit status.
    pub fn end(self, version: &str) -> ExitCode {
        println!("{version}: {} checks, {} failed", self.count, self.failed);
        if self.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// Runs a program of checks on this thread.
pub fn main(program: impl Future<Output = ExitCode>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, program)
}

/// The version of a package in a Cargo.lock.
pub fn locked(lock: &str, package: &str) -> String {
    let from = lock.split_once(&format!("name = \"{package}\"\nversion = \"")).map_or("", |(_, rest)| rest);
    from.split('"').next().unwrap_or_default().to_owned()
}
