#!/usr/bin/env bash
# Installs what the lab's experiments compare with, from the distribution: `make lab-deps`. What is here already is left as
# it is. No server of what is installed is started, now or at boot.
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

# The services of these packages, which Debian enables.
declare -A services=([pgbouncer]=pgbouncer [pgpool2]=pgpool2 [mariadb-server]=mariadb)

# Takes a service out of the start of the machine, with systemd and without: deb-systemd-helper and update-rc.d work on files
# alone, so it makes no difference whether systemd runs, as in a container.
disable() {
    if [ -x /usr/bin/deb-systemd-helper ]; then
        as_root env DPKG_MAINTSCRIPT_PACKAGE="$2" deb-systemd-helper disable "$1.service" >/dev/null
    fi
    if [ -e "/etc/init.d/$1" ] && [ -x /usr/sbin/update-rc.d ]; then
        as_root /usr/sbin/update-rc.d "$1" disable >/dev/null
    fi
    if command -v systemctl >/dev/null; then
        as_root systemctl disable --quiet "$1.service" 2>/dev/null
    fi
    return 0
}

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
    for package in "${missing[@]}"; do
        [ -n "${services[$package]-}" ] && disable "${services[$package]}" "$package"
    done
    ;;
3) as_root dnf install -y "${missing[@]}"; status=$? ;;
4) as_root apk add "${missing[@]}"; status=$? ;;
esac
exit "$status"
