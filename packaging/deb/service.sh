# A service of a package, as Debian's own maintainer scripts treat it: copied into postinst and postrm by deb.sh.

# Enables it unless the administrator has disabled it; a removed package that is installed again gets its state back.
enable_service() {
    deb-systemd-helper unmask "$1" >/dev/null || true
    if deb-systemd-helper --quiet was-enabled "$1"; then
        deb-systemd-helper enable "$1" >/dev/null || true
    else
        deb-systemd-helper update-state "$1" >/dev/null || true
    fi
}

# Has the installed program serve. A running one is taken over: clients stay connected.
serve() {
    if ! [ -d /run/systemd/system ]; then
        return
    fi
    systemctl daemon-reload
    if systemctl is-active --quiet "$1"; then
        systemctl reload "$1" || echo "$1: the old version serves on; a restart replaces it: journalctl -u $1" >&2
    elif systemctl is-enabled --quiet "$1"; then
        systemctl start "$1" || echo "$1 does not serve: journalctl -u $1 has the reason" >&2
    fi
}

forget_service() {
    if [ -x /usr/bin/deb-systemd-helper ]; then
        deb-systemd-helper purge "$1" >/dev/null || true
        deb-systemd-helper unmask "$1" >/dev/null || true
    fi
}
