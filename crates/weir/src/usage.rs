//! Errors of the command line.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Without clap's tip to pass an unknown flag as a value, which no argument here expects; a similar flag is still
/// named. With a tip for what is no command here.
pub(crate) fn without_misleading_tip(mut error: clap::Error) -> clap::Error {
    match error.kind() {
        ErrorKind::UnknownArgument => {
            error.remove(ContextKind::Suggested);
        }
        ErrorKind::InvalidSubcommand => {
            let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
            if let Some(tip) = tip(word) {
                error.remove(ContextKind::SuggestedSubcommand);
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
            }
        }
        _ => {}
    }
    error
}

/// What to type instead of a word that other programs have as a command.
fn tip(word: &str) -> Option<String> {
    let is_file = Path::new(word).extension().is_some_and(|end| end == "toml" || end == "ini");
    match word {
        _ if is_file => Some(format!("`weir serve {word}` serves this file, `weir check {word}` checks it")),
        "run" | "start" => Some("`weir serve FILE` runs until a signal ends it".to_owned()),
        "stop" => Some("`weir drain FILE` ends the running process once its clients have left".to_owned()),
        "reload" => Some("`systemctl reload weir`, SIGHUP, or RELOAD in the console reload the file".to_owned()),
        _ => None,
    }
}
