//! Figures of the process as the client libraries of Prometheus name them (its documentation, "Process metrics"), from
//! the kernel (proc(5)). A figure that the kernel does not give is left out.

use std::fs;
use std::path::Path;

use super::family::{Family, Sink, Unit};

const PROC: &str = "/proc/self";

/// The figures now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Process {
    cpu_seconds: Option<f64>,
    /// Seconds since 1970.
    started: Option<f64>,
    resident: Option<u64>,
    virtual_size: Option<u64>,
    descriptors: Option<u64>,
    most_descriptors: Option<u64>,
}

impl Process {
    pub(super) fn now() -> Process {
        let read = |name: &str| fs::read_to_string(Path::new(PROC).join(name)).unwrap_or_default();
        let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let page = rustix::param::page_size() as u64;
        Process {
            descriptors: open_descriptors(),
            ..Process::of(&read("stat"), &read("statm"), &read("limits"), &boot, (ticks, page))
        }
    }

    /// `ticks`: how many of the clock are a second; `page`: its size in bytes.
    fn of(stat: &str, statm: &str, limits: &str, boot: &str, (ticks, page): (f64, u64)) -> Process {
        // The name of the program is in brackets, and may contain any character.
        let fields: Vec<&str> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
        let field = |at: usize| fields.get(at).and_then(|text| text.trim().parse::<f64>().ok());
        let pages = |at: usize| statm.split(' ').nth(at).and_then(|text| text.parse::<u64>().ok());
        let booted = boot.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
        let most = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok());
        Process {
            cpu_seconds: field(11).zip(field(12)).map(|(user, system)| (user + system) / ticks),
            started: field(19).zip(booted).map(|(after, booted)| booted + after / ticks),
            resident: pages(1).map(|pages| pages * page),
            virtual_size: pages(0).map(|pages| pages * page),
            descriptors: None,
            most_descriptors: most,
        }
    }

    pub(super) fn write(&self, to: &mut dyn Sink) {
        if let Some(seconds) = self.cpu_seconds {
            let help = "CPU time of all threads, of user and system";
            to.single(Family::counter("process_cpu", help).in_seconds(), seconds);
        }
        let started = Family::gauge("process_start_time", "When the process started, since 1970").in_seconds();
        let memory = |name, help| Family::gauge(name, help).in_unit(Unit::Bytes);
        let gauges = [
            (started, self.started),
            (memory("process_resident_memory", "Resident memory"), self.resident.map(|bytes| bytes as f64)),
            (memory("process_virtual_memory", "Virtual memory"), self.virtual_size.map(|bytes| bytes as f64)),
            (Family::gauge("process_open_fds", "Open file descriptors"), self.descriptors.map(|count| count as f64)),
            (Family::gauge("process_max_fds", "The most of them"), self.most_descriptors.map(|count| count as f64)),
        ];
        for (family, value) in gauges {
            value.into_iter().for_each(|value| to.single(family, value));
        }
    }
}

/// How many descriptors are open. Since Linux 6.2 the folder's size says it; before, its entries are counted, of which one
/// is the folder itself.
fn open_descriptors() -> Option<u64> {
    let folder = Path::new(PROC).join("fd");
    match fs::metadata(&folder).ok()?.len() {
        0 => Some(fs::read_dir(folder).ok()?.count().saturating_sub(1) as u64),
        count => Some(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_figures_are_read_whatever_the_programs_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 500 0 3 0 250 50 0 0 20 0 4 0 1000 9000000 300 18446744073709551615";
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096                 files\n";
        let process =
            Process::of(stat, "2000 300 100 1 0 500 0\n", limits, "cpu 1 2\nbtime 1700000000\n", (100.0, 4096));
        let expected = Process {
            cpu_seconds: Some(3.0),
            started: Some(1_700_000_010.0),
            resident: Some(300 * 4096),
            virtual_size: Some(2000 * 4096),
            descriptors: None,
            most_descriptors: Some(1024),
        };
        assert_eq!(process, expected);
        assert_eq!(Process::of("", "", "", "", (100.0, 4096)), Process::default());
        let open = open_descriptors();
        let file = fs::File::open("/proc/self/stat").expect("it is there");
        assert!(open_descriptors() > Some(0) && open > Some(0), "{open:?}, {file:?}");
    }
}
