# A clean Debian that boots its own systemd in a container without the network, and checks in it: sourced by test.sh.
#
# The container has PostgreSQL, and PgBouncer's package in its cache. The first download of Debian is kept in ROOT_TAR.

passed=0

end_container() {
    # The end of its first process is the end of the container.
    [ -z "${leader-}" ] || kill -KILL "$leader" 2>/dev/null || true
    [ -z "${container-}" ] || wait "$container" 2>/dev/null || true
}

# Runs a command in the container.
inside() {
    nsenter --target "$leader" --mount --uts --ipc --pid --net --cgroup -- env -i -C / PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        HOME=/root DEBIAN_FRONTEND=noninteractive "$@"
}

# Runs lines of a shell in the container.
lines() {
    inside sh -euc "$1"
}

# Reports one check: check WORDS COMMAND…
check() {
    local words=$1
    shift
    if ! "$@" >"$work/said" 2>&1; then
        echo "FAILED: $words" >&2
        tail -n 30 "$work/said" >&2
        inside journalctl --no-pager -n 30 -u weir -u pgbouncer >&2 || true
        exit 1
    fi
    echo "ok: $words"
    passed=$((passed + 1))
}

# Repeats a command for some seconds until it succeeds.
until_true() {
    local tries
    for tries in $(seq 50); do
        "$@" && return
        sleep 0.2
    done
    echo "not after $tries tries: $*"
    return 1
}

download() {
    local packages=systemd,systemd-sysv,dbus,logrotate,man-db,procps,curl,ca-certificates,postgresql
    mmdebstrap --quiet --variant=minbase --include="$packages" \
        --customize-hook='rm -f "$1"/var/cache/apt/archives/*.deb' \
        --customize-hook='chroot "$1" apt-get install --quiet --yes --no-install-recommends --download-only pgbouncer >/dev/null' \
        --customize-hook='mkdir "$1/root/archives" && mv "$1"/var/cache/apt/archives/*.deb "$1/root/archives/"' \
        "$suite" "$root_tar"
}

# Boots the container with packages in its /root: boot FILES…
boot() {
    [ -f "$root_tar" ] || download
    mkdir "$work/root"
    tar -C "$work/root" -xf "$root_tar"
    cp "$@" "$work/root/root/"
    # systemd of this Debian boots with cgroups of version 1 only when it is asked to.
    systemd-nspawn --quiet --register=no --keep-unit --private-network --directory="$work/root" --boot \
        SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1 </dev/null >"$work/boot.log" 2>&1 &
    container=$!
    local tries
    for tries in $(seq 120); do
        leader=$(pgrep -P "$container" | head -n 1 || true)
        if [ -n "$leader" ] && inside systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded'; then
            return
        fi
        sleep 1
    done
    echo "the container did not boot after $tries s" >&2
    tail -n 20 "$work/boot.log" >&2
    exit 1
}
