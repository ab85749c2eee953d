#!/usr/bin/env bash
# Builds the fuzz targets as OSS-Fuzz wants them: $OUT has each program, its corpus, dictionary and options.
#
# Called in the image of Dockerfile, which sets SRC and OUT; or by scripts/oss-fuzz.sh, without an image.
set -euo pipefail
cd "$SRC/weir"

cargo fuzz build -O --debug-assertions
built=fuzz/target/x86_64-unknown-linux-gnu/release
for target in $(scripts/fuzz.sh --list); do
    cp "$built/$target" "$OUT/"
    seeds=("fuzz/corpus/$target")
    [ ! -d "fuzz/regressions/$target" ] || seeds+=("fuzz/regressions/$target")
    find "${seeds[@]}" -type f -print | sort | zip -jq "$OUT/${target}_seed_corpus.zip" -@
    [ ! -f "fuzz/dictionaries/$target.dict" ] || cp "fuzz/dictionaries/$target.dict" "$OUT/"
    printf '[libfuzzer]\nmax_len = %s\n' "$(scripts/fuzz.sh --longest "$target")" >"$OUT/$target.options"
done
