# shellcheck shell=bash disable=SC2034,SC2154
title='SQLAlchemy, its PostgreSQL dialect with psycopg' package='SQLAlchemy 2.0.44'
prepare() { python_suite SQLAlchemy==2.0.44 pytest==8.4.2 pytest-timeout==2.4.0 psycopg==3.3.9 psycopg-binary==3.3.9 greenlet==3.5.6; }
suite() {
    cd source || return 1
    psql -qX -c 'CREATE SCHEMA test_schema' -c 'CREATE SCHEMA test_schema_2' -c 'CREATE EXTENSION hstore' \
        -c 'CREATE EXTENSION citext' -c "ALTER DATABASE $PGDATABASE SET default_text_search_config = 'pg_catalog.english'" >&2
    pytest_results -p no:logging --dburi "postgresql+psycopg://$PGUSER:$PGPASSWORD@$PGHOST:$PGPORT/$PGDATABASE" \
        test/dialect/postgresql test/dialect/test_suite.py
}
