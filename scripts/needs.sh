#!/usr/bin/env bash
# What a target of the Makefile needs, checked before anything is built: scripts/needs.sh TARGET [--yes]. It prints each need and
# what this machine has. A missing PostgreSQL is downloaded into a cache folder, after a question; with --yes without.
# Exit status: 0 if all is here, 1 if something is missing, 3 if only PostgreSQL can't run here (root that may not become another
# user).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=$1
shift
yes=()
for word in "$@"; do
    [ "$word" = --yes ] && yes=(--yes)
done
PATH="$PATH:${CARGO_HOME:-${HOME-}/.cargo}/bin"
rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

missing() {
    echo "make $target: $*" >&2
    exit 1
}

echo "make $target needs Rust $rust or newer, a C compiler and PostgreSQL's server programs. Here:"
command -v cargo >/dev/null || missing "cargo is missing; install Rust from https://rustup.rs"
# The default toolchain may be missing although rustup is here.
version=$(cargo --version) || missing "cargo does not run; \`rustup default stable\` installs a toolchain"
version=$(cut -d' ' -f2 <<<"$version")
if [ "$(printf '%s\n' "$rust" "$version" | sort -V | head -n 1)" != "$rust" ]; then
    missing "Rust $version is too old; \`rustup update stable\` installs a newer one"
fi
echo "  Rust $version"
compiler=${CC:-cc}
if ! echo '#include <stdlib.h>
int main(void) { return 0; }' | "$compiler" -x c - -o /dev/null 2>/dev/null; then
    missing "there is no C compiler \`$compiler\` that works; install it:
  Debian, Ubuntu   sudo apt-get install gcc libc6-dev
  Fedora, RHEL     sudo dnf install gcc glibc-devel
  Alpine           apk add gcc musl-dev
  macOS            xcode-select --install"
fi
echo "  a C compiler, $compiler"

# The program that finds PostgreSQL is a part of the build, with the features of the rest: nothing is built twice.
case $target in
demo) selection=(-p weir -p weir-demo -p weir-pglocal) ;;
*) selection=(--workspace --features "weir-tests/postgres weir-lab/servers") ;;
esac
echo "Building the program that finds PostgreSQL, a part of the build:"
cargo build "${selection[@]}" --bin weir-pglocal || exit 1
"$(scripts/target.sh)/debug/weir-pglocal" "${yes[@]}" "make $target"
