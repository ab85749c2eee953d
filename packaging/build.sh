#!/usr/bin/env bash
# Builds the packages of this checkout into target/packages: `make packages`, for amd64 and arm64; ARCH=amd64 builds one.
#
# The program is compiled twice for each: for glibc, which deb and rpm contain (PAM needs it), and as a static program with musl,
# for the tarball and the image. What is not this machine's architecture is cross-compiled; docs/howto/packages.md lists the tools.
# GLIBC_WEIR= and MUSL_WEIR= name programs of one ARCH that are there already; then nothing is compiled.
set -euo pipefail
# Whatever the user's umask is: it decides the modes of files in the packages.
umask 022
cd "$(dirname "${BASH_SOURCE[0]}")/.."

architectures=${ARCH:-amd64 arm64}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# Files have the commit's time: the same commit makes the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH WEIR_COMMIT=$commit
target=${CARGO_TARGET_DIR:-target}
out=target/packages trees=target/packages.tree

fail() {
    echo "packages: $*" >&2
    exit 1
}

need() {
    command -v "$1" >/dev/null || fail "there is no $1; on Debian: apt-get install $2"
}

# Names an architecture: Debian's and OCI's name (arch), the one of Linux, Rust and rpm (machine), its targets and its folder.
select_architecture() {
    case $1 in
        amd64) machine=x86_64 ;;
        arm64) machine=aarch64 ;;
        *) fail "ARCH has amd64, arm64 or both, not '$1'" ;;
    esac
    arch=$1 glibc=$machine-unknown-linux-gnu musl=$machine-unknown-linux-musl tree=$trees/$1
}

is_native() {
    [ "$machine" = "$(uname -m)" ]
}

# Finds the tools of the selected architecture. Libraries in C have to be compiled with the headers of the C library that they get.
toolchain() {
    if is_native; then
        need musl-gcc musl-tools
        need strip binutils
        strip=strip
        export "CC_${musl//-/_}=musl-gcc"
    else
        cross_toolchain
    fi
}

cross_toolchain() {
    local prefix=$machine-linux-gnu specs=/usr/lib/$machine-linux-musl/musl-gcc.specs needed found name
    local packages="gcc-${machine//_/-}-linux-gnu libc6-dev-$arch-cross musl-dev:$arch libc6:$arch libgcc-s1:$arch"
    # The last one is for dpkg-shlibdeps.
    for needed in "$prefix-gcc" "$prefix-strip" "$specs" "/lib/$prefix/libc.so.6"; do
        found=$(command -v "$needed" || ls "$needed" 2>/dev/null) || true
        [ -n "$found" ] || fail "there is no $needed, to build for $arch; on Debian: dpkg --add-architecture $arch &&" \
            "apt-get update && apt-get install $packages. Without $arch: ARCH=$(dpkg --print-architecture) make packages"
    done
    strip=$prefix-strip
    for name in "${glibc//-/_}" "${musl//-/_}"; do
        export "CC_$name=$prefix-gcc" "CARGO_TARGET_${name^^}_LINKER=$prefix-gcc"
    done
    export "CFLAGS_${musl//-/_}=-specs $specs"
}

# Compiles weir for a target and strips it: compile TARGET FILE
compile() {
    rustup target list --installed 2>/dev/null | grep -qx "$1" || rustup target add "$1"
    # Messages of panics name source files: not by the folders of this machine.
    local from
    from=--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo$'\x1f'--remap-path-prefix=$PWD=/weir
    CARGO_ENCODED_RUSTFLAGS=$from cargo build --locked --release -p weir --target "$1"
    install -D -m 755 "$target/$1/release/weir" "$2"
    "$strip" "$2"
}

# The two programs, of which stage.sh and image.py take one each.
programs() {
    if [ -n "${GLIBC_WEIR-}" ]; then
        install -D -m 755 "$GLIBC_WEIR" "$tree/glibc/weir"
        install -D -m 755 "$MUSL_WEIR" "$tree/musl/weir"
        return
    fi
    toolchain
    compile "$glibc" "$tree/glibc/weir"
    compile "$musl" "$tree/musl/weir"
}

# Manual pages and completions. The weir that writes them has to be one that this machine runs.
documents() {
    local weir
    weir=$trees/$(dpkg --print-architecture)/glibc/weir
    if [ ! -e "$weir" ]; then
        cargo build --locked -p weir
        weir=$target/debug/weir
    fi
    scripts/install-docs.sh "$weir" "$trees/share"
}

# A tar whose bytes depend on its files only.
pack() {
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --format=gnu \
        -C "$1" -cf - "$2" | gzip -9n
}

tarball() {
    local name=weir-$version-$machine-linux-musl folder
    folder=$tree/tarball/$name
    mkdir -p "$folder"
    cp "$tree/musl/weir" LICENSE CHANGELOG.md packaging/files/weir.toml packaging/files/weir.service "$folder/"
    cp -r "$trees/share" "$folder/share"
    ln -s weir "$folder/pgbouncer"
    pack "$tree/tarball" "$name" >"$out/$name.tar.gz"
}

rpms() {
    rpmbuild -bb --quiet --target "$machine" --define "_topdir $PWD/$tree/rpm" --define "_rpmdir $PWD/$tree/rpms" \
        --define "tree $PWD/$tree/root" --define "weir_version $version" --define "_buildhost localhost" \
        --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
        --define "_binary_payload w9.gzdio" packaging/rpm/weir.spec
    mv "$tree"/rpms/*/*.rpm "$out/"
}

# Everything of the selected architecture's programs.
packages() {
    mkdir -p "$tree/root"
    packaging/stage.sh "$tree/glibc/weir" "$trees/share" "$tree/root"
    find "$tree/root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    packaging/deb.sh "$tree/root" "$version" "$arch" "$out"
    rpms
    tarball
    packaging/oci/image.py "$out/weir-$version-$arch.oci.tar" "$arch=$tree/musl/weir" --version "$version" \
        --created "$SOURCE_DATE_EPOCH" --commit "$commit"
    packaging/sbom.py "$glibc" "$SOURCE_DATE_EPOCH" >"$out/weir-$version-$arch.cdx.json"
}

# One image for all architectures, of which a container's runtime takes its own.
image_of_all() {
    local programs=()
    for each in $architectures; do
        programs+=("$each=$trees/$each/musl/weir")
    done
    packaging/oci/image.py "$out/weir-$version.oci.tar" "${programs[@]}" --version "$version" \
        --created "$SOURCE_DATE_EPOCH" --commit "$commit"
}

need dpkg-deb dpkg-dev
need dpkg-shlibdeps dpkg-dev
need rpmbuild rpm
need python3 python3
if [ -n "${GLIBC_WEIR-}${MUSL_WEIR-}" ]; then
    : "${GLIBC_WEIR:?}" "${MUSL_WEIR:?}"
    [[ $architectures != *" "* ]] || fail "GLIBC_WEIR and MUSL_WEIR are of one architecture: set ARCH"
fi
# Tools that are missing are reported before minutes of compiling.
for each in $architectures; do
    select_architecture "$each"
    [ -n "${GLIBC_WEIR-}" ] || toolchain
done
rm -rf "$out" "$trees"
mkdir -p "$out"
for each in $architectures; do
    select_architecture "$each"
    programs
done
documents
for each in $architectures; do
    select_architecture "$each"
    packages
done
[[ $architectures != *" "* ]] || image_of_all
(cd "$out" && sha256sum -- *.deb *.rpm *.tar *.gz *.json >SHA256SUMS)
ls -l "$out"
