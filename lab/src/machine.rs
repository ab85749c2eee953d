//! The machine of a report, as the kernel reports it, and the share of it that other programs used.

use std::fs;

use crate::model::Machine;

/// This machine.
pub(crate) fn here() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let uname = nix::sys::utsname::uname();
    let kernel = uname.map(|name| {
        let word = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
        format!("{} {}", word(name.sysname()), word(name.release()))
    });
    Machine {
        cores: cores(),
        processor: field(&read("/proc/cpuinfo"), "model name", ':').unwrap_or_default(),
        memory_bytes: memory(&read("/proc/meminfo")),
        kernel: kernel.unwrap_or_default(),
        system: field(&read("/etc/os-release"), "PRETTY_NAME", '=').unwrap_or_default(),
    }
}

/// The processors that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn memory(meminfo: &str) -> u64 {
    let line = field(meminfo, "MemTotal", ':').unwrap_or_default();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

/// The value of the first line `NAME <separator> VALUE`, without quotes.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then_some(value)
    })?;
    Some(value.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_names_are_read_from_the_kernels_words() {
        assert_eq!(memory("MemTotal:       24576 kB\nMemFree: 3 kB\n"), 24576 * 1024);
        assert_eq!(field("NAME=\"x\"\nPRETTY_NAME=\"Debian 12\"\n", "PRETTY_NAME", '=').as_deref(), Some("Debian 12"));
    }

    #[test]
    fn this_machine_has_a_core_memory_and_a_kernel() {
        let machine = here();
        assert!(machine.cores >= 1 && machine.memory_bytes > 0 && !machine.kernel.is_empty(), "{machine:?}");
    }
}
