#!/usr/bin/env bash
# The instructions of each function of a text, and of each message about a stored one, counted by valgrind: twice the text costs at
# most two and a half times as many, and a message costs the same whatever is stored. `make growth` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v valgrind >/dev/null; then
    echo "growth.sh: skipped: valgrind is not installed"
    exit 0
fi
cargo build --quiet -p weir-fuzz --example growth
program=$(realpath "${CARGO_TARGET_DIR:-target}")/debug/examples/growth

count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$@" 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

failed=0
start=$(count)
size=8192
words=(execute prepare deallocate 'deallocate a;' 'discard all;' explain 'explain (' 'create table' 'as' into 'insert into' 'set a = 1;'
    'set local' set_config 'set_config(' "set_config('a', 'b', true)," advisory_lock pg_settings update weir_ 'do' 'do $$' declare
    'listen a;' "'" "''" '"' '$a$' '$a' '$$' '(' ')' ';' '/*' '--' 'u&"' "e'\\\\'" 'select 1' '-' $'\xc4\xb0')
for word in "${words[@]}"; do
    one=$(($(count text "$word" $size) - start)) two=$(($(count text "$word" $((2 * size))) - start))
    verdict=
    if [ $((two * 2)) -gt $((one * 5)) ]; then verdict='  TOO MANY' failed=1; fi
    printf '%-32s %12d %12d%s\n' "$word" "$one" "$two" "$verdict"
done
for message in bind describe unnamed waiting; do
    costs=()
    for bytes in 1000 500000; do
        costs+=($((($(count $message $bytes 60) - $(count $message $bytes 10)) / 50)))
    done
    verdict=
    if [ "${costs[1]}" -gt $((costs[0] * 2 + 1000)) ]; then verdict='  READS WHAT IS STORED' failed=1; fi
    printf '%-32s %12d %12d%s\n' "$message" "${costs[@]}" "$verdict"
done
[ $failed = 0 ] || { echo "growth.sh: a text costs more than its length" >&2; exit 1; }
