//! What `weir -V` and `weir --version` print.
//!
//! The commit is the one that `make packages` and `make build` name in `WEIR_COMMIT` while they compile.

use std::sync::LazyLock;

/// The version. A debug build is several times slower, so its version names it: its figures must not be taken for a
/// release's.
pub(crate) const SHORT: &str = if cfg!(debug_assertions) {
    concat!(env!("CARGO_PKG_VERSION"), " (debug build)")
} else {
    env!("CARGO_PKG_VERSION")
};

/// The commit, where the build knew it.
const COMMIT: &str = match option_env!("WEIR_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// A static program can't load libpam.
const PAM: &str = if cfg!(target_feature = "crt-static") { "" } else { ", PAM" };

const LIBC: &str = if cfg!(target_env = "musl") { "musl" } else { "glibc" };

/// The version, the commit, the platform, and what is compiled in.
pub(crate) fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(text);
    &TEXT
}

fn text() -> String {
    let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
    format!(
        "{SHORT}\ncommit:   {COMMIT}\nplatform: {os} {arch}, {LIBC}\nfeatures: epoll, io_uring, TLS 1.2 and 1.3 (aws-lc), \
         LDAP{PAM}, OAuth, HTTP API and panel"
    )
}
