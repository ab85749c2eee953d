//! The question before PostgreSQL is downloaded or installed.

use std::io::{IsTerminal, Write, stderr, stdin};

use weir_pglocal::{Error, Offer};

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consent {
    /// `--yes` was given: everything may be done.
    Given,
    /// A person at the terminal is asked.
    Ask,
    /// There is no terminal: nothing may be done.
    Unavailable,
}

impl Consent {
    pub(super) fn new(yes: bool) -> Self {
        match yes {
            true => Consent::Given,
            false if stdin().is_terminal() && stderr().is_terminal() => Consent::Ask,
            false => Consent::Unavailable,
        }
    }

    /// Whether this may be done.
    ///
    /// # Errors
    ///
    /// There is no terminal to ask on; with what to do.
    pub(super) fn decide(self, offer: &Offer) -> Result<bool, Error> {
        match self {
            Consent::Given => Ok(true),
            Consent::Unavailable => Err(Error::new(format!(
                "there is no PostgreSQL on this machine, and no terminal to ask whether to get it.\n\
                 With --yes, this would be done: {offer}.\n{}",
                weir_pglocal::HOW_TO_INSTALL
            ))),
            Consent::Ask => {
                eprint!("There is no PostgreSQL on this machine. {offer}? [y/N] ");
                // A terminal that is gone answers nothing, which is no.
                let _ = stderr().flush();
                let mut line = String::new();
                let _ = stdin().read_line(&mut line);
                Ok(is_yes(&line))
            }
        }
    }
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        for yes in ["y\n", "Y\n", " yes\n", "YES"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "no\n", "ye\n", "yesterday\n"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }
}
