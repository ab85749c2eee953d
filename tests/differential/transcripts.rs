//! The transcripts of `tests/transcripts`, played directly and through Weir in the modes that each names.

use std::fs;
use std::path::Path;

use weir_tests::{Mode, Setup, Site, users};

use crate::play::{End, Played, Stage, TIMEOUT, play};
use crate::run::{apart, make_common, make_schema};
use crate::script::{MODES, Script};
use crate::show::side_by_side;

/// Each file with its name, in order.
fn transcripts() -> Vec<(String, Script)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a folder can be read").path()).collect();
    paths.sort();
    let only = std::env::var("WEIR_TRANSCRIPT").unwrap_or_default();
    let read = |path: &Path| {
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let script = Script::read(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, script.with_logins())
    };
    paths.iter().map(|path| read(path)).filter(|(name, _)| name.contains(&only)).collect()
}

/// Plays all transcripts of a mode through a pool of this size, as the client with this number.
fn play_all(number: usize, mode: Mode, size: u32, change: impl FnOnce(Setup) -> Setup) {
    let direct = apart();
    let setup = Setup::new(mode)
        .auth("trust")
        .server_user(users::TRUSTED)
        .size(size)
        .pool("warn_on_dirty = false")
        .pool("require_auth = \"any\"");
    let weir = Site::with(change(setup), mode);
    make_common(&direct);
    make_common(&weir);
    let mut failures = Vec::new();
    let mut bytes = 0;
    let scripts = transcripts();
    let scripts: Vec<_> = scripts.iter().filter(|(_, script)| script.modes.contains(&mode)).collect();
    for (nth, (name, script)) in scripts.iter().enumerate() {
        make_schema(&direct, number);
        make_schema(&weir, number);
        let stage = Stage { direct: &direct, weir: &weir, number, timeout: TIMEOUT };
        let played: Played = play(script, stage, nth as u64 + 1);
        bytes += played.bytes;
        if played.end != End::Alike {
            failures.push(format!("tests/transcripts/{name}.txt differs\n{}", side_by_side(&played)));
        }
    }
    println!(
        "transcripts: {mode} mode: {} files, {bytes} bytes compared, {} differences",
        scripts.len(),
        failures.len()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn transcripts_are_answered_alike_in_session_mode() {
    play_all(60, Mode::Session, 10, |setup| setup);
}

#[test]
fn transcripts_are_answered_alike_in_transaction_mode() {
    play_all(61, Mode::Transaction, 3, |setup| setup);
}

#[test]
fn transcripts_are_answered_alike_in_transaction_mode_with_room_for_one_statement() {
    play_all(62, Mode::Transaction, 2, |setup| setup.pool("max_prepared_statements = 1"));
}

#[test]
fn transcripts_are_answered_alike_in_statement_mode() {
    play_all(63, Mode::Statement, 1, |setup| setup);
}

#[test]
fn transcripts_are_answered_alike_in_auto_mode() {
    play_all(64, Mode::Auto, 10, |setup| setup.limit("server_round_robin = true\nmax_pinned = 0"));
}

#[test]
fn there_are_transcripts_for_every_mode() {
    let scripts = transcripts();
    for (name, mode) in MODES {
        assert!(scripts.iter().any(|(_, script)| script.modes.contains(&mode)), "none for {name}");
    }
}
