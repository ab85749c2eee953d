//! The experiment `products`: a web API whose endpoints differ in the source of the connection for their query.
//!
//! Two articles (one in two languages) had three endpoints; the fourth uses Weir.

mod app;
mod data;
mod evaluate;
mod httpd;
mod notice;
mod plan;
mod published;
mod stage;
mod webapp;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use signal_hook::iterator::Signals;

use app::{Language, Settings};
use notice::Notice;
use plan::Plan;
use stage::Products;

use crate::lab::Lab;
use crate::length::Length;
use crate::machine;
use crate::model;
use crate::runner::{REPORTS, ending_signals};
use crate::steps::{Experiment, LabError, Results, Stage, Step};

pub(crate) use webapp::{Flags as AppFlags, run as run_app};

/// The options of `weir lab products` beside the common ones.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    /// Measure nothing: leave the app and its servers running to try them
    #[arg(long)]
    pub(crate) serve: bool,
    /// With --serve: the app's port [default: any free one]
    #[arg(long, requires = "serve", value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Language of the app; Rust where Go is missing
    #[arg(long, value_enum, default_value_t, value_name = "NAME")]
    pub(crate) app: Language,
}

/// The experiment at this length.
pub(crate) fn new(length: Length, options: &Options) -> Box<dyn Experiment> {
    Box::new(Experiments { plan: Plan::new(length, machine::cores()), language: options.app })
}

struct Experiments {
    plan: Plan,
    language: Language,
}

impl Experiment for Experiments {
    fn id(&self) -> &'static str {
        "products"
    }

    fn options(&self) -> String {
        match self.language {
            Language::Go => String::new(),
            Language::Rust => "app=rust".into(),
        }
    }

    fn steps(&self) -> Vec<Step> {
        self.plan.steps()
    }

    fn opening_seconds(&self) -> f64 {
        3.0
    }

    fn open<'l>(&self, lab: &'l Lab) -> Result<Box<dyn Stage + 'l>, LabError> {
        Ok(Box::new(Products::open(lab, self.plan.clone(), self.language)?))
    }

    fn evaluate(&self, results: &Results) -> model::Experiment {
        evaluate::evaluate(&self.plan, results)
    }
}

/// Starts everything and prints the page's address; returns at the signal to stop.
pub(crate) fn serve(lab: &Lab, options: &Options) -> Result<(), LabError> {
    weir_pglocal::raise_descriptors();
    let state = ServeState::listen(lab)?;
    let plan = Plan::new(lab.length(), machine::cores());
    let mut stage = Products::open(lab, plan, options.app)?;
    let app = stage.app()?;
    let weir = stage.weir();
    let mut settings = Settings::new(stage.address());
    settings.port = options.port.unwrap_or(0);
    match &weir {
        Ok(weir) => settings.weir = Some(([127, 0, 0, 1], weir.port()).into()),
        Err(trouble) => lab.say(&format!("/products/weir is left out: {trouble}")),
    }
    let mut app = app.start(lab, &settings)?;
    let program = app.state()?.program;
    let _notice = Notice::put(Path::new(REPORTS), &format!("{}/", app.url));
    show(&welcome(&app.url, &program, settings.postgres.port()));
    state.serving.store(true, Ordering::Release);
    while !state.stop.load(Ordering::Acquire) {
        if !app.process.alive() {
            return Err(app.process.trouble("the web app ended"));
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Whether a signal requested the stop; if the lab is killed, the caretakers clean up.
#[derive(Default)]
struct ServeState {
    stop: AtomicBool,
    /// Whether `stop` is checked. Before that, and at a second Ctrl-C, the lab ends at once.
    serving: AtomicBool,
}

impl ServeState {
    fn listen(lab: &Lab) -> Result<Arc<ServeState>, LabError> {
        let mut signals = Signals::new(ending_signals()).map_err(|e| LabError::at("listen for Ctrl-C", e))?;
        let (state, reaper) = (Arc::<ServeState>::default(), lab.reaper().clone());
        let for_thread = Arc::clone(&state);
        thread::spawn(move || {
            for signal in signals.forever() {
                show("\nstopping the app and its servers; nothing stays behind\n");
                let again = for_thread.stop.swap(true, Ordering::AcqRel);
                if again || !for_thread.serving.load(Ordering::Acquire) {
                    reaper.clear();
                    std::process::exit(128 + signal);
                }
            }
        });
        Ok(state)
    }
}

/// Prints at once; a closed pipe is no error.
fn show(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn welcome(url: &str, program: &str, postgres: u16) -> String {
    format!(
        "
  The page:   {url}/
  The app:    {program}
  The server: PostgreSQL on port {postgres}, {} connections at most

  /products/new      a new connection for every request, left open: fails at the server's limit
  /products/normal   one idle connection is kept, others are opened and closed
  /products/pooled   a pool within the app, {} connections at most
  /products/weir     a new connection for every request, to Weir (a pool of {})

  A button for each fires 200 requests. Then try: no reset between them, `new` first.
  Ctrl-C stops everything and removes it.
",
        plan::MAX_CONNECTIONS,
        plan::OPEN,
        plan::WEIR_POOL,
    )
}
