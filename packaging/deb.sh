#!/usr/bin/env bash
# Makes the Debian packages of the tree that stage.sh laid out.
# Usage: deb.sh TREE VERSION ARCHITECTURE OUT (DEB_COMPRESSION: xz)
set -euo pipefail
umask 022
tree=$(realpath "$1") version=$2 arch=$3 out=$(realpath "$4")
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The libraries that the program needs, in the oldest versions that have its symbols.
libraries() {
    mkdir -p "$work/shlibs/debian"
    printf 'Source: weir\n\nPackage: weir\nArchitecture: any\n' >"$work/shlibs/debian/control"
    (cd "$work/shlibs" && DEB_HOST_ARCH=$arch dpkg-shlibdeps -O "$tree/weir/usr/bin/weir" 2>"$work/said") |
        sed 's/^shlibs:Depends=//' || { cat "$work/said" >&2; return 1; }
}

# Makes one package of a copy of its tree: make_package NAME
make_package() {
    local name=$1 root=$work/$1 doc
    doc=$root/usr/share/doc/$name
    cp -a "$tree/$name" "$root"
    install -d "$root/DEBIAN" "$doc"
    install -m 644 deb/copyright "$doc/copyright"
    gzip -9nc ../CHANGELOG.md >"$doc/changelog.gz"
    chmod 644 "$doc/changelog.gz"
    if [ -d "$root/etc" ]; then
        (cd "$root" && find etc -type f -printf '/%p\n' | sort) >"$root/DEBIAN/conffiles"
    fi
    local script
    for script in postinst prerm postrm; do
        sed -e '/^#SERVICE#$/{' -e 'r deb/service.sh' -e 'd' -e '}' "deb/$name.$script" >"$root/DEBIAN/$script"
        chmod 755 "$root/DEBIAN/$script"
    done
    sed -e "s/@VERSION@/$version/; s/@ARCH@/$arch/; s/@DEPENDS@/$depends/" \
        -e "s/@SIZE@/$(du -sk --apparent-size "$root" | cut -f1)/" "deb/$name.control" >"$root/DEBIAN/control"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    chmod 644 "$root"/DEBIAN/{control,md5sums} "$root"/DEBIAN/conffiles 2>/dev/null || true
    find "$root" -type d -exec chmod 755 {} +
    dpkg-deb --root-owner-group "-Z${DEB_COMPRESSION:-xz}" --build "$root" "$out" >/dev/null
}

depends=$(libraries)
make_package weir
make_package weir-pgbouncer
