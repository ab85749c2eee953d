#!/usr/bin/env bash
# Makes a release of this checkout in target/packages: packages, checksums, SBOMs, a statement of what they were made from (in-toto, SLSA),
# and signatures. `make release KEY=weir.key` (made once by `minisign -G -s weir.key -p weir.pub`).
#
# KEY lies outside of the clone. Without it there are no signatures: `make sign KEY=weir.key` makes them later, on a machine that has the
# folder target/packages and no network. The tree must be the commit of the tag vVERSION; DRAFT=1 permits another one. ARCH as for
# `make packages`. RELEASING.md has the steps before and after.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=target/packages
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

fail() {
    echo "release: $*" >&2
    exit 1
}

# What a release needs, before minutes of compiling.
check() {
    [ -z "${KEY-}" ] || command -v minisign >/dev/null || fail "there is no minisign; on Debian: apt-get install minisign"
    [ -z "${KEY-}" ] || [ -r "$KEY" ] || fail "KEY names $KEY, which can't be read; minisign -G -s FILE -p FILE makes a key"
    [ -z "${DRAFT-}" ] || return 0
    [ -z "$(git status --porcelain)" ] || fail "the tree has changes that are in no commit; DRAFT=1 makes a draft nevertheless"
    [ "$(git rev-parse "v$version^{commit}" 2>/dev/null)" = "$(git rev-parse HEAD)" ] ||
        fail "HEAD is not the tag v$version, the version of Cargo.toml; DRAFT=1 makes a draft nevertheless"
    grep -q "^## $version — [0-9-]*$" CHANGELOG.md || fail "CHANGELOG.md has no \"## $version — DATE\""
}

sign() {
    local file
    for file in SHA256SUMS "weir-$version.intoto.json"; do
        [ -r "$out/$file" ] || fail "$out/$file is not there: make release comes first"
        minisign -S -s "$KEY" -m "$out/$file" -t "Weir $version, $file"
    done
}

if [ "${1-}" = --sign ]; then
    [ -n "${KEY-}" ] || fail "KEY is missing, as in: make sign KEY=../weir.key"
    sign
    exit
fi
check
packaging/build.sh
packaging/provenance.py "$out" >"$out/weir-$version.intoto.json"
(cd "$out" && sha256sum -- "weir-$version.intoto.json" >>SHA256SUMS)
if [ -n "${KEY-}" ]; then
    sign
else
    echo "release: no KEY, so nothing is signed; make sign KEY=FILE does it"
fi
echo "release: $out has Weir $version; scripts/reproduce.sh builds it again elsewhere"
