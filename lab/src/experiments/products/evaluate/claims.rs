//! The claims of `products`, and their verdicts.

use super::View;
use crate::experiments::products::plan::{BURST, MAX_CONNECTIONS, OPEN, Tls, WEIR_POOL, Way, What};
use crate::experiments::products::stage::Run;
use crate::model::Claim;

/// From this factor on "about 2 ×" holds.
const ABOUT_TWICE: f64 = 1.5;
/// From this share on "about as well" holds.
const ABOUT_AS_WELL: f64 = 0.85;

pub(super) fn all(view: &View<'_>) -> Vec<Claim> {
    vec![
        new_fails(view),
        pooled_is_twice_normal(view),
        pooled_fails_least(view),
        pooled_waits(view),
        tls_makes_it_more(view),
        cores_are_enough(view),
        weir_serves_all_at_once(view),
        weir_under_load(view),
    ]
}

/// The figures that decide a claim are missing.
const OPEN_WHY: &str = "What decides this was not measured.";

/// Whether a claim holds, `None` if unknown, and the figures.
type Decided = (Option<bool>, String);

fn claim(text: &str, decided: Option<(bool, String)>) -> Claim {
    claim_or_open(text, decided.map(|(held, why)| (Some(held), why)))
}

fn claim_or_open(text: &str, decided: Option<Decided>) -> Claim {
    let (held, why) = decided.unwrap_or_else(|| (None, OPEN_WHY.to_owned()));
    Claim::decided(text, held, why)
}

/// A claim that a ratio decides, with its limit.
fn compared(text: &str, decided: Option<(bool, String, f64, f64)>) -> Claim {
    match decided {
        Some((held, why, ratio, limit)) => Claim::decided(text, Some(held), why).by(ratio, limit),
        None => claim(text, None),
    }
}

fn load(way: Way, connections: usize) -> What {
    What::Load { way, connections, tls: Tls::Off }
}

fn rate(run: &Run) -> f64 {
    run.load.rate()
}

fn served(run: &Run) -> f64 {
    run.load.served as f64
}

fn errors(run: &Run) -> f64 {
    run.load.errors as f64
}

fn new_fails(view: &View<'_>) -> Claim {
    let decide = || {
        let what = [20, 200].map(|connections| load(Way::New, connections));
        let [few, many] = [view.number(what[0], served)?, view.number(what[1], served)?];
        let [few_errors, many_errors] = [view.number(what[0], errors)?, view.number(what[1], errors)?];
        let limit = f64::from(MAX_CONNECTIONS);
        if few + few_errors <= limit || many + many_errors <= limit {
            return Some((None, format!("The load was too short for {limit:.0} connections.")));
        }
        let held = few <= limit && many <= limit && few_errors > 0.0 && many_errors > 0.0;
        let said = view.complaint(what[1]).unwrap_or_else(|| "nothing".into());
        let why = format!(
            "At 20 it served {few:.0} and failed {few_errors:.0} times, at 200 {many:.0} and {many_errors:.0}, with \
             \"{said}\"; the server takes {limit:.0} connections, and none was given back."
        );
        Some((Some(held), why))
    };
    claim_or_open("A connection for every request, left open, fails past the server's limit.", decide())
}

fn pooled_is_twice_normal(view: &View<'_>) -> Claim {
    let decide = || {
        let [normal, pooled] = [view.number(load(Way::Normal, 20), rate)?, view.number(load(Way::Pooled, 20), rate)?];
        let times = pooled / normal;
        let more =
            if times > 2.6 { "; more than twice, because a connection costs more here than a query" } else { "" };
        let why = format!("{pooled:.0}/s and {normal:.0}/s: {times:.1} × (published 1.8 ×){more}.");
        Some((times >= ABOUT_TWICE, why, times, ABOUT_TWICE))
    };
    compared("The pool serves about twice as much as one idle connection does, at 20.", decide())
}

fn pooled_fails_least(view: &View<'_>) -> Claim {
    let decide = || {
        let failed = |way| view.number(load(way, 200), errors);
        let (new, normal, pooled) = (failed(Way::New)?, failed(Way::Normal)?, failed(Way::Pooled)?);
        let held = pooled < new && pooled <= normal;
        let tie = if held && pooled == normal { " `normal` did not fail either here." } else { "" };
        let why = format!(
            "Errors: new {new:.0}, normal {normal:.0}, pooled {pooled:.0} (published 24,624, 3,171 and 15, which it \
             lost to the time-out of 1 s).{tie}"
        );
        Some((held, why))
    };
    claim("Of the articles' three, the pool fails least at 200.", decide())
}

fn pooled_waits(view: &View<'_>) -> Claim {
    let decide = || {
        let what = load(Way::Pooled, 200);
        let (waits, waited) = (view.number(what, |run| run.waits as f64)?, view.number(what, |run| run.waited_ms)?);
        let average = view.number(what, |run| run.load.average_ms)?;
        let few = view.number(load(Way::Pooled, 20), |run| run.waits as f64);
        let few = few.map_or(String::new(), |few| format!(" At 20, {few:.0} waited: {OPEN} may be open."));
        let each = if waits > 0.0 { waited / waits } else { 0.0 };
        let why = format!(
            "At 200, {waits:.0} requests waited for one of the {OPEN} connections, {each:.1} ms each on average; a \
             whole request took {average:.1} ms.{few}"
        );
        Some((waits > 0.0, why))
    };
    claim("Requests wait for a connection of the pool, where they would have failed without it.", decide())
}

fn tls_makes_it_more(view: &View<'_>) -> Claim {
    let gain = |connections: usize, tls: Tls| {
        let of = |way| view.number(What::Load { way, connections, tls }, rate);
        Some(of(Way::Pooled)? / of(Way::Normal)?)
    };
    let decide = || {
        let (plain, encrypted) = (gain(20, Tls::Off)?, gain(20, Tls::On)?);
        let more = match (gain(200, Tls::Off), gain(200, Tls::On)) {
            (Some(plain), Some(encrypted)) => format!("; at 200, {encrypted:.1} × instead of {plain:.1} ×"),
            _ => String::new(),
        };
        let why = format!(
            "Pooled by normal at 20: {encrypted:.1} × with TLS, {plain:.1} × without{more}. Each new connection pays \
             a handshake, a kept one does not."
        );
        Some((encrypted > plain, why, encrypted / plain, 1.0))
    };
    compared("With TLS to the server a pool gains more.", decide())
}

fn cores_are_enough(view: &View<'_>) -> Claim {
    let of = |size: u32| view.number(What::Sweep { size, connections: 200 }, rate);
    let decide = || {
        let cores = view.plan.cores;
        let small = of(cores)?;
        let large = of(OPEN)?;
        let best = view.plan.sizes.iter().filter_map(|&size| of(size).map(|rate| (size, rate)));
        let (best_size, best) = best.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let article = view.number(load(Way::Pooled, 200), rate);
        let article = article.map_or(String::new(), |rate| format!(", the article's pool {rate:.0}/s"));
        let why = format!(
            "At 200: a pool of {cores} served {small:.0}/s, one of {OPEN} {large:.0}/s{article}; the best was \
             {best_size} with {best:.0}/s. The app and the load take their share of the same cores here."
        );
        Some((small >= ABOUT_AS_WELL * large, why, small / large, ABOUT_AS_WELL))
    };
    compared("A pool as small as the machine's cores does about as well as one of 90.", decide())
}

fn weir_serves_all_at_once(view: &View<'_>) -> Claim {
    let burst = |way| What::Burst { way, connections: BURST };
    let decide = || {
        let (ours, lost) = (view.number(burst(Way::Weir), served)?, view.number(burst(Way::Weir), errors)?);
        let new_lost = view.number(burst(Way::New), errors)?;
        let connections = view.number(burst(Way::Weir), |run| run.connections as f64)?;
        let why = format!(
            "{BURST} at once on as many connections: through Weir {ours:.0} served and {lost:.0} failed, with \
             {connections:.0} connections at the server (its pool has {WEIR_POOL}); `new` failed {new_lost:.0} \
             times."
        );
        Some((lost == 0.0 && new_lost > 0.0, why))
    };
    claim(
        "Ours: through Weir a program without a pool serves 200 at once without an error, where `new` fails.",
        decide(),
    )
}

fn weir_under_load(view: &View<'_>) -> Claim {
    let decide = || {
        let what = load(Way::Weir, 200);
        let (ours, late) = (view.number(what, rate)?, view.number(what, |run| run.load.late as f64)?);
        let refused = view.number(what, errors)? - late;
        let normal = view.number(load(Way::Normal, 200), rate)?;
        let pooled = view.number(load(Way::Pooled, 200), rate);
        let share = pooled.map_or(String::new(), |pooled| {
            format!(" A pool within the app served {pooled:.0}/s, which does not connect again and again to Weir.")
        });
        let why = format!(
            "At 200: {ours:.0}/s through Weir, {refused:.0} refused and {late:.0} later than 1 s; {normal:.0}/s for \
             `normal`.{share}"
        );
        // Refusals are counted, and one decides.
        let ratio = if refused == 0.0 { ours / normal } else { 0.0 };
        Some((refused == 0.0 && ours > normal, why, ratio, 1.0))
    };
    compared("Ours: under load, too, none is refused, and more are served than by one idle connection.", decide())
}
