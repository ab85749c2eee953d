#!/usr/bin/env bash
# Builds a release again in a folder of its own, and compares its digests: `make reproduce VERSION=0.1.0 [SUMS=FILE] [PUBLIC=weir.pub]`.
#
# SUMS is the SHA256SUMS of the release, target/packages/SHA256SUMS by default; with PUBLIC its signature is checked first. VERSION may be any
# commit. ARCH as for `make packages`. The distribution has to be the same: libraries, tools and the authorities in the image are its. The compiler is the one that rust-toolchain.toml names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1-${VERSION-}}
sums=$(realpath "${SUMS:-target/packages/SHA256SUMS}")
fail() {
    echo "reproduce: $*" >&2
    exit 1
}
[ -n "$version" ] || fail "VERSION is missing, as in: make reproduce VERSION=0.1.0"
commit=$(git rev-parse --verify --quiet "v$version^{commit}" || git rev-parse --verify --quiet "$version^{commit}") ||
    fail "there is no tag v$version, and no commit $version"
[ -r "$sums" ] || fail "$sums can't be read: SUMS names the SHA256SUMS of the release"
[ -z "${PUBLIC-}" ] || minisign -V -q -p "$PUBLIC" -m "$sums"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git clone --quiet --no-hardlinks . "$folder/weir"
git -C "$folder/weir" checkout --quiet --detach "$commit"
(cd "$folder/weir" && env -u CARGO_TARGET_DIR packaging/build.sh)
same=0 other=0 missing=0
while read -r digest file; do
    # The statement has the time of its build.
    case $file in *.intoto.json) continue ;; esac
    if [ ! -e "$folder/weir/target/packages/$file" ]; then
        missing=$((missing + 1))
        echo "not built: $file"
    elif [ "$(sha256sum <"$folder/weir/target/packages/$file")" = "$digest  -" ]; then
        same=$((same + 1))
    else
        other=$((other + 1))
        echo "differs: $file"
    fi
done <"$sums"
echo "$same files are the same, $other differ, $missing were not built"
[ "$other" -eq 0 ] && [ "$missing" -eq 0 ] && [ "$same" -gt 0 ]
