//! The progress of a run, and the time left: a bar on a terminal, plain lines elsewhere.
//!
//! Owns the bar. Its length is the run's estimated seconds; during a step the bar moves with the clock, up to the
//! step's estimate, so the time left is right even if a step is long.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The interval at which the bar is repainted.
const TICK: Duration = Duration::from_millis(200);

/// The progress of a run; clones show the same bar.
#[derive(Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
    state: Arc<Mutex<State>>,
    lines: Lines,
}

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    /// Above a repainted bar.
    AboveBar,
    /// To standard error, once.
    Plain,
    /// Nowhere; for tests.
    #[cfg(test)]
    Silent,
}

struct State {
    /// Estimated seconds of the finished steps, and of all.
    done: f64,
    total: f64,
    /// When the current step began, and its estimate.
    step: Option<(Instant, f64)>,
    what: String,
}

impl State {
    fn position(&self) -> f64 {
        self.done + self.step.map_or(0.0, |(began, estimate)| began.elapsed().as_secs_f64().min(estimate))
    }
}

impl Progress {
    /// A bar on standard error if that is a terminal, plain lines otherwise.
    pub(crate) fn stderr() -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let lines = if bar.is_hidden() { Lines::Plain } else { Lines::AboveBar };
        Progress::new(bar, lines)
    }

    /// Prints nothing; for tests.
    #[cfg(test)]
    pub(crate) fn silent() -> Progress {
        Progress::new(ProgressBar::hidden(), Lines::Silent)
    }

    fn new(bar: ProgressBar, lines: Lines) -> Progress {
        let style = ProgressStyle::with_template("{spinner} {bar:30.cyan/dim} {prefix:.bold} · {wide_msg}");
        bar.set_style(style.expect("the template is right").progress_chars("━╾─"));
        let state = State { done: 0.0, total: 0.0, step: None, what: String::new() };
        Progress { bar, state: Arc::new(Mutex::new(state)), lines }
    }

    /// Starts, with the estimated seconds of all steps, and of those that an earlier run has finished.
    pub(crate) fn begin(&self, total: f64, done: f64) {
        self.with(|state| (state.total, state.done) = (total, done));
        if self.lines == Lines::AboveBar {
            self.paint();
            let mover = self.clone();
            thread::spawn(move || {
                while !mover.bar.is_finished() {
                    mover.paint();
                    thread::sleep(TICK);
                }
            });
        }
    }

    /// Starts a step that should take `seconds`.
    pub(crate) fn step(&self, title: &str, seconds: f64) {
        self.with(|state| {
            state.step = Some((Instant::now(), seconds));
            title.clone_into(&mut state.what);
        });
        self.bar.set_message(title.to_owned());
    }

    /// Shows the current activity within the step.
    pub(crate) fn doing(&self, what: &str) {
        let title = self.with(|state| state.what.clone());
        self.bar.set_message(format!("{title}: {what}"));
    }

    /// The step has ended, however long it took.
    pub(crate) fn step_done(&self) {
        self.with(|state| {
            if let Some((_, estimate)) = state.step.take() {
                state.done += estimate;
            }
        });
    }

    /// Prints a line.
    pub(crate) fn say(&self, line: &str) {
        match self.lines {
            Lines::AboveBar => self.bar.println(line),
            Lines::Plain => eprintln!("{line}"),
            #[cfg(test)]
            Lines::Silent => {}
        }
    }

    /// The time left, in words: `4 minutes`.
    pub(crate) fn left(&self) -> String {
        let seconds = self.with(|state| (state.total - state.position()).max(0.0));
        HumanDuration(Duration::from_secs_f64(seconds)).to_string()
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn paint(&self) {
        let (position, total) = self.with(|state| (state.position(), state.total));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let tenths = |seconds: f64| (seconds.max(0.0) * 10.0) as u64;
        self.bar.set_length(tenths(total));
        self.bar.set_position(tenths(position));
        self.bar.set_prefix(format!("{} left", self.left()));
        self.bar.tick();
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_falls_by_what_was_estimated_not_by_what_it_took() {
        let progress = Progress::silent();
        progress.begin(120.0, 0.0);
        assert_eq!(progress.left(), "2 minutes");
        progress.step("a", 60.0);
        progress.step_done();
        assert_eq!(progress.left(), "60 seconds");
    }
}
