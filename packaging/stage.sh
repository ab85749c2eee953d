#!/usr/bin/env bash
# Lays out what the packages contain below a folder: ROOT/weir and ROOT/weir-pgbouncer.
# Usage: stage.sh WEIR SHARE ROOT (SHARE: what install-docs.sh wrote)
set -euo pipefail
umask 022
weir=$(realpath "$1") share=$(realpath "$2") root=$(realpath "$3")
cd "$(dirname "${BASH_SOURCE[0]}")"
main=$root/weir compat=$root/weir-pgbouncer

# Installs a file with a mode: put MODE FILE TARGET
put() {
    install -D -m "$1" "$2" "$3"
}

rm -rf "$main" "$compat"
put 755 "$weir" "$main/usr/bin/weir"
install -d "$main/usr"
cp -r "$share" "$main/usr/share"
install -d "$main/usr/share/zsh/vendor-completions"
mv "$main/usr/share/zsh/site-functions/_weir" "$main/usr/share/zsh/vendor-completions/_weir"
rmdir "$main/usr/share/zsh/site-functions"
put 640 files/weir.toml "$main/etc/weir/weir.toml"
put 640 files/userlist.txt "$main/etc/weir/userlist.txt"
put 644 files/weir.service "$main/usr/lib/systemd/system/weir.service"
put 644 files/sysusers-weir.conf "$main/usr/lib/sysusers.d/weir.conf"
put 644 files/logrotate "$main/etc/logrotate.d/weir"
put 644 files/io.weir.weir.metainfo.xml "$main/usr/share/metainfo/io.weir.weir.metainfo.xml"

# PgBouncer's names. The program decides by the name that it was started by.
install -d "$compat/usr/lib/weir"
ln -s ../../bin/weir "$compat/usr/lib/weir/pgbouncer"
install -d "$compat/usr/share/man/man1"
mv "$main/usr/share/man/man1/weir-pgbouncer.1" "$compat/usr/share/man/man1/weir-pgbouncer.1"
put 644 files/pgbouncer.service "$compat/usr/lib/systemd/system/pgbouncer.service"
put 644 files/sysusers-pgbouncer.conf "$compat/usr/lib/sysusers.d/weir-pgbouncer.conf"

find "$root" -path '*/man/man*/*' -type f -exec gzip -9n {} +
