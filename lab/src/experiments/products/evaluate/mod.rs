//! Evaluates the results of `products`: tables, charts, claims, and what the articles do not mention.

mod charts;
mod claims;
mod tables;
#[cfg(test)]
mod tests;

use super::plan::{BURST, IDLE, MAX_CONNECTIONS, OPEN, Plan, WEIR_POOL, What};
use super::stage::{Run, RunData};
use crate::model::{self, Value};
use crate::steps::Results;

/// Evaluates the results.
pub(crate) fn evaluate(plan: &Plan, results: &Results) -> model::Experiment {
    let view = View { plan, results };
    let mut evaluation = model::Experiment::empty("products", "A web API and where its connections come from");
    evaluation.question =
        "One query for 1,000 products, behind four endpoints that differ in nothing but the connection it runs on: \
         what do a connection for every request, one that is kept, a pool, and Weir each cost?"
            .into();
    evaluation.source = "Database connection pooling: Overview and benchmark with Go (English; in Vietnamese by Kiên \
                    Đinh, Viblo Asia)"
        .into();
    evaluation.setup = setup(&view);
    evaluation.tables = tables::all(&view);
    evaluation.charts = charts::all(&view);
    evaluation.claims = claims::all(&view);
    evaluation.hides = HIDES.map(str::to_owned).into();
    evaluation
}

/// The results, for the tables and claims.
pub(super) struct View<'a> {
    pub(super) plan: &'a Plan,
    results: &'a Results,
}

impl View<'_> {
    /// The median of a figure over its repetitions; `None` for a step without a result.
    pub(super) fn number(&self, what: What, figure: impl Fn(&Run) -> f64) -> Option<f64> {
        self.median(what, figure).as_ref().and_then(Value::as_number)
    }

    /// The median of a figure for a table, with its spread, or a word for the reason why there is none.
    pub(super) fn value(&self, what: What, figure: impl Fn(&Run) -> f64) -> Value {
        let lack = || Value::text(self.results.lack(&what.id()).unwrap_or("not run"));
        self.median(what, figure).unwrap_or_else(lack)
    }

    fn median(&self, what: What, figure: impl Fn(&Run) -> f64) -> Option<Value> {
        let taken: RunData = self.results.get(&what.id())?;
        Value::median(&taken.runs.iter().map(figure).collect::<Vec<_>>())
    }

    /// The most frequent error of failed requests.
    pub(super) fn complaint(&self, what: What) -> Option<String> {
        let taken: RunData = self.results.get(&what.id())?;
        taken.runs.iter().find_map(|run| run.load.complaints.first()).map(|(text, _)| text.clone())
    }

    /// The app's language and version.
    fn program(&self) -> Option<String> {
        let programs = |what: What| self.results.get::<RunData>(&what.id()).map(|taken| taken.program);
        self.plan.whats().into_iter().filter(|&what| what != What::App).find_map(programs)
    }
}

fn setup(view: &View<'_>) -> Vec<String> {
    let plan = view.plan;
    let seconds = plan.duration().as_secs_f64();
    let times = match plan.repetitions() {
        1 => String::new(),
        n => format!(", {n} times; the tables have the medians"),
    };
    let program = view.program();
    let mut setup = vec![
        format!(
            "PostgreSQL with max_connections = {MAX_CONNECTIONS}, all for the app; {} rows of 1,000 distinct \
             products; a reply has about 87 kB.",
            plan.rows()
        ),
        format!("The web app: {}.", program.as_deref().unwrap_or("not run")),
        "The app is started anew for every line of every table, so that its pools are empty, and the server has no \
         other connection then."
            .into(),
        format!(
            "Weir stands between the app and the server for /products/weir only, with a pool of {WEIR_POOL} in \
             transaction mode."
        ),
        format!(
            "Bursts: {BURST} requests at once over 6 connections, which is what a browser opens to one host, and \
             over {BURST}."
        ),
        format!(
            "Loads: requests one after another on 20 and on 200 kept connections for {seconds} s{times}; a reply must \
             begin within 1 s, in a burst within 30 s."
        ),
        "App, server, Weir and load share this machine's cores, so each takes from the others.".into(),
        "TLS is between the app and the server (sslmode=require, a certificate made for the run). Between Weir and \
         the server there is none in these runs, as its line notes."
            .into(),
        format!(
            "The sweep gives `pooled` that many connections, idle or not; the article's pool, {OPEN} open and {IDLE} \
             idle at most, is the one of the other tables."
        ),
    ];
    if program.is_some_and(|program| program.starts_with("Rust")) {
        setup
            .push("The app in Rust replaces that in Go: its pool has no limit of idle connections, and no TLS.".into());
    }
    setup
}

const HIDES: [&str; 6] = [
    "The load tool divides successes by the time spent in successful requests. So 100 requests in 10 s, and 24,624 \
     errors, were printed as 1,923 requests/s: an endpoint that fails at once looks fastest. By the clock it served \
     10/s.",
    "The same tool hides that `normal` failed 3,171 times at 200: printed as 1,058/s, served 821/s.",
    "`new` leaves its connections open, so it shows a leak more than the price of a connection. A program that \
     closed each would have gone on past the limit, slowly.",
    "What the article calls a singleton is not one connection: one idle connection is kept, and nothing limits how \
     many are open. That is why it, too, passes the server's limit at 200.",
    "A browser opens about six connections to one host and queues the rest, so 200 requests \"at once\" never were: \
     `normal` did not fail there for that reason alone.",
    "A pool of 90 takes 90 of a server's 100 connections: a second instance of the app finds 10. A pool in the app \
     is one for each process; a pooler's is one for all.",
];
