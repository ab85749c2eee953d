# Prepares the drivers of each language: sourced by run.sh, used by the function `prepare` of a driver.sh.
#
# Each installs into $cache what $folder pins, once for each state of the pins, and says in $why what was missing.
# shellcheck shell=bash disable=SC2034,SC2154

# need PROGRAM…: checks that the programs exist.
need() {
    local program
    for program; do
        command -v "$program" >/dev/null || { why="no $program"; return 1; }
    done
}

# fetched COMMAND…: runs it quietly; a failure is a skip with a reason.
fetched() {
    "$@" >"$cache/log" 2>&1 || { why="packages could not be fetched (see $cache/log)"; return 1; }
}

# fresh FILE…: whether everything was installed with these files unchanged; `installed FILE…` records it.
fresh() { cat "$@" 2>/dev/null | cmp -s - "$cache/.installed"; }
installed() { cat "$@" >"$cache/.installed"; }

# Python: requirements.txt, all versions pinned, into $cache/venv; $python is its interpreter.
python_venv() {
    need python3 || return 1
    local pins=$folder/requirements.txt
    python=$cache/venv/bin/python
    export PYTHONPATH=$SHARED
    fresh "$pins" && return 0
    fetched python3 -m venv --clear "$cache/venv" || { why='no venv for python3'; return 1; }
    fetched "$python" -m pip install --quiet --no-deps --disable-pip-version-check -r "$pins" || return 1
    installed "$pins"
}

# Node.js: package.json and package-lock.json; the sources are copied beside node_modules. $node_folder is where they are.
node_modules() {
    need node npm || return 1
    local pins=("$folder/package.json" "$folder/package-lock.json")
    node_folder=$cache
    if ! fresh "${pins[@]}"; then
        cp "${pins[@]}" "$cache/"
        fetched npm ci --prefix "$cache" --no-audit --no-fund --ignore-scripts || return 1
        installed "${pins[@]}"
    fi
    cp "$folder"/*.*js "$SHARED"/*.*js "$cache/" 2>/dev/null
    return 0
}

# Go: go.mod and go.sum; the program is $cache/check.
go_program() {
    need go || return 1
    (cd "$folder" && fetched go build -mod=readonly -o "$cache/check" .) && return 0
    why="could not be built (see $cache/log)"
    return 1
}

# Java: pom.xml; the jars go to $cache/jars, the classes to $cache/classes, and $classpath is both.
java_classes() {
    need java javac mvn || return 1
    classpath="$cache/classes:$cache/jars/*"
    if ! fresh "$folder/pom.xml"; then
        rm -rf "$cache/jars" && mkdir -p "$cache/jars"
        fetched mvn --batch-mode --quiet -f "$folder/pom.xml" \
            org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
            "-DoutputDirectory=$cache/jars" -DincludeScope=runtime || return 1
        installed "$folder/pom.xml"
    fi
    rm -rf "$cache/classes"
    fetched javac -Xlint:all -cp "$cache/jars/*" -d "$cache/classes" "$SHARED"/java/*.java "$folder"/*.java && return 0
    why="could not be compiled (see $cache/log)"
    return 1
}

# Rust: Cargo.toml and Cargo.lock; the program is $cache/debug/NAME.
rust_program() {
    need cargo || return 1
    fetched env CARGO_TARGET_DIR="$cache" cargo build --quiet --locked --manifest-path "$folder/Cargo.toml"
}
