//! Standard output for commands: whether it is a terminal, colours, columns.
//!
//! Used by `weir` and its companion programs. Writes to standard output only in [`print_line`].

use std::fmt::Display;
use std::io::{IsTerminal, Write, stdout};
use std::str::FromStr;

use weir_base::Printable;

/// Prints a line to standard output. A closed pipe (`weir check … | head`) is no error: the rest is dropped.
pub fn print_line(line: impl Display) {
    let _ = writeln!(stdout(), "{line}");
}

/// What standard output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A terminal: lines may be painted over.
    Terminal,
    /// A pipe or a file: plain lines, each once.
    Plain,
}

/// When to use colours: the value of `--color`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ColorWhen {
    /// On a terminal, unless `NO_COLOR` is set; see <https://no-color.org>.
    #[default]
    Auto,
    /// In a pipe or a file, too.
    Always,
    /// Nowhere.
    Never,
}

impl ColorWhen {
    /// The words of the command line.
    pub const WORDS: [&'static str; 3] = ["auto", "always", "never"];
}

impl FromStr for ColorWhen {
    type Err = String;

    fn from_str(word: &str) -> Result<ColorWhen, String> {
        match word {
            "auto" => Ok(ColorWhen::Auto),
            "always" => Ok(ColorWhen::Always),
            "never" => Ok(ColorWhen::Never),
            _ => Err(format!("one of {}", ColorWhen::WORDS.join(", "))),
        }
    }
}

/// How to write to standard output.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// What standard output is.
    pub output: Output,
    colours: bool,
}

impl Term {
    /// Looks at standard output and the environment.
    pub fn stdout(color: ColorWhen) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let output = if stdout().is_terminal() && !dumb { Output::Terminal } else { Output::Plain };
        let colours = match color {
            ColorWhen::Auto => output == Output::Terminal && !set("NO_COLOR"),
            ColorWhen::Always => true,
            ColorWhen::Never => false,
        };
        Term { output, colours }
    }

    /// No terminal and no colours; for tests.
    pub fn plain() -> Self {
        Term { output: Output::Plain, colours: false }
    }

    /// Bold text.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Dimmed text.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Red text.
    pub fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Green text.
    pub fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Yellow text.
    pub fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Cyan text.
    pub fn cyan(self, text: &str) -> String {
        self.paint("36", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colours && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Aligns rows in columns two blanks apart, those with an index in `right` to the right; no trailing blanks. Control
/// characters in cells are escaped: names of pools and users come from others.
pub fn columns(rows: &[Vec<String>], right: &[usize]) -> Vec<String> {
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
    fn control_characters_in_a_cell_are_escaped() {
        let lines = columns(&[vec!["a\u{1b}]0;x\u{7}\u{202e}".to_owned(), "1".to_owned()]], &[]);
        assert_eq!(lines, ["a\\u{1b}]0;x\\u{7}\\u{202e}  1"]);
    }

    #[test]
    fn without_a_terminal_there_are_no_colours_unless_they_are_wanted() {
        let term = Term { output: Output::Plain, colours: false };
        assert_eq!(term.red("x"), "x");
        assert_eq!(Term::stdout(ColorWhen::Never).red("x"), "x");
        assert_eq!(Term::stdout(ColorWhen::Always).red("x"), "\x1b[31mx\x1b[0m");
        assert!(
            ColorWhen::WORDS.iter().all(|word| word.parse::<ColorWhen>().is_ok()) && "".parse::<ColorWhen>().is_err()
        );
    }
}
