//! What a group says: printed as it comes, and kept, so that a page can have it word for word.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::{Error, Outcome};

/// The text of one group.
#[derive(Debug, Default)]
pub(crate) struct Out {
    text: String,
    silent: bool,
}

/// Prints a line and keeps it.
macro_rules! print_line {
    ($out:expr) => { $out.line("") };
    ($out:expr, $($words:tt)*) => { $out.line(format_args!($($words)*)) };
}
pub(crate) use print_line;

impl Out {
    pub(crate) fn new() -> Out {
        Out::default()
    }

    /// An output that is kept, and not printed.
    #[cfg(test)]
    pub(crate) fn silent() -> Out {
        Out { silent: true, ..Out::default() }
    }

    pub(crate) fn line(&mut self, line: impl Display) {
        let line = line.to_string();
        let line = line.trim_end();
        if !self.silent {
            println!("{line}");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    #[cfg(test)]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Puts what was said into a page, between the two marks of this group, in place of what stood there.
    pub(crate) fn write_into(&self, page: &Path, group: &str) -> Outcome<()> {
        let text = fs::read_to_string(page).map_err(|e| Error::at(format!("read {}", page.display()), e))?;
        let said = format!("{}\n\n{}", stamp(), self.text.trim());
        let replaced = replaced(&text, group, &said).ok_or_else(|| {
            let (begin, end) = marks(group);
            Error::new(format!("{} has no place for it: the lines {begin} and {end}", page.display()))
        })?;
        fs::write(page, replaced).map_err(|e| Error::at(format!("write {}", page.display()), e))
    }
}

/// When, where and by which command a group was measured.
fn stamp() -> String {
    let date = Command::new("date").arg("+%F").output().map(|output| output.stdout).unwrap_or_default();
    let file = |path| fs::read_to_string(path).unwrap_or_default();
    let processors = file("/proc/cpuinfo");
    let model =
        processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!(
        "{}, {cores} × {}, Linux {}: make bench ARGS='{}'",
        String::from_utf8_lossy(&date).trim(),
        model.unwrap_or(std::env::consts::ARCH),
        file("/proc/sys/kernel/osrelease").trim(),
        arguments.join(" ")
    )
}

fn marks(group: &str) -> (String, String) {
    (format!("<!-- weir-bench {group} -->"), format!("<!-- end of {group} -->"))
}

fn replaced(page: &str, group: &str, text: &str) -> Option<String> {
    let (begin, end) = marks(group);
    let from = page.find(&begin)? + begin.len();
    let to = from + page[from..].find(&end)?;
    Some(format!("{}\n```\n{}\n```\n{}", &page[..from], text.trim(), &page[to..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_takes_the_place_of_what_stood_between_its_marks() {
        let page = "# A\n<!-- weir-bench idle -->\nold\n<!-- end of idle -->\nhand-written\n";
        let new = replaced(page, "idle", "\nnew\nlines\n\n").unwrap();
        let expected = "# A\n<!-- weir-bench idle -->\n```\nnew\nlines\n```\n<!-- end of idle -->\nhand-written\n";
        assert_eq!(new, expected);
        assert_eq!(replaced(&new, "idle", "new\nlines"), Some(new.clone()), "it can be done again");
        assert_eq!(replaced(page, "tail", "x"), None);
    }

    #[test]
    fn lines_are_kept_without_what_trails() {
        let mut out = Out::silent();
        print_line!(out, "{:<5}", "a");
        print_line!(out);
        assert_eq!(out.text(), "a\n\n");
    }
}
