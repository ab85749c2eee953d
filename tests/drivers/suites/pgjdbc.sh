# shellcheck shell=bash disable=SC2034,SC2154
# The newest version whose sources with tests are published beside the jar.
title=pgjdbc package='pgjdbc 42.7.10' size=4
junit=1.14.1
prepare() {
    need java javac mvn python3 || return 1
    local copy=(mvn --batch-mode --quiet org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy "-DoutputDirectory=$cache/jars")
    [ "$package $junit" = "$(cat "$cache/.installed" 2>/dev/null)" ] && return 0
    rm -rf "$cache/source" "$cache/jars" && mkdir -p "$cache/source"
    fetched "${copy[@]}" -Dartifact=org.postgresql:postgresql:42.7.10:tar.gz:jdbc-src || return 1
    tar -xf "$cache"/jars/postgresql-*-jdbc-src.tar.gz --strip-components=1 -C "$cache/source" || return 1
    fetched "${copy[@]}" -Dartifact=org.junit.platform:junit-platform-console-standalone:$junit || return 1
    fetched mvn --batch-mode --quiet -f "$cache/source/pom.xml" -DincludeScope=test \
        org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies "-DoutputDirectory=$cache/jars" || return 1
    find "$cache/source/src/main/java" "$cache/source/src/test/java" -name '*.java' >"$cache/files"
    fetched javac -nowarn -parameters -encoding UTF-8 -cp "$cache/jars/*" -d "$cache/classes" "@$cache/files" || return 1
    cp -r "$cache"/source/src/main/resources/. "$cache"/source/src/test/resources/. "$cache/classes" &&
        echo "$package $junit" >"$cache/.installed"
}
# Those whose tests are about a connection and its state: all take an hour.
classes='Notify|ServerPreparedStmt|ServerCursor|CursorFetch|RefCursor|RefCursorFetch|Statement|Connection|DateStyle|ClientEncoding|ParameterStatus
SearchPathLookup|Schema|ClientInfo|IsValid|ConnectionValidTimeout|GeneratedKeys|Jdbc3Savepoint|ConcurrentStatementFetch|Timezone|TimezoneCaching
Copy|OptionsProperty|QueryExecutor|NetworkTimeout|Abort|LogServerMessageProperty|ProcedureTransaction|Jdbc3CallableStatement|Jdbc42CallableStatement
UpdateableResult|ResultSetRefresh|DatabaseMetaDataCache|LoginTimeout|ConnectTimeout|SocketTimeout|ReadOnly|AdaptiveFetchSize|LargeObjectManager|Blob'
# Left out: a test that copies until pg_terminate_backend() with the process id of its client has an effect.
suite() {
    cd source || return 1
    psql -qX -c 'CREATE EXTENSION hstore' >&2
    timeout "${WEIR_SUITES_SECONDS:-900}" java -Xmx1g -cp "$cache/classes:$cache/jars/*" \
        -Dbuild.properties.relative.path=. -Dtest.url.PGHOST="$PGHOST" -Dtest.url.PGPORT="$PGPORT" -Dtest.url.PGDBNAME="$PGDATABASE" \
        -Duser="$PGUSER" -Dpassword="$PGPASSWORD" -DprivilegedUser="$PGUSER" -DprivilegedPassword="$PGPASSWORD" \
        org.junit.platform.console.ConsoleLauncher execute --disable-banner --disable-ansi-colors --details verbose \
        --scan-classpath "$cache/classes" --include-classname "^org.postgresql.*[.](${classes//$'\n'/|})Test$" \
        --config junit.jupiter.extensions.autodetection.enabled=true --config 'junit.jupiter.execution.timeout.default=60 s' \
        --exclude-tag replication --exclude-tag xa --exclude-tag slow --exclude-methodname '.*lockReleaseOnCancelFailure' 2>&1 | tee "$cache/console.$mode" |
        awk '/ uniqueId: / { sub(/.* uniqueId: /, ""); gsub(/ /, ""); test = $0 }
             / status: .*SUCCESSFUL/ { print "ok " test } / status: .*FAILED/ { print "FAIL " test }'
}
differs() {
    case $1 in
        *searchPathPreparedStatement*) echo 'a text that is prepared again after SET search_path in the same transaction, with other result types' ;;
        *testIsValidRemoteClose*) echo 'pg_terminate_backend() with the process id of a client' ;;
        *testOidUpdatable*) echo 'synchronous_commit at startup is refused' ;;
        *) return 1 ;;
    esac
}
