//! Makes a failing script short: steps are dropped as long as the same difference shows.

use std::time::{Duration, Instant};

use crate::play::{End, Played, Stage, play};
use crate::script::{Script, Step, Wait};

/// The time limit.
const TIME: Duration = Duration::from_secs(30);
/// The timeout for an answer meanwhile: a shorter script may wait for messages that can't arrive.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The shortest script found that fails like `failed`, with its result; `None` if the failure does not repeat.
pub(crate) fn minimise(
    script: &Script,
    failed: &End,
    stage: Stage<'_>,
    seed: u64,
    prepare: impl Fn(),
) -> Option<(Script, Played)> {
    let begin = Instant::now();
    let stage = Stage { timeout: TIMEOUT, ..stage };
    let fails = |script: &Script| {
        prepare();
        let played = play(script, stage, seed);
        (played.end == *failed).then_some(played)
    };
    let (mut best, mut shown) = (script.clone(), (0..3).find_map(|_| fails(script))?);
    let mut size = best.steps.len().div_ceil(2);
    while size > 0 && begin.elapsed() < TIME {
        let mut at = 0;
        let before = best.steps.len();
        while at < best.steps.len() && begin.elapsed() < TIME {
            let end = (at + size).min(best.steps.len());
            let mut shorter = best.clone();
            shorter.steps.drain(at..end);
            // A session needs a login that is waited for.
            let logs_in = matches!(shorter.steps.get(1), Some(Step::Wait(Wait::Ready)));
            match logs_in.then(|| fails(&shorter)).flatten() {
                Some(played) => (best, shown) = (shorter, played),
                None => at = end,
            }
        }
        if size > 1 || best.steps.len() == before {
            size /= 2;
        }
    }
    Some((best, shown))
}
