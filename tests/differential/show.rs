//! Shows a failure: the messages directly and through Weir side by side, and the script for a transcript file.

use std::fmt::Write as _;

use crate::play::{End, LogLine, Played};
use crate::script::Script;

/// The width of a column.
const WIDTH: usize = 58;
/// The most lines before the difference.
const BEFORE: usize = 60;

/// The last messages, up to the difference.
pub(crate) fn side_by_side(played: &Played) -> String {
    let mut text = String::new();
    let from = played.log.len().saturating_sub(BEFORE);
    if from > 0 {
        let _ = writeln!(text, "  … {from} lines before");
    }
    let _ = writeln!(text, "    {:WIDTH$} | through Weir", "directly");
    for (number, entry) in played.log.iter().enumerate().skip(from) {
        let _ = match entry {
            LogLine::Client { step, line } => writeln!(text, "{:3} > {}", step + 1, short(line, 2 * WIDTH)),
            LogLine::Servers { direct, weir, at } => {
                let differs = number + 1 == played.log.len() && played.end != End::Alike;
                let _ = writeln!(
                    text,
                    "  {} {:WIDTH$} | {}",
                    if differs { '!' } else { ' ' },
                    short(direct, WIDTH),
                    short(weir, WIDTH)
                );
                if differs {
                    writeln!(text, "    at byte {} of its answers directly, {} through Weir", at[0], at[1])
                } else {
                    Ok(())
                }
            }
        };
    }
    match &played.end {
        End::Alike => {}
        End::NoAnswer => {
            text.push_str("    PostgreSQL alone says nothing more: the script waits for what can't come\n")
        }
        End::Differ { direct, weir } => {
            let _ = writeln!(text, "  directly:     {direct}\n  through Weir: {weir}");
        }
    }
    text
}

/// The script as a file for `tests/transcripts`.
pub(crate) fn transcript(script: &Script) -> String {
    script.to_string().lines().map(|line| format!("    {line}\n")).collect()
}

fn short(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}
