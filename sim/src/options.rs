//! What the command line of `weir-sim` says.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_sim::{Baseline, Detail, Part};

/// What `--help` prints.
pub(crate) const USAGE: &str = "\
weir-sim runs Weir's engine in a simulated world: clients, PostgreSQL servers, a network and an operator, all of them
drawn from a seed. The same seed gives the same run, bit for bit. Checkers watch each run; one that fails is made small
and shown as a transcript of the protocol, with the command that repeats it.

usage: weir-sim [options], or make sim [SEED=…] [COUNT=…] [HOURS=…] [JOBS=…] [ARGS='options']

  --seed N        the first seed (default 1)
  --count M       how many seeds (default 1000)
  --hours H       as many seeds as fit into H hours instead, which may be a fraction
  --jobs J        how many seeds at the same time (default: one a core)
  --failures F    stop after so many failures (default 10)
  --direct        leave the pooler out: the model against itself
  --minimise S    make failing runs small for at most S seconds each (default 20; 0: not at all)
  --trace         print the whole transcript of every seed
  --port          the same, with what passes through the engines' ports

A part of a run, as a failure that was made small prints it:

  --only-clients 1,4   only these clients come
  --only-acts 2,3      only these acts of the operator and of fate happen (none: no act)
  --workers N          at most N engines
  --sessions N         at most N connections of each client, one after the other
  --bursts N           at most N bursts in each
  --calm               a network without delays, splits and stalls, until an act changes it
  --timing N           the same run in another timing of the network

In a transcript c3 is a client, w0 an engine (a worker) and s1 a server's process. A line stands at the moment at which
a client or a server sends a message, or has read it. Lines with -- are the world's.
The last line counts what was done; the rate is that of one core, by the CPU time that the seeds took.
";

/// What is to be done.
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
    pub(crate) part: Part,
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
            part: Part::default(),
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
            "--only-clients" => options.part.clients = Some(numbers(&value()?)?),
            "--only-acts" => options.part.acts = Some(numbers(&value()?)?),
            "--workers" => {
                let most = u16::try_from(number(&value()?)?).map_err(|e| e.to_string())?;
                options.part.workers = Some(most.max(1));
            }
            "--sessions" => options.part.sessions = Some(number(&value()?)?.max(1)),
            "--bursts" => options.part.bursts = Some(number(&value()?)?.max(1)),
            "--calm" => options.part.calm = true,
            "--timing" => options.part.timing = number(&value()?)?,
            other => return Err(format!("{other} is not known")),
        }
    }
    Ok(Command::Run(options))
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

fn numbers(words: &str) -> Result<BTreeSet<u32>, String> {
    if words == "none" {
        return Ok(BTreeSet::new());
    }
    words.split(',').map(|word| word.parse().map_err(|_| format!("{word} is no number"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(words: &str) -> Part {
        match read(words.split_whitespace().map(str::to_owned)) {
            Ok(Command::Run(options)) => options.part,
            _ => panic!("{words} is no part"),
        }
    }

    #[test]
    fn a_part_is_read_as_it_is_printed() {
        let words = "--only-clients 1,4 --only-acts none --workers 1 --sessions 2 --bursts 3 --calm --timing 2";
        assert_eq!(part(words).to_string(), words);
        assert!(part("").is_whole() && !part("--calm").is_whole());
    }

    #[test]
    fn hours_may_be_a_fraction_and_nonsense_is_refused() {
        let run = |words: &str| read(words.split_whitespace().map(str::to_owned));
        assert!(matches!(run("--hours 0.5"), Ok(Command::Run(o)) if o.until == Some(Duration::from_secs(1800))));
        assert!(run("--hours x").is_err() && run("--seed").is_err() && run("--seeds 1").is_err());
        assert!(matches!(run("--seed 1 --help"), Ok(Command::Help)));
    }
}
