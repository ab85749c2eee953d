#!/usr/bin/env bash
# Builds the packages of this checkout into target/packages: `make packages`.
#
# The program is compiled twice: for glibc, which deb and rpm contain (PAM needs it), and as a static program with musl, for
# the tarball and the image. GLIBC_WEIR= and MUSL_WEIR= name programs that are there already; then nothing is compiled.
# Needs: a Rust toolchain with the target x86_64-unknown-linux-musl, musl-gcc, dpkg-dev, rpmbuild, python3 (3.11), strip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

arch=amd64 machine=x86_64
glibc=$machine-unknown-linux-gnu musl=$machine-unknown-linux-musl
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# Files have the commit's time: the same commit makes the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH WEIR_COMMIT=$commit
target=${CARGO_TARGET_DIR:-target}
out=target/packages tree=target/packages.tree

need() {
    command -v "$1" >/dev/null || { echo "packages: there is no $1; on Debian: apt-get install $2" >&2; exit 1; }
}

# Compiles weir for a target and strips it: compile TARGET FILE
compile() {
    cargo build --locked --release -p weir --target "$1"
    install -D -m 755 "$target/$1/release/weir" "$2"
    strip "$2"
}

# The two programs, of which stage.sh and image.py take one each.
programs() {
    if [ -n "${GLIBC_WEIR-}${MUSL_WEIR-}" ]; then
        install -D -m 755 "${GLIBC_WEIR:?}" "$tree/glibc/weir"
        install -D -m 755 "${MUSL_WEIR:?}" "$tree/musl/weir"
        return
    fi
    need musl-gcc musl-tools
    rustup target list --installed 2>/dev/null | grep -qx "$musl" || rustup target add "$musl"
    # Libraries in C have to be compiled with musl's headers.
    export CC_x86_64_unknown_linux_musl=musl-gcc
    compile "$glibc" "$tree/glibc/weir"
    compile "$musl" "$tree/musl/weir"
}

# A tar whose bytes depend on its files only.
pack() {
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -C "$1" -cf - "$2" | gzip -9n
}

tarball() {
    local name=weir-$version-$machine-linux-musl folder
    folder=$tree/tarball/$name
    mkdir -p "$folder"
    cp "$tree/musl/weir" LICENSE CHANGELOG.md packaging/files/weir.toml packaging/files/weir.service "$folder/"
    ln -s weir "$folder/pgbouncer"
    scripts/install-docs.sh "$tree/musl/weir" "$folder/share"
    pack "$tree/tarball" "$name" >"$out/$name.tar.gz"
}

rpms() {
    rpmbuild -bb --quiet --target "$machine" --define "_topdir $PWD/$tree/rpm" --define "_rpmdir $PWD/$tree/rpms" \
        --define "tree $PWD/$tree/root" --define "weir_version $version" --define "_buildhost localhost" \
        --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
        --define "_binary_payload w9.gzdio" packaging/rpm/weir.spec
    mv "$tree"/rpms/*/*.rpm "$out/"
}

need dpkg-deb dpkg-dev
need dpkg-shlibdeps dpkg-dev
need rpmbuild rpm
need strip binutils
rm -rf "$out" "$tree"
mkdir -p "$out" "$tree/root"
programs
packaging/stage.sh "$tree/glibc/weir" "$tree/root"
find "$tree/root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
packaging/deb.sh "$tree/root" "$version" "$arch" "$out"
rpms
tarball
digest=$(packaging/oci/image.py "$tree/musl/weir" "$out/weir-$version-$arch.oci.tar" --version "$version" --arch "$arch" \
    --created "$SOURCE_DATE_EPOCH" --commit "$commit")
packaging/sbom.py "$glibc" "$SOURCE_DATE_EPOCH" >"$out/weir-$version.cdx.json"
(cd "$out" && sha256sum -- *.deb *.rpm *.tar *.gz *.json >SHA256SUMS)
echo "image: $digest"
ls -l "$out"
