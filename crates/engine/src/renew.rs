//! What a reload can't change: it is said, and the old values stay, so that the configuration in force is the one shown.
//!
//! Must not know how a configuration is spread or taken over.

use std::sync::Arc;

use weir_config::{Config, differences, keep_fixed};

use crate::Engine;
use crate::port::{Io, Level};
use crate::say::say;

impl Engine {
    /// A configuration that was read again, as far as it can take effect without a restart.
    pub(crate) fn renewed<I: Io>(&self, read: Arc<Config>, io: &mut I) -> Arc<Config> {
        let fixed = differences(&self.config, &read).restart;
        if fixed.is_empty() {
            return read;
        }
        for change in fixed {
            let (key, old, new) = (change.key, change.old, change.new);
            say(Level::Warning, format_args!("{key} stays \"{old}\" until a restart, which \"{new}\" needs"), io);
        }
        let mut kept = Config::clone(&read);
        keep_fixed(&self.config, &mut kept);
        Arc::new(kept)
    }
}
