//! Makes a failing script short: steps are dropped for as long as the same difference shows.

use std::time::{Duration, Instant};

use crate::play::{End, Played, Stage, play};
use crate::script::{Script, Step, Wait};

/// How long it may take.
const TIME: Duration = Duration::from_secs(30);
/// How long an answer may take meanwhile: a shorter script may wait for what can't come.
const PATIENCE: Duration = Duration::from_secs(3);

/// The shortest script found that fails like `failed`, and what came of it; none if the failure does not repeat.
pub(crate) fn minimise(
    script: &Script,
    failed: &End,
    stage: Stage<'_>,
    seed: u64,
    prepare: impl Fn(),
) -> Option<(Script, Played)> {
    let begin = Instant::now();
    let stage = Stage { patience: PATIENCE, ..stage };
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
            // A login that is not waited for is no session.
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
