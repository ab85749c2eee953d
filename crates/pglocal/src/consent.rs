//! The question before PostgreSQL is downloaded or installed.

use std::io::{IsTerminal, Write, stderr, stdin};

use crate::{Error, HOW_TO_INSTALL, Offer};

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// `--yes` was given: everything may be done.
    Given,
    /// A person at the terminal is asked.
    Ask,
    /// There is no terminal: nothing may be done.
    Unavailable,
}

impl Consent {
    /// `yes`: the command line has `--yes`.
    pub fn new(yes: bool) -> Self {
        match yes {
            true => Consent::Given,
            false if stdin().is_terminal() && stderr().is_terminal() => Consent::Ask,
            false => Consent::Unavailable,
        }
    }

    /// Whether this may be done; `with_yes` is the command that consents, for who has no terminal.
    ///
    /// # Errors
    ///
    /// There is no terminal to ask on; with what to do.
    pub fn decide(self, offer: &Offer, with_yes: &str) -> Result<bool, Error> {
        match self {
            Consent::Given => Ok(true),
            Consent::Unavailable => Err(Error::new(format!(
                "there is no PostgreSQL on this machine, and no terminal to ask whether to get it.\n\
                 With `{with_yes}`, this would be done: {offer}.\n{HOW_TO_INSTALL}"
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
    fn without_a_terminal_nothing_is_done_and_the_command_that_consents_is_named() {
        let offer = Offer::of("Do it");
        let error = Consent::Unavailable.decide(&offer, "make demo ARGS=--yes").unwrap_err().to_string();
        assert!(error.contains("With `make demo ARGS=--yes`, this would be done: Do it."), "{error}");
        assert!(Consent::Given.decide(&offer, "x").unwrap());
    }

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
