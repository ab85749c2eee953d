//! From a seed to an outcome.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::subset::{Subset, optional_acts};
use crate::trace::Detail;
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
    run_subset(baseline, seed, &Subset::default(), Detail::None)
}

/// Runs a subset of one seed and records it in this detail.
pub fn run_subset(baseline: Baseline, seed: u64, subset: &Subset, detail: Detail) -> Outcome {
    let mut scenario = draw(baseline, seed);
    subset.apply(&mut scenario);
    run_world(seed, World::new(seed, scenario, detail))
}

/// Runs a subset of one seed for at most `most_events` events.
pub(crate) fn run_shortly(baseline: Baseline, seed: u64, subset: &Subset, most_events: u64) -> Outcome {
    let mut scenario = draw(baseline, seed);
    subset.apply(&mut scenario);
    scenario.most_events = scenario.most_events.min(most_events);
    run_world(seed, World::new(seed, scenario, Detail::None))
}

/// The numbers of a seed's clients, and of its acts that may be left out.
pub(crate) fn shape(baseline: Baseline, seed: u64) -> (Vec<u32>, Vec<u32>) {
    let scenario = draw(baseline, seed);
    (scenario.clients.iter().map(|client| client.number).collect(), optional_acts(&scenario))
}

fn draw(baseline: Baseline, seed: u64) -> Scenario {
    let mut rng = Rng::new(seed).fork("scenario", 0);
    match baseline {
        Baseline::Direct => direct::draw(&mut rng),
        Baseline::Pooled => pooled::draw(&mut rng),
    }
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
