//! The terminal: whether there is one, colours in moderation, and columns.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stdout};

use weir_base::Printable;

/// Prints a line. Whoever has stopped reading (`weir check … | head`) misses the rest, and nothing breaks.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(stdout(), "{line}");
}

/// What standard output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Somebody looks at it, and lines may be painted anew.
    Terminal,
    /// A pipe or a file: plain lines, once.
    Plain,
}

/// How to write to standard output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    pub(crate) output: Output,
    colours: bool,
}

impl Term {
    /// Looks at standard output and the environment; see <https://no-color.org>.
    pub(crate) fn stdout() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let output = if stdout().is_terminal() && !dumb { Output::Terminal } else { Output::Plain };
        Term { output, colours: output == Output::Terminal && !set("NO_COLOR") }
    }

    /// For tests: no terminal.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Term { output: Output::Plain, colours: false }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.paint("36", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colours && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Aligns rows in columns two blanks apart; columns named in `right` are pushed to the right. No blanks at a line's end. What
/// cells hold may have been named by anybody, so it commands no terminal.
pub(crate) fn columns(rows: &[Vec<String>], right: &[usize]) -> Vec<String> {
    let cells = |row: &Vec<String>| row.iter().map(|cell| Printable(cell).to_string()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if right.contains(&column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A bar of at most `width` characters for `part` of `whole`, drawn to an eighth of a character.
pub(crate) fn bar(part: usize, whole: usize, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part.min(whole) * width * 8).checked_div(whole).unwrap_or(0);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// A line of blocks as high as the values are, against the highest of them; zero is a low dot.
pub(crate) fn sparkline(values: &[usize]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let level = |value: usize| if value == 0 { '·' } else { LEVELS[(value * 8).div_ceil(most).clamp(1, 8) - 1] };
    values.iter().map(|value| level(*value)).collect()
}

/// At most `count` values for many: of neighbours the highest counts.
pub(crate) fn squeeze(values: &[usize], count: usize) -> Vec<usize> {
    let together = values.len().div_ceil(count.max(1)).max(1);
    values.chunks(together).filter_map(|chunk| chunk.iter().max().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let lines = columns(&[row(["pool", "size", "mode"]), row(["a", "20", "transaction"])], &[1]);
        assert_eq!(lines, ["pool  size  mode", "a       20  transaction"]);
    }

    #[test]
    fn a_cell_commands_no_terminal() {
        let lines = columns(&[vec!["a\u{1b}]0;x\u{7}\u{202e}".to_owned(), "1".to_owned()]], &[]);
        assert_eq!(lines, ["a\\u{1b}]0;x\\u{7}\\u{202e}  1"]);
    }

    #[test]
    fn a_bar_is_full_for_the_whole_and_empty_for_nothing() {
        assert_eq!(bar(150, 150, 4), "████");
        assert_eq!(bar(75, 150, 3), "█▌");
        assert_eq!(bar(0, 150, 4), "");
        assert_eq!(bar(1, 0, 4), "");
    }

    #[test]
    fn a_sparkline_shows_its_highest_value_full() {
        assert_eq!(sparkline(&[0, 1, 8, 4]), "·▁█▄");
        assert_eq!(sparkline(&[]), "");
    }

    #[test]
    fn many_values_are_squeezed_by_their_highest() {
        assert_eq!(squeeze(&[1, 5, 2, 3, 9], 3), [5, 3, 9]);
        assert_eq!(squeeze(&[1, 2], 40), [1, 2]);
        assert!(squeeze(&[], 40).is_empty());
    }

    #[test]
    fn without_a_terminal_nothing_is_painted() {
        let term = Term { output: Output::Plain, colours: false };
        assert_eq!(term.red("x"), "x");
    }
}
