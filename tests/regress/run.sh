#!/usr/bin/env bash
# PostgreSQL's own regression and isolation tests, directly and through Weir in the modes session and auto:
# `tests/regress/run.sh [--suite regression|isolation] [--mode session|auto] [TEST…]`.
#
# The tests come from the source package of the installed server, the headers for their library from its development
# package; neither package is installed, both are kept below the target folder. WEIR_REGRESS_SOURCES names a folder
# `src/test` (with regress/regress.so built in it) to use instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')

fail() {
    echo "regress: $*" >&2
    exit 2
}

# Packages are fetched by apt with lists of our own, so that neither root nor a changed sources.list is needed.
fetch() { # FOLDER MAJOR
    local folder=$1 package=postgresql-$2 version
    mkdir -p "$folder/lists/partial" "$folder/archives/partial" "$folder/parts"
    version=$(dpkg-query -W -f '${Version}' "$package") || fail "$package is not installed"
    {
        sed -n 's/^deb \(.*\)/deb-src \1/p; s/^deb \(.*\)/deb \1/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list
    } 2>/dev/null >"$folder/parts/weir.list" || true
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] && sed 's/^Types:.*/Types: deb deb-src/' "$file" >"$folder/parts/$(basename "$file")"
    done
    cat >"$folder/apt.conf" <<END
Dir::State::lists "$folder/lists";
Dir::Cache "$folder";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$folder/parts";
APT::Sandbox::User "$(id -un)";
END
    export APT_CONFIG=$folder/apt.conf
    echo "fetching the sources of $package $version"
    apt-get -qq update
    (
        cd "$folder"
        apt-get -qq source --download-only "$package=$version"
        apt-get -qq download "postgresql-server-dev-$2=$version"
        dpkg -x postgresql-server-dev-*.deb dev
        tar -xf ./*.orig.tar.* --wildcards --strip-components=1 '*/src/test/regress/*' '*/src/test/isolation/*'
        mv src/test tests
    )
    unset APT_CONFIG
    cc -shared -fPIC -O1 -w -I "$folder/dev/usr/include/postgresql/$2/server" -o "$folder/tests/regress/regress.so" \
        "$folder/tests/regress/regress.c"
    # Two libraries of contrib, which one test uses.
    cp "$(pg_config --pkglibdir)"/{autoinc,refint}.so "$folder/tests/regress/" 2>/dev/null || true
    touch "$folder/.done"
}

sources=${WEIR_REGRESS_SOURCES:-}
if [ -z "$sources" ]; then
    command -v apt-get >/dev/null || fail "there is no apt-get here; set WEIR_REGRESS_SOURCES to a folder src/test"
    command -v pg_config >/dev/null || fail "there is no pg_config: install libpq-dev"
    version=$(pg_config --version | sed 's/^PostgreSQL \([0-9.]*\).*/\1/')
    folder=$target/regress/$version
    [ -e "$folder/tests/isolation" ] || rm -rf "$folder"
    [ -e "$folder/.done" ] || fetch "$folder" "${version%%.*}"
    sources=$folder/tests
fi
cc -shared -fPIC -O1 -I "$(pg_config --includedir)" -o "$sources/isolation/name_sessions.so" tests/regress/name_sessions.c
cargo build --quiet -p weir -p weir-tests --bin weir --bin regress
export WEIR_BIN=${WEIR_BIN:-$target/debug/weir}
exec "$target/debug/regress" "$sources" "$@"
