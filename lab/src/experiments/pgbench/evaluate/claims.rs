//! The claims, each with the figures that decide it.

use crate::load::spread::{Compared, Spread, percent};
use crate::model::Claim;

use super::super::plan::{BURST, Distance, Load, MANY, Route, USABLE};
use super::super::stage::RunData;
use super::view::{View, figures, flawless, refused, words, worked};
use super::{pooler_ms_each, server_mb, server_ms_each};

const POOLED: Load = Load { route: Route::Pool, clients: 150 };
const POOLED_50: Load = Load { route: Route::Pool, clients: 50 };
const DIRECT: Load = Load { route: Route::Direct, clients: 150 };
const DIRECT_50: Load = Load { route: Route::Direct, clients: 50 };
const DIRECT_97: Load = Load { route: Route::Direct, clients: USABLE };
const TWICE: Load = Load { route: Route::Twice, clients: 150 };

/// A loss up to this share is "a few per cent".
const FEW: f64 = 0.10;
/// A size is as good as the best within this share of it.
const AS_WELL: f64 = 0.10;

pub(super) fn claims(view: &View) -> Vec<Claim> {
    let mut claims = vec![refusal(view)];
    for distance in view.plan.distances() {
        claims.push(none_lost(view, distance));
        claims.push(no_fewer(view, distance));
        claims.push(no_gain(view, distance));
    }
    claims.push(burst(view));
    claims.push(cheaper(view));
    claims.extend(view.plan.distances().into_iter().map(|distance| cores_are_enough(view, distance)));
    claims
}

/// The distance in a claim.
fn with(view: &View, distance: Distance) -> &'static str {
    match distance {
        Distance::Far => "Far clients",
        Distance::Near if view.plan.own => "Your server",
        Distance::Near => "Near clients, all on one machine",
    }
}

fn refusal(view: &View) -> Claim {
    let runs: Vec<RunData> = view.plan.distances().into_iter().flat_map(|d| view.taken(d, DIRECT)).collect();
    let text = format!("{MANY} direct clients are too many for a server with {USABLE} connections: it refuses them.");
    let Some(first) = runs.first() else { return Claim::decided(text, None, "150 direct clients were not tried.") };
    if first.usable >= MANY {
        let why = format!("This server has {} connections for us, so {MANY} clients are none too many.", first.usable);
        return Claim::decided(text, None, why);
    }
    let refused_runs = runs.iter().filter(|taken| refused(&taken.run)).count();
    let said = runs.iter().find(|taken| refused(&taken.run)).map_or("", |taken| words(&taken.run.complaint));
    let why = format!("{refused_runs} of {} runs were refused; the server said: {said}.", runs.len());
    Claim::decided(text, Some(refused_runs == runs.len()), why)
}

fn none_lost(view: &View, distance: Distance) -> Claim {
    let runs = view.taken(distance, POOLED);
    let text = format!("{}: {MANY} through the pool lose no client.", with(view, distance));
    if runs.is_empty() {
        return Claim::decided(text, None, "They were not run.");
    }
    let failed: u64 = runs.iter().map(|taken| taken.run.failed).sum();
    let aborted: u32 = runs.iter().map(|taken| taken.run.aborted).sum();
    let done: u64 = runs.iter().map(|taken| taken.run.transactions).sum();
    let why = format!("{done} transactions, {failed} failed, {aborted} clients lost.");
    Claim::decided(text, Some(runs.iter().all(|taken| flawless(&taken.run) && worked(taken))), why)
}

fn no_fewer(view: &View, distance: Distance) -> Claim {
    let text = format!(
        "{}: {MANY} through the pool do no fewer transactions than the direct clients that the server accepts \
         (published: +33%).",
        with(view, distance)
    );
    let tps = |load| view.tps(distance, load);
    let (Some(pool), Some(twice), Some(most)) = (tps(POOLED), tps(TWICE), tps(DIRECT_97)) else {
        return Claim::decided(text, None, "Not all of the runs that decide it were done.");
    };
    let held = pool.against(twice) != Compared::Less && pool.against(most) != Compared::Less;
    let mut why = format!(
        "{pool} TPS against {twice} of 75 clients ({}) and {most} of {USABLE} ({}).",
        percent(pool.gain_on(twice)),
        percent(pool.gain_on(most)),
    );
    if !held && distance == Distance::Near && !view.plan.own {
        why.push_str(&competition(view));
    }
    Claim::decided(text, Some(held), why).by(1.0 + pool.gain_on(twice), 1.0).by(1.0 + pool.gain_on(most), 1.0)
}

/// Why a pooler costs throughput where all programs share the same cores.
fn competition(view: &View) -> String {
    let each = |f: fn(&RunData) -> Option<f64>, load| view.spread(Distance::Near, load, f);
    match (each(pooler_ms_each, POOLED), each(server_ms_each, DIRECT_97)) {
        (Some(pooler), Some(server)) => format!(
            " Here clients wait only for the {} cores: Weir's {:.3} ms a transaction are taken from a server that needs \
             {:.3} ms, and Weir waits for its turn among the server's processes.",
            view.plan.cores, pooler.median, server.median
        ),
        _ => String::new(),
    }
}

fn no_gain(view: &View, distance: Distance) -> Claim {
    let text =
        format!("{}: 50 gain nothing from the pool, and lose at most a few per cent (10%).", with(view, distance));
    let (Some(pool), Some(direct)) = (view.tps(distance, POOLED_50), view.tps(distance, DIRECT_50)) else {
        return Claim::decided(text, None, "Not both of the runs were done.");
    };
    let gain = pool.gain_on(direct);
    let alike = pool.against(direct) == Compared::Alike;
    let mut why = format!("{pool} TPS against {direct} ({}; published: −2.2%)", percent(gain));
    why.push_str(if alike { ", within the noise." } else { "." });
    if !alike && gain < -FEW && distance == Distance::Near && !view.plan.own {
        why.push_str(&competition(view));
    }
    Claim::decided(text, Some(alike || gain.abs() <= FEW), why).by(1.0 + gain, 1.0 - FEW).by(1.0 + gain, 1.0 + FEW)
}

fn burst(view: &View) -> Claim {
    let text = format!("In a burst of {BURST}, clients wait in the pool's queue and are not refused.");
    let Some(pool) = view.burst(Route::Pool) else {
        return Claim::decided(text, None, "The burst through the pool was not run.");
    };
    let mut why = format!(
        "Through the pool {} of {} were served, {} refused, {} lost; the slowest took {:.0} ms.",
        pool.served, pool.asked, pool.refused, pool.lost, pool.slowest_ms
    );
    if let Some(direct) = view.burst(Route::Direct) {
        why.push_str(&format!(
            " Direct, {} were served and {} refused ({}).",
            direct.served, direct.refused, direct.said
        ));
    }
    Claim::decided(text, Some(pool.served == pool.asked), why)
}

/// A general statement of the article; a pool of the same size can save little.
fn cheaper(view: &View) -> Claim {
    let text = format!(
        "Pooling costs the server less: CPU a transaction, memory, processes (near, {MANY} through the pool against {USABLE} \
         direct)."
    );
    let pair = |f: &dyn Fn(&RunData) -> Option<f64>| {
        Some((view.spread(Distance::Near, POOLED, f)?, view.spread(Distance::Near, DIRECT_97, f)?))
    };
    let (Some(cpu), Some(memory), Some(processes)) =
        (pair(&server_ms_each), pair(&server_mb), pair(&|taken| taken.samples.server.peak_processes()))
    else {
        return Claim::decided(text, None, "The server's processes could not be watched in both runs.");
    };
    let not_more = |(pool, direct): (Spread, Spread)| pool.against(direct) != Compared::More;
    let less = |(pool, direct): (Spread, Spread)| pool.against(direct) == Compared::Less;
    let all = [cpu, memory, processes];
    let held = all.into_iter().all(not_more) && all.into_iter().any(less);
    let mut why = format!(
        "CPU {:.3} against {:.3} ms, memory {:.0} against {:.0} MB, processes {:.0} against {:.0}.",
        cpu.0.median, cpu.1.median, memory.0.median, memory.1.median, processes.0.median, processes.1.median
    );
    if let Some(weir) = view.spread(Distance::Near, POOLED, pooler_ms_each) {
        why.push_str(&format!(" Weir itself used {:.3} ms a transaction.", weir.median));
    }
    why.push_str(&smaller(view));
    Claim::decided(text, Some(held), why).by(1.0 + cpu.0.gain_on(cpu.1), 1.0)
}

/// The cost of the smallest pool that is as good as the largest.
fn smaller(view: &View) -> String {
    let Some(full) = view.tps(Distance::Near, POOLED) else { return String::new() };
    let fitting = view.plan.sizes(Distance::Near).into_iter().find_map(|size| {
        let taken = view.sized(Distance::Near, size);
        let tps = Spread::of(&figures(&taken, |taken| Some(taken.run.tps)))?;
        let memory = Spread::of(&figures(&taken, server_mb))?;
        let processes = Spread::of(&figures(&taken, |taken| taken.samples.server.peak_processes()))?;
        (tps.median >= full.median * (1.0 - AS_WELL)).then_some((size, tps, memory, processes))
    });
    fitting.map_or_else(String::new, |(size, tps, memory, processes)| {
        format!(
            " A pool of {size} serves the same {MANY} clients with {:.0} TPS, {:.0} MB and {:.0} processes.",
            tps.median, memory.median, processes.median
        )
    })
}

fn cores_are_enough(view: &View, distance: Distance) -> Claim {
    let cores = view.plan.cores;
    let text =
        format!("{}: a pool needs no more connections than twice the cores ({}).", with(view, distance), 2 * cores);
    if view.plan.own {
        return Claim::decided(text, None, "How many cores your server has is not known here: see the table of sizes.");
    }
    let sizes = view.plan.sizes(distance).into_iter().chain([USABLE]);
    let tps =
        |size| Some((size, Spread::of(&figures(&view.sized(distance, size), |taken| Some(taken.run.tps)))?.median));
    let points: Vec<(u32, f64)> = sizes.filter_map(tps).collect();
    let Some((best, most)) = points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Claim::decided(text, None, "No size was tried.");
    };
    // Far clients' smallest size is above twice the cores of a small machine: then only that size can be compared.
    let enough = points.iter().copied().filter(|(size, _)| *size <= 2 * cores).max_by(|a, b| a.1.total_cmp(&b.1));
    let (size, there) = enough.unwrap_or(points[0]);
    let share = there / most;
    let why = format!(
        "A pool of {size} does {there:.0} TPS, which is {:.0}% of the best, {most:.0} with {best}.",
        share * 100.0
    );
    let held = share >= 1.0 - AS_WELL;
    let decided = if enough.is_some() || !held { Some(held) } else { None };
    Claim::decided(text, decided, why).by(share, 1.0 - AS_WELL)
}
