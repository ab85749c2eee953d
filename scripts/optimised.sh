#!/usr/bin/env bash
# Looks in what rustc makes of our code before LLVM (MIR, optimised) for a bool that is read and never set. rustc 1.95 makes
# that of `let found = a & B == B; flag |= found; if found { … }`, where this is inlined: `flag` is true then, whatever `found`
# was. Tests do not see it, for they are not optimised. `make test-all` runs it; it takes some minutes.
#
#   scripts/optimised.sh [CRATE…]      every library of ours without arguments
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ $# -gt 0 ] || set -- base pgwire auth pool config session admin engine uring runtime web
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for crate; do
    "${CARGO:-cargo}" rustc --quiet --release -p "weir-$crate" --lib -- --emit=mir="$out/$crate.mir"
    awk -v crate="$crate" '
        /^fn / { name = $0; split("", set); split("", read); split("", bools) }
        match($0, /let (mut )?_[0-9]+: bool;/) { local = $0; gsub(/.*let (mut )?|: bool;.*/, "", local); bools[local]; next }
        {
            line = $0
            while (match(line, /(copy|move|&|&mut|&raw mut|&raw const) _[0-9]+|_[0-9]+ = /)) {
                use = substr(line, RSTART, RLENGTH); line = substr(line, RSTART + RLENGTH)
                local = use; gsub(/.* _|^_| = /, "", local); local = "_" local
                if (use ~ /^(copy|move)/) read[local]; else set[local]
            }
        }
        /^}/ { for (local in bools) if (local in read && !(local in set)) { print crate ": " local " of " name; bad = 1 } }
        END { exit bad }
    ' "$out/$crate.mir" || failed=1
done
[ -z "${failed-}" ] || { echo "read and never set: rustc has dropped what sets it"; exit 1; }
