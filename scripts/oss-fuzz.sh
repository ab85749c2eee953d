#!/usr/bin/env bash
# Runs OSS-Fuzz's build of the fuzz targets without its image, then each target on its own corpus; `make oss-fuzz` calls it.
#
# The image sets SRC, OUT and a nightly compiler. RUSTC_BOOTSTRAP permits AddressSanitizer to a stable one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v zip >/dev/null || { echo "oss-fuzz.sh: zip is missing: apt-get install zip" >&2; exit 2; }
cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/src" "$folder/out"
ln -s "$PWD" "$folder/src/weir"
env -u CARGO_TARGET_DIR SRC="$folder/src" OUT="$folder/out" RUSTC_BOOTSTRAP=1 fuzz/oss-fuzz/build.sh

count=0
for target in $(scripts/fuzz.sh --list); do
    seeds=$folder/seeds/$target
    mkdir -p "$seeds"
    unzip -q "$folder/out/${target}_seed_corpus.zip" -d "$seeds"
    options=(-runs=0 "-max_len=$(sed -n 's/^max_len = //p' "$folder/out/$target.options")")
    [ ! -f "$folder/out/$target.dict" ] || options+=(-dict="$folder/out/$target.dict")
    if ! "$folder/out/$target" "${options[@]}" "$seeds" >"$folder/log" 2>&1; then
        tail -n 20 "$folder/log" >&2
        echo "oss-fuzz.sh: $target failed on its own corpus" >&2
        exit 1
    fi
    # The compiler's part of AddressSanitizer is there, as OSS-Fuzz checks it.
    grep -qa __asan_init "$folder/out/$target" || { echo "oss-fuzz.sh: $target has no AddressSanitizer" >&2; exit 1; }
    count=$((count + 1))
done
echo "make oss-fuzz: $count targets are built as OSS-Fuzz builds them, and pass their corpora under AddressSanitizer"
