//! The command line of `weir-sim`.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_sim::{Baseline, Detail, Subset};

/// What `--help` prints.
pub(crate) const USAGE: &str = "\
weir-sim runs Weir's engine in a simulated world: clients, PostgreSQL servers, a network and an operator, all drawn
from a seed. The same seed gives the same run, bit for bit. Checkers watch each run; a failing run is minimised and
printed as a transcript of the protocol, with the command that repeats it.

usage: weir-sim [options], or make sim [SEED=…] [COUNT=…] [HOURS=…] [JOBS=…] [ARGS='options']

  --seed N        the first seed (default 1)
  --count M       how many seeds (default 1000)
  --hours H       run seeds for H hours instead of a fixed count; H may be a fraction
  --jobs J        how many seeds run at the same time (default: one per core)
  --failures F    stop after F failures (default 10)
  --direct        run without the pooler: the model against itself
  --minimise S    minimise each failing run for at most S seconds (default 20; 0: do not minimise)
  --trace         print the whole transcript of every seed
  --port          the same, plus what passes through the engines' ports

To run a subset of a run, as printed for a minimised failure:

  --only-clients 1,4   only these clients connect
  --only-acts 2,3      only these acts (operator actions and faults) happen (none: no act)
  --workers N          at most N engines
  --sessions N         at most N connections of each client, one after the other
  --bursts N           at most N bursts in each connection
  --calm               a network without delays, splits and stalls, until an act changes it
  --timing N           the same run with another timing of the network

In a transcript c3 is a client, w0 an engine (a worker) and s1 a server's process. The time of a line is the moment at which
a client or a server sends or reads the message. Lines with -- report acts and other events of the world.
The last line is a summary; its rate is that of one core, by the CPU time that the seeds took.
";

/// What the command line asks for.
pub(crate) enum Command {
    Help,
    Run(Options),
}

/// How seeds are run.
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) count: u64,
    pub(crate) until: Option<Duration>,
    pub(crate) jobs: usize,
    pub(crate) baseline: Baseline,
    pub(crate) failures: u64,
    pub(crate) detail: Detail,
    pub(crate) minimise: Duration,
    pub(crate) subset: Subset,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 1,
            count: 1000,
            until: None,
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            baseline: Baseline::Pooled,
            failures: 10,
            detail: Detail::None,
            minimise: Duration::from_secs(20),
            subset: Subset::default(),
        }
    }
}

/// Reads the words of a command line.
pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--seed" => options.seed = number(&value()?)?,
            "--count" => options.count = number(&value()?)?,
            "--hours" => {
                let hours: f64 = value()?.parse().map_err(|_| "--hours needs a number".to_owned())?;
                options.until = Some(Duration::try_from_secs_f64(hours * 3600.0).map_err(|e| e.to_string())?);
                options.count = u64::MAX;
            }
            "--jobs" => options.jobs = (number(&value()?)? as usize).max(1),
            "--failures" => options.failures = number(&value()?)?,
            "--direct" => options.baseline = Baseline::Direct,
            "--minimise" => options.minimise = Duration::from_secs(number(&value()?)?),
            "--trace" => options.detail = options.detail.max(Detail::Protocol),
            "--port" => options.detail = Detail::Port,
            "--only-clients" => options.subset.clients = Some(numbers(&value()?)?),
            "--only-acts" => options.subset.acts = Some(numbers(&value()?)?),
            "--workers" => {
                let most = u16::try_from(number(&value()?)?).map_err(|e| e.to_string())?;
                options.subset.workers = Some(most.max(1));
            }
            "--sessions" => options.subset.sessions = Some(number(&value()?)?.max(1)),
            "--bursts" => options.subset.bursts = Some(number(&value()?)?.max(1)),
            "--calm" => options.subset.calm = true,
            "--timing" => options.subset.timing = number(&value()?)?,
            other => return Err(format!("{other} is not known")),
        }
    }
    Ok(Command::Run(options))
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word} is not a number"))
}

fn numbers(words: &str) -> Result<BTreeSet<u32>, String> {
    if words == "none" {
        return Ok(BTreeSet::new());
    }
    words.split(',').map(|word| word.parse().map_err(|_| format!("{word} is not a number"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subset(words: &str) -> Subset {
        match read(words.split_whitespace().map(str::to_owned)) {
            Ok(Command::Run(options)) => options.subset,
            _ => panic!("{words} gives no subset"),
        }
    }

    #[test]
    fn a_subset_is_read_as_it_is_printed() {
        let words = "--only-clients 1,4 --only-acts none --workers 1 --sessions 2 --bursts 3 --calm --timing 2";
        assert_eq!(subset(words).to_string(), words);
        assert!(subset("").is_whole() && !subset("--calm").is_whole());
    }

    #[test]
    fn hours_may_be_a_fraction_and_invalid_options_are_refused() {
        let run = |words: &str| read(words.split_whitespace().map(str::to_owned));
        assert!(matches!(run("--hours 0.5"), Ok(Command::Run(o)) if o.until == Some(Duration::from_secs(1800))));
        assert!(run("--hours x").is_err() && run("--seed").is_err() && run("--seeds 1").is_err());
        assert!(matches!(run("--seed 1 --help"), Ok(Command::Help)));
    }
}
