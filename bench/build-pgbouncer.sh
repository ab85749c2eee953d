#!/usr/bin/env bash
# Builds PgBouncer with -O2 into target/poolers, where `make bench` finds it.
# Usage: bench/build-pgbouncer.sh [VERSION [SOURCE]]; SOURCE is a git repository, or a folder with its unpacked release.
# Takes git, a C compiler, make, autoconf, automake, libtool, pkg-config, and the headers of libevent and OpenSSL.
set -euo pipefail

version=${1:-1.25.2}
source=${2:-https://github.com/pgbouncer/pgbouncer}
root=$(cd "$(dirname "$0")/.." && pwd)
into=$root/target/poolers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -f "$source/configure.ac" ]; then
    cp -R "$source" "$work/pgbouncer"
else
    git clone --quiet --depth 1 --branch "pgbouncer_${version//./_}" --recurse-submodules "$source" "$work/pgbouncer"
fi
cd "$work/pgbouncer"
[ -x configure ] || ./autogen.sh
./configure --quiet CFLAGS="-O2 -g" --without-cares
# The program alone: its manual takes pandoc.
make -j"$(nproc)" pgbouncer
mkdir -p "$into"
install -m 755 pgbouncer "$into/pgbouncer"
"$into/pgbouncer" --version | head -n 1
