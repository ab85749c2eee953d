//! The plan: endpoints, and the steps in their order.
//!
//! Owns the steps' ids, which are the journal's keys, and finds a step by its id.

use std::time::Duration;

use crate::length::Length;
use crate::steps::Step;

/// An endpoint, by the source of its requests' connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A new connection for every request, not closed.
    New,
    /// One idle connection stays open.
    Normal,
    /// A pool within the app.
    Pooled,
    /// A new connection for every request, to Weir.
    Weir,
}

impl Way {
    pub(crate) const ALL: [Way; 4] = [Way::New, Way::Normal, Way::Pooled, Way::Weir];
    /// The ways of the articles, which go to the server itself.
    pub(crate) const DIRECT: [Way; 3] = [Way::New, Way::Normal, Way::Pooled];

    /// The last segment of the endpoint's path.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::New => "new",
            Way::Normal => "normal",
            Way::Pooled => "pooled",
            Way::Weir => "weir",
        }
    }
}

/// Whether the app uses TLS to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    Off,
    On,
}

/// The numbers of connections of a load, as in the articles.
pub(crate) const LOADS: [usize; 2] = [20, 200];
/// The requests of a burst.
pub(crate) const BURST: usize = 200;
/// The connections of a burst: those of a browser to one host, and one for every request.
pub(crate) const BURSTS: [usize; 2] = [6, BURST];
/// The article's limit of open connections.
pub(crate) const OPEN: u32 = 90;
/// The article's limit of idle connections.
pub(crate) const IDLE: u32 = 50;
/// Weir's pool size.
pub(crate) const WEIR_POOL: u32 = 20;
/// The server's limit.
pub(crate) const MAX_CONNECTIONS: u32 = 100;

/// The work of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Builds the app.
    App,
    /// [`BURST`] requests at once.
    Burst { way: Way, connections: usize },
    /// Requests for a fixed time.
    Load { way: Way, connections: usize, tls: Tls },
    /// Requests for a fixed time on `pooled`, with a pool of this size.
    Sweep { size: u32, connections: usize },
}

impl What {
    pub(crate) fn id(self) -> String {
        match self {
            What::App => "app".to_owned(),
            What::Burst { way, connections } => format!("burst-{connections}-{}", way.name()),
            What::Load { way, connections, tls: Tls::Off } => format!("load-{connections}-{}", way.name()),
            What::Load { way, connections, tls: Tls::On } => format!("tls-{connections}-{}", way.name()),
            What::Sweep { size, connections } => format!("pool-{size}-load-{connections}"),
        }
    }

    /// The title for a reader.
    pub(crate) fn title(self) -> String {
        match self {
            What::App => "building the web app".to_owned(),
            What::Burst { way, connections } => {
                format!("{BURST} requests at once on {connections} connections, {}", way.name())
            }
            What::Load { way, connections, tls: Tls::Off } => format!("{connections} at once, {}", way.name()),
            What::Load { way, connections, tls: Tls::On } => {
                format!("{connections} at once, {}, TLS to the server", way.name())
            }
            What::Sweep { size, connections } => format!("{connections} at once, a pool of {size}"),
        }
    }
}

/// The plan for a length and a machine.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    length: Length,
    /// The sizes of the sweep, ascending.
    pub(crate) sizes: Vec<u32>,
    pub(crate) cores: u32,
}

impl Plan {
    pub(crate) fn new(length: Length, cores: usize) -> Plan {
        let cores = u32::try_from(cores).unwrap_or(1);
        let mut sizes = if length == Length::Smoke { vec![cores, OPEN] } else { vec![1, 2, 20, 50, OPEN] };
        sizes.extend((length != Length::Smoke).then_some([cores, 2 * cores]).into_iter().flatten());
        // Larger sizes would measure the server's refusals.
        sizes.retain(|&size| size <= OPEN);
        sizes.sort_unstable();
        sizes.dedup();
        Plan { length, sizes, cores }
    }

    /// How long a load lasts.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_millis(self.length.pick(400, 3_000, 10_000, 10_000))
    }

    /// The number of repetitions of each load.
    pub(crate) fn repetitions(&self) -> u32 {
        self.length.pick(1, 1, 1, 3)
    }

    /// The products in the table.
    pub(crate) fn rows(&self) -> u32 {
        self.length.pick(3_000, 30_000, 30_000, 30_000)
    }

    /// All steps' work, in order.
    pub(crate) fn whats(&self) -> Vec<What> {
        let smoke = self.length == Length::Smoke;
        let mut whats = vec![What::App];
        for connections in BURSTS {
            whats.extend(Way::ALL.map(|way| What::Burst { way, connections }));
        }
        for connections in LOADS {
            whats.extend(Way::ALL.map(|way| What::Load { way, connections, tls: Tls::Off }));
        }
        for connections in LOADS {
            whats.extend(Way::DIRECT.map(|way| What::Load { way, connections, tls: Tls::On }));
        }
        for connections in LOADS.into_iter().filter(|&connections| !smoke || connections == BURST) {
            whats.extend(self.sizes.iter().map(|&size| What::Sweep { size, connections }));
        }
        whats
    }

    /// The steps, with their expected durations.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let load = (self.duration().as_secs_f64() + 0.6) * f64::from(self.repetitions());
        let seconds = |what| match what {
            What::App => 6.0,
            What::Burst { .. } => 1.2,
            What::Load { .. } | What::Sweep { .. } => load,
        };
        let step = |what: What| Step { id: what.id(), title: what.title(), seconds: seconds(what) };
        self.whats().into_iter().map(step).collect()
    }

    /// The work of the step with this id.
    pub(crate) fn find(&self, id: &str) -> Option<What> {
        self.whats().into_iter().find(|what| what.id() == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_found_by_its_id() {
        for length in [Length::Smoke, Length::Quick, Length::Article] {
            let plan = Plan::new(length, 2);
            for what in plan.whats() {
                assert_eq!(plan.find(&what.id()), Some(what));
            }
        }
    }

    #[test]
    fn a_quick_run_takes_two_minutes_and_a_smoke_run_less_than_half() {
        let seconds = |length| Plan::new(length, 2).steps().iter().map(|step| step.seconds).sum::<f64>();
        assert!(seconds(Length::Smoke) < 35.0, "{}", seconds(Length::Smoke));
        assert!(seconds(Length::Quick) < 125.0, "{}", seconds(Length::Quick));
        assert!(seconds(Length::Standard) < 360.0, "{}", seconds(Length::Standard));
    }

    #[test]
    fn sizes_ascend_without_twins_and_fit_the_server() {
        assert_eq!(Plan::new(Length::Quick, 2).sizes, [1, 2, 4, 20, 50, 90]);
        assert_eq!(Plan::new(Length::Quick, 8).sizes, [1, 2, 8, 16, 20, 50, 90]);
        assert_eq!(Plan::new(Length::Quick, 64).sizes, [1, 2, 20, 50, 64, 90]);
    }
}
