#!/usr/bin/env bash
# Checks the subjects of commits: commits.sh RANGE, as in origin/main..HEAD. Each names one change in at most 100 characters, without a
# full stop, an issue's number or a word that says that it is not finished.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1-}" = --help ] || [ $# -ne 1 ]; then
    sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}"
    exit $(($# != 1))
fi
wrong=0
fault() {
    echo "$1: $2: $3"
    wrong=$((wrong + 1))
}
count=0
subjects=$(git log --no-merges --format='%h%x09%s' "$1" --)
[ -n "$subjects" ] || { echo "0 commits"; exit 0; }
while IFS=$'\t' read -r commit subject; do
    count=$((count + 1))
    [ ${#subject} -le 100 ] || fault "$commit" "${#subject} characters, at most 100" "$subject"
    [[ $subject != *. ]] || fault "$commit" "ends with a full stop" "$subject"
    [[ $subject != *'#'[0-9]* ]] || fault "$commit" "names an issue; the body may" "$subject"
    [[ ! $subject =~ ^(fixup|squash|WIP|wip)([^a-z]|$) ]] || fault "$commit" "is not finished" "$subject"
    [[ $subject =~ [^[:space:]]{3,} ]] || fault "$commit" "says nothing" "$subject"
done <<<"$subjects"
echo "$count commits, $wrong faults"
[ "$wrong" -eq 0 ]
