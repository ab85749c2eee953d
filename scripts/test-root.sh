#!/usr/bin/env bash
# Short forms of tests that need root, or programs that not every machine has: nodes that share a budget (`make cluster-chaos`, one of
# its eight steps, less than a minute), two processes with one node's name, and the Debian packages (`make packages-test`, without a
# booted system). What can't run here is named, with the reason, and is no failure.
# Usage: test-root.sh WEIR
set -euo pipefail
weir=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Whether all these programs are there; names those that are not: can TITLE PROGRAM…
can() {
    local title=$1 program missing=()
    shift
    for program in "$@"; do
        command -v "$program" >/dev/null || missing+=("$program")
    done
    [ ${#missing[@]} = 0 ] && return
    echo "skipped: $title: not installed: ${missing[*]}"
    return 1
}

failed=
run() {
    local title=$1 began=$SECONDS
    shift
    echo "$title"
    "$@" || failed+=" '$title'"
    echo "($((SECONDS - began)) s)"
}

is_root() {
    [ "$(id -u)" = 0 ] && unshare -n true 2>/dev/null && return
    echo "skipped: $1: it needs root, and to make network namespaces"
    return 1
}

# The packages of this program: what is in them, their scripts, their units, and that the program in them runs.
packages() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    local arch name deb script file program unit started
    arch=$(dpkg --print-architecture)
    mkdir "$work/root" "$work/out" "$work/control"
    install -D -m 755 "$weir" "$work/program/weir"
    strip "$work/program/weir"
    scripts/install-docs.sh "$work/program/weir" "$work/share"
    packaging/stage.sh "$work/program/weir" "$work/share" "$work/root"
    DEB_COMPRESSION=none packaging/deb.sh "$work/root" 0.0.1 "$arch" "$work/out"
    for name in weir weir-pgbouncer; do
        deb=$work/out/${name}_0.0.1_$arch.deb
        [ "$(dpkg-deb -f "$deb" Package) $(dpkg-deb -f "$deb" Version)" = "$name 0.0.1" ]
        dpkg-deb -x "$deb" "$work/installed"
        dpkg-deb -e "$deb" "$work/control/$name"
        for script in postinst prerm postrm; do
            sh -n "$work/control/$name/$script"
            if grep -H '^#SERVICE#' "$work/control/$name/$script"; then return 1; fi
        done
    done
    while read -r file; do
        [ -f "$work/installed$file" ]
    done <"$work/control/weir/conffiles"
    (cd "$work/installed" && md5sum --quiet -c "$work"/control/*/md5sums)
    program=$work/installed/usr/bin/weir
    "$program" --version
    "$work/installed/usr/lib/weir/pgbouncer" -V | grep "^This is Weir"
    sed -i "s:/etc/weir/:$work/installed&:" "$work/installed/etc/weir/weir.toml"
    "$program" check "$work/installed/etc/weir/weir.toml"
    for unit in weir pgbouncer; do
        # The name pgbouncer is made by a postinst.
        sed -n 's/^Exec\(Start\|Reload\)=\([^ ]*\).*/\2/p' "$work/installed/usr/lib/systemd/system/$unit.service" >"$work/started"
        while read -r started; do
            [ "$started" = /usr/sbin/pgbouncer ] || [ -x "$work/installed$started" ]
        done <"$work/started"
    done
}

# In a process of its own, where an error ends it.
if [ "${2-}" = packages ]; then
    packages
    exit
fi

title="A cluster's nodes and etcd in network namespaces"
if can "$title" ip iptables unshare setpriv etcd psql && is_root "$title"; then
    run "$title" tests/cluster/chaos.py "$weir" leader_killed
fi
title="Two processes with one node's name"
if can "$title" etcd psql; then
    run "$title" tests/cluster/names.py "$weir"
fi
title="The Debian packages"
if can "$title" dpkg-deb dpkg-shlibdeps strip; then
    run "$title" scripts/test-root.sh "$weir" packages
fi
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
