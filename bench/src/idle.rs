//! `weir-bench idle`: the memory that an idle client costs.
//!
//! Clients log in and do nothing. The first few are not counted: what they grow (slabs, the heap's first pages) is
//! there once. Each figure comes from a pooler that was started for it.
//! Beyond some 14,000 clients the kernel searches long for a free port at our end: logins a second then say little.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use weir_pglocal::client::Connection;

use crate::error::{Error, Outcome};
use crate::json::Json;
use crate::options::Rig;
use crate::stage::Pooler;
use weir_pglocal::proc;

/// Logged in before the first look.
const WARM_UP: usize = 50;
/// Descriptors that the pooler and we need beside one a client.
const SPARE_DESCRIPTORS: u64 = 300;
/// Bytes a client: the budget for Weir.
const BUDGET: f64 = 640.0;

/// What `idle` is told.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Numbers of idle clients, each with a pooler of its own
    #[arg(long, value_delimiter = ',', default_value = "5000")]
    clients: Vec<usize>,
    #[command(flatten)]
    rig: Rig,
}

/// Measures and prints a line a pooler and number.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    let kinds = options.rig.kinds()?;
    let stage = options.rig.bare_stage()?;
    let most =
        usize::try_from(weir_pglocal::raise_descriptors().saturating_sub(SPARE_DESCRIPTORS)).unwrap_or(usize::MAX);
    println!(
        "{:<17} {:>8} {:>12} {:>10}   budget of Weir's: ≤ {BUDGET} B",
        "pooler", "clients", "RSS/client", "logins/s"
    );
    let mut lines = Vec::new();
    for &wanted in &options.clients {
        let clients = wanted.min(most);
        if clients < wanted {
            println!("{wanted} clients are more than the limit of open files allows; {clients} instead (ulimit -n).");
        }
        for &kind in &kinds {
            lines.push(measure(&stage.pooler(kind)?, clients)?);
        }
    }
    options.rig.write_json(&Json::List(lines))?;
    Ok(true)
}

fn measure(pooler: &Pooler, clients: usize) -> Outcome<Json> {
    let pid = pooler.pid().ok_or_else(|| Error::new("PostgreSQL alone has no idle clients to speak of"))?;
    let rss = || proc::rss(pid).ok_or_else(|| Error::new(format!("{} has ended:\n{}", pooler.name, pooler.log_end())));
    let params = pooler.params(pooler.database());
    let mut all = Vec::with_capacity(WARM_UP + clients);
    let mut log_in = |count: usize| -> Outcome<()> {
        for _ in 0..count {
            all.push(Connection::connect(&params)?);
        }
        Ok(())
    };
    log_in(WARM_UP)?;
    thread::sleep(Duration::from_secs(1));
    let (before, begin) = (rss()?, Instant::now());
    log_in(clients)?;
    let took = begin.elapsed();
    thread::sleep(Duration::from_secs(1));
    #[allow(clippy::cast_precision_loss)]
    let (each, rate) = (rss()?.saturating_sub(before) as f64 / clients as f64, clients as f64 / took.as_secs_f64());
    println!("{:<17} {clients:>8} {each:>10.0} B {rate:>10.0}", pooler.name);
    Ok(Json::Object(vec![
        ("pooler", pooler.name.as_str().into()),
        ("clients", (clients as u64).into()),
        ("bytes_a_client", each.into()),
        ("logins_a_second", rate.into()),
    ]))
}
