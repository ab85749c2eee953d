//! Runs every file of the corpora, and every input that once failed, through the targets' bodies: without libFuzzer, in
//! an ordinary test run. Checks that the two lists of targets are the same.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use weir_fuzz::TARGETS;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// The files of a folder, by name; none if it is not there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<_> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

fn replay(kind: &str) -> usize {
    let (mut count, mut failed) = (0, Vec::new());
    for target in TARGETS {
        for file in files(&folder(kind).join(target.name)) {
            let data = fs::read(&file).expect("a file");
            count += 1;
            if catch_unwind(|| (target.run)(&data)).is_err() {
                failed.push(format!("{}: {}", target.name, file.display()));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {count} inputs fail:\n{}", failed.len(), failed.join("\n"));
    count
}

#[test]
fn no_file_of_a_corpus_fails() {
    let count = replay("corpus");
    assert!(count >= TARGETS.len(), "the corpora exist: {count} files");
}

#[test]
fn no_input_that_once_failed_fails_again() {
    replay("regressions");
}

#[test]
fn every_target_has_its_file_its_binary_and_its_corpus() {
    let listed: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(listed.len(), TARGETS.len(), "a name twice");
    let stems = files(&folder("fuzz_targets")).into_iter();
    let stems: BTreeSet<String> = stems.map(|f| f.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(stems, listed, "fuzz/fuzz_targets has a file for each");
    let manifest = fs::read_to_string(folder("Cargo.toml")).expect("a manifest");
    for name in &listed {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml lacks {name}");
        let source = fs::read_to_string(folder("fuzz_targets").join(name).with_extension("rs")).expect("a source");
        assert!(source.contains(&format!("weir_fuzz::run(\"{name}\", data)")), "{name} runs another target");
        assert!(!files(&folder("corpus").join(name)).is_empty(), "fuzz/corpus lacks {name}");
    }
}
