//! From a seed to an outcome.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::rng::Rng;
use crate::world::{Outcome, World};
use crate::{direct, pooled};

/// What is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Baseline {
    /// Clients and servers without a pooler.
    Direct,
    /// The pooler between them.
    Pooled,
}

/// Runs one seed.
pub fn run(baseline: Baseline, seed: u64) -> Outcome {
    run_world(seed, world(baseline, seed, false))
}

/// Runs one seed and keeps the last events.
pub fn run_with_transcript(baseline: Baseline, seed: u64) -> Outcome {
    run_world(seed, world(baseline, seed, true))
}

fn world(baseline: Baseline, seed: u64, transcript: bool) -> World {
    let mut rng = Rng::new(seed).fork("scenario", 0);
    let scenario = match baseline {
        Baseline::Direct => direct::draw(&mut rng),
        Baseline::Pooled => pooled::draw(&mut rng),
    };
    World::new(seed, scenario, transcript)
}

fn run_world(seed: u64, mut world: World) -> Outcome {
    keep_panics();
    PANIC.set(Some(String::new()));
    let result = panic::catch_unwind(AssertUnwindSafe(|| world.run()));
    let message = PANIC.take().unwrap_or_default();
    world.outcome(seed, result.is_err().then_some(message))
}

thread_local! {
    /// The message of a panic, while a run is under way.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps a panic's message instead of printing it, where a run is under way on the same thread.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let kept = PANIC.with_borrow_mut(|kept| kept.as_mut().map(|text| *text = info.to_string()).is_some());
            if !kept {
                before(info);
            }
        }));
    });
}
