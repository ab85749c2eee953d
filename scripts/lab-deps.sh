#!/usr/bin/env bash
# Installs what the lab's experiments compare with, from the distribution: `make lab-deps`. What is here already is left as
# it is. Nothing is started: a server that a package starts by itself is stopped and not started again at boot.
set -uo pipefail

has() {
    command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/usr/local/go/bin/$1" ]
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Program, then its package with apt, dnf and apk.
table='pgbouncer pgbouncer pgbouncer pgbouncer
pgpool pgpool2 pgpool-II pgpool
mariadbd mariadb-server mariadb-server mariadb
go golang-go golang go
node nodejs nodejs nodejs
npm npm npm npm
openssl openssl openssl openssl'

if has apt-get; then column=2; elif has dnf; then column=3; elif has apk; then column=4; else
    echo "make lab-deps knows apt, dnf and apk; here, install by hand what \`weir lab check\` names" >&2
    exit 1
fi

missing=()
while read -r program apt dnf apk; do
    has "$program" && continue
    names=("$program" "$apt" "$dnf" "$apk")
    missing+=("${names[column - 1]}")
done <<<"$table"
if [ ${#missing[@]} -eq 0 ]; then
    echo "all is here"
    exit 0
fi

echo "installing ${missing[*]}"
case $column in
2)
    as_root apt-get update -qq
    # A file that forbids packages to start their servers, for as long as the installation takes.
    policy=/usr/sbin/policy-rc.d
    [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null && as_root chmod +x $policy && ours=yes; }
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
    status=$?
    [ "${ours-}" = yes ] && as_root rm -f $policy
    ;;
3) as_root dnf install -y "${missing[@]}"; status=$? ;;
4) as_root apk add "${missing[@]}"; status=$? ;;
esac
exit "$status"
