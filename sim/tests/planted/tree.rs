//! A copy of the sources with all bugs in it, each disabled unless an environment variable names it.
//!
//! Owns `target/planted`. Only files that change are written, so a second build is short. The copy is built with the
//! same settings into a target folder of its own: cargo takes libraries of two trees in one folder for the same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use crate::mutants::{MUTANTS, Mutant};

/// The environment variable that names the enabled bug.
pub(crate) const SWITCH: &str = "WEIR_PLANTED";

const BINARY: &str = "weir-sim-planted";

/// The function that the planted code calls; only the copy has it.
const PLANTED: &str = r#"
/// Whether this bug is switched on.
pub fn planted(bug: &str) -> bool {
    static BUG: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    BUG.get_or_init(|| std::env::var("WEIR_PLANTED").unwrap_or_default()) == bug
}
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above").to_owned()
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder is above").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The edits of a bug whose text is not found exactly once.
pub(crate) fn misfits(mutant: &Mutant) -> Vec<String> {
    let count = |file: &str, text: &str| read(&root().join(file)).matches(text).count();
    let fits = mutant.edits.iter().map(|edit| (edit, count(edit.file, edit.from)));
    let wrong = fits.filter(|(_, count)| *count != 1);
    wrong.map(|(edit, count)| format!("{:?}: {} times in {}:\n{}", mutant.name, count, edit.file, edit.from)).collect()
}

/// Creates the copy and builds its simulator, once; returns the program's path.
pub(crate) fn build() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build_now)
}

fn build_now() -> PathBuf {
    let tree = target().join("planted");
    let mut kept = BTreeSet::new();
    copy(&root(), &tree, &mut kept);
    remove_others(&tree, &kept);
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--profile", "sim", "--bin", BINARY, "--manifest-path"])
        .arg(tree.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target().join("planted-build"))
        .output()
        .expect("cargo runs");
    assert!(build.status.success(), "the copy does not build:\n{}", String::from_utf8_lossy(&build.stderr));
    target().join("planted-build/sim").join(BINARY).with_extension(env::consts::EXE_EXTENSION)
}

fn copy(from: &Path, to: &Path, kept: &mut BTreeSet<PathBuf>) {
    if from.is_dir() {
        for entry in fs::read_dir(from).expect("a folder of sources can be read") {
            let name = entry.expect("its entries, too").file_name();
            let hidden = name.to_string_lossy().starts_with('.');
            if !hidden && name != "target" && name != "node_modules" {
                copy(&from.join(&name), &to.join(&name), kept);
            }
        }
        return;
    }
    let bytes = fs::read(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    let relative = from.strip_prefix(root()).expect("sources are in the workspace");
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => changed(relative, text).into_bytes(),
        Err(other) => other.into_bytes(),
    };
    kept.insert(to.to_owned());
    if fs::read(to).ok().as_deref() != Some(&bytes) {
        fs::create_dir_all(to.parent().expect("a file is in a folder")).expect("folders can be made");
        fs::write(to, bytes).expect("the copy can be written");
    }
}

/// The text of a file with its bugs planted.
fn changed(file: &Path, mut text: String) -> String {
    for mutant in MUTANTS {
        for edit in mutant.edits.iter().filter(|edit| Path::new(edit.file) == file) {
            let to = edit.to.replace("PLANTED", &format!("weir_base::planted({:?})", mutant.name));
            text = text.replacen(edit.from, &to, 1);
        }
    }
    if file == Path::new("crates/base/src/lib.rs") {
        text.push_str(PLANTED);
    }
    if file == Path::new("sim/Cargo.toml") {
        text = text.replacen("[package]\n", "[package]\nautobins = false\n", 1);
        text.push_str(&format!("\n[[bin]]\nname = \"{BINARY}\"\npath = \"src/main.rs\"\n"));
    }
    text
}

fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            remove_others(&path, kept);
        } else if !kept.contains(&path) {
            fs::remove_file(&path).expect("an old file can be removed");
        }
    }
}
