//! The Weir under test: `WEIR_BIN`, or the one that cargo builds beside this test.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of the program; built on first use.
///
/// # Panics
///
/// When it can't be built.
pub fn weir_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| env::var_os("WEIR_BIN").map_or_else(build, PathBuf::from))
}

/// Builds with the profile and into the folder of the current program: `…/target/debug/deps/postgres-1a2b` for a test,
/// `…/target/debug/with_servers` for another program.
fn build() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let folder = test.parent().expect("a program is in a folder");
    let profile_folder = if folder.ends_with("deps") { folder.parent() } else { Some(folder) };
    let profile_folder = profile_folder.expect("cargo's folders are nested");
    let target = profile_folder.parent().expect("cargo's folders are nested");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // With the whole workspace: for `weir` alone, libraries would have other features, and be built twice.
    cargo.args(["build", "--quiet", "--workspace", "--bin", "weir"]).env("CARGO_TARGET_DIR", target);
    if profile_folder.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(status.success(), "cargo could not build weir");
    profile_folder.join("weir")
}
