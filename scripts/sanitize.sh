#!/usr/bin/env bash
# The tests of the unsafe crates, and of those that read bytes of peers, under AddressSanitizer; `make sanitize` calls it. See --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'TEXT'
scripts/sanitize.sh [CRATE…]

Runs the tests of weir-uring, weir-pam, weir-pgwire and weir-session, or of the crates that are named, with AddressSanitizer. First
it shows that an error is found: a program that reads freed memory must fail. Leaks are not reported: a ring that the kernel does not give
back leaves its memory to the kernel.

Stable Rust has the sanitizer's library; RUSTC_BOOTSTRAP permits its option. weir-heap is left out: its test asks glibc's
allocator, which AddressSanitizer replaces. Miri is not used: it is no part of a stable toolchain, and knows no io_uring.
TEXT
}

case ${1-} in
--help | -h) usage; exit ;;
-*) echo "sanitize.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
crates=("$@")
[ ${#crates[@]} -gt 0 ] || crates=(weir-uring weir-pam weir-pgwire weir-session)

host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1 ASAN_OPTIONS=detect_leaks=0 RUSTFLAGS="${RUSTFLAGS:-} -Zsanitizer=address"
# Options for the whole program: without a target of its own they would be those of build scripts, too.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/sanitize"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/freed.rs" <<'RUST'
fn main() {
    let block = Box::into_raw(Box::new(std::env::args().count()));
    drop(unsafe { Box::from_raw(block) });
    println!("{}", unsafe { std::ptr::read_volatile(block) });
}
RUST
rustc -Zsanitizer=address --target "$host" -o "$folder/freed" "$folder/freed.rs"
if "$folder/freed" >"$folder/log" 2>&1 || ! grep -q 'AddressSanitizer: heap-use-after-free' "$folder/log"; then
    echo "sanitize.sh: AddressSanitizer did not find the read of freed memory:" >&2
    tail -n 5 "$folder/log" >&2
    exit 1
fi

packages=()
for crate in "${crates[@]}"; do packages+=(-p "$crate"); done
cargo test --quiet --target "$host" "${packages[@]}" --lib --tests
