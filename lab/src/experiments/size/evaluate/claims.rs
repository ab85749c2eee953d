//! The claims, each with the figures that decide it.

use super::super::plan::Workload;
use super::{AS_WELL, Sized};
use crate::load::spread::{Compared, Spread, percent};
use crate::model::Claim;

/// The tolerated relative error of the law.
const NEAR: f64 = 0.25;
/// The machine is not saturated while the law's connections need less than this share of what the cores allow.
const UNSATURATED: f64 = 0.7;

/// Up to this share of the best, few connections are far from it.
const FAR: f64 = 0.5;

pub(super) fn claims(all: &[Sized]) -> Vec<Claim> {
    let mut claims: Vec<Claim> = all.iter().map(as_many_as_cores).collect();
    claims.push(law(all));
    claims.extend(all.iter().map(nothing_beyond));
    claims
}

/// Expected to hold for work that keeps a core busy, and not to hold for work that waits.
fn as_many_as_cores(sized: &Sized) -> Claim {
    let cores = sized.plan.cores;
    let name = sized.workload.name();
    let text = match sized.workload {
        Workload::ReadOnly => {
            format!("{name}: as many connections as cores, or twice as many, are enough ({cores} to {}).", 2 * cores)
        }
        Workload::ReadWrite => format!("{name}: twice as many connections as cores are enough ({}).", 2 * cores),
        Workload::Slow => format!("{name}: as many connections as cores are not enough; throughput grows far beyond."),
    };
    let few = [cores, 2 * cores].into_iter().filter_map(|size| Some((size, sized.tps(size)?)));
    let few = few.max_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let (Some((size, there)), Some((best, most)), Some((enough, _))) = (few, sized.best(), sized.enough()) else {
        return Claim::decided(text, None, "Not all of the sizes that decide it were run.");
    };
    let share = there.median / most.median;
    let why = format!(
        "A pool of {size} does {there} TPS, {:.0}% of the best, which is {most} with {best}; 90% of that are reached with \
         {enough}.",
        share * 100.0
    );
    let held = match sized.workload {
        Workload::ReadOnly | Workload::ReadWrite => share >= 1.0 - AS_WELL || noise(there, most),
        Workload::Slow => share <= FAR,
    };
    let limit = if sized.workload == Workload::Slow { FAR } else { 1.0 - AS_WELL };
    Claim::decided(text, Some(held), why).by(share, limit)
}

/// Whether repetitions differ as much among themselves as from the others; unknown for one repetition.
fn noise(a: Spread, b: Spread) -> bool {
    a.most > a.least && b.most > b.least && a.against(b) == Compared::Alike
}

fn law(all: &[Sized]) -> Claim {
    let text = "Little's law predicts the throughput within 25% where the machine is not saturated.";
    let mut misses: Vec<(String, f64)> = all.iter().flat_map(misses).collect();
    misses.sort_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let Some((worst, miss)) = misses.last() else {
        return Claim::decided(text, None, "No size above 1 left the machine unsaturated.");
    };
    let within = misses.iter().filter(|(_, miss)| miss.abs() <= NEAR).count();
    let why = format!(
        "{within} of {} sizes were within 25%; farthest from it was {worst}, {} against the prediction.",
        misses.len(),
        percent(*miss)
    );
    Claim::decided(text, Some(within == misses.len()), why).by(1.0 + miss.abs(), 1.0 + NEAR)
}

/// The error of each unsaturated size's prediction; size 1 is the base of the prediction.
fn misses(sized: &Sized) -> Vec<(String, f64)> {
    let (Some(held), Some(ceiling)) = (sized.held(), sized.ceiling()) else { return Vec::new() };
    let unsaturated = |size: &u32| *size > 1 && f64::from(*size) / held <= UNSATURATED * ceiling;
    let points = sized.throughput().into_iter().filter(|(size, _)| unsaturated(size));
    let miss = |(size, tps): (u32, Spread)| {
        let name = format!("{} with a pool of {size}", sized.workload.id());
        (name, tps.median * held / f64::from(size) - 1.0)
    };
    points.map(miss).collect()
}

fn nothing_beyond(sized: &Sized) -> Claim {
    let text = format!("{}: more connections than Little's law needs gain nothing.", sized.workload.name());
    let throughput = sized.throughput();
    let (Some(needed), Some((largest, _))) = (sized.needed(), throughput.last()) else {
        return Claim::decided(text, None, "The run with one connection, from which the need follows, was not done.");
    };
    let Some((first, there)) = throughput.iter().find(|(size, _)| f64::from(*size) >= needed) else {
        let why =
            format!("It needs {needed:.0} connections to fill the cores, more than the largest pool has ({largest}).");
        return Claim::decided(text, None, why);
    };
    let beyond = throughput.iter().filter(|(size, _)| size > first);
    let Some((size, most)) = beyond.max_by(|a, b| a.1.median.total_cmp(&b.1.median)) else {
        let why = format!("It needs {needed:.1} connections, and {largest} is the largest size.");
        return Claim::decided(text, None, why);
    };
    let gain = most.gain_on(*there);
    let p99 = |size: u32| sized.at(size, |taken| Some(taken.p99_ms)).map_or(0.0, |p99| p99.median);
    let why = format!(
        "It needs {needed:.1}. A pool of {first} does {there} TPS; of the larger ones {size} does most, {most} ({}). The p99 is \
         {:.1} ms with {first} and {:.1} ms with {largest}.",
        percent(gain),
        p99(*first),
        p99(*largest)
    );
    Claim::decided(text, Some(gain <= AS_WELL || noise(*there, *most)), why).by(1.0 + gain, 1.0 + AS_WELL)
}
