//! What tokens are made of: variables of the environment, files, the time, and answers of services.

use std::path::Path;

use weir_fetch::{SendHttp, read_text, sender};

use crate::clocks::ClockReading;

/// The longest file with a token or credentials, in bytes.
const LONGEST: u64 = 1 << 20;

/// A variable of the environment.
type Variable = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;
/// The time.
type Clock = Box<dyn Fn() -> ClockReading + Send + Sync>;

/// See the head of the file.
pub struct Outside {
    /// Sends requests.
    pub(crate) send: SendHttp,
    variable: Variable,
    clock: Clock,
}

impl Outside {
    /// This process's environment.
    pub fn new() -> Outside {
        Outside::with(|name| std::env::var(name).ok(), ClockReading::now)
    }

    /// Another environment and another clock, for tests.
    pub fn with(
        variable: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        clock: impl Fn() -> ClockReading + Send + Sync + 'static,
    ) -> Outside {
        Outside { send: sender(), variable: Box::new(variable), clock: Box::new(clock) }
    }

    /// This moment.
    pub(crate) fn now(&self) -> ClockReading {
        (self.clock)()
    }

    /// A variable that is not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// The text of a file with a secret, without the spaces around it.
    ///
    /// # Errors
    /// It can't be read, or is empty: what it is, its path, and why.
    pub(crate) fn secret(&self, what: &str, path: &Path) -> Result<String, String> {
        let failed = |why: &dyn std::fmt::Display| format!("{what} {} can't be read: {why}", path.display());
        let text = read_text(path, LONGEST).map_err(|error| failed(&error))?;
        match text.trim() {
            "" => Err(failed(&"it is empty")),
            text if text.contains(char::is_control) => Err(failed(&"it holds more than one line")),
            text => Ok(text.to_owned()),
        }
    }

    /// The text of a file that may not exist.
    ///
    /// # Errors
    /// It exists and can't be read.
    pub(crate) fn text(&self, path: &Path) -> Result<Option<String>, String> {
        match read_text(path, LONGEST) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{} can't be read: {error}", path.display())),
        }
    }
}

impl Default for Outside {
    fn default() -> Outside {
        Outside::new()
    }
}
