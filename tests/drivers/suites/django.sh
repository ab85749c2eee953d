# shellcheck shell=bash disable=SC2034,SC2154
title=Django package='Django 5.2.19'
prepare() {
    python_suite Django==5.2.19 psycopg==3.3.9 psycopg-binary==3.3.9 psycopg-pool==3.3.3 sqlparse==0.6.1 asgiref==3.13.0 jinja2 PyYAML Pillow docutils tblib
}
suite() {
    cat >settings_of_suite.py <<END
DATABASES = {alias: {"ENGINE": "django.db.backends.postgresql", "USER": "$PGUSER", "PASSWORD": "$PGPASSWORD", "HOST": "$PGHOST",
             "PORT": "$PGPORT", "NAME": "$PGDATABASE", "TEST": {"NAME": "${PGDATABASE}_" + alias}}
             for alias in ("default", "other")}
SECRET_KEY = "of the tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
END
    cd source/tests || return 1
    PYTHONPATH=../.. timeout "${WEIR_SUITES_SECONDS:-900}" "$python" runtests.py --settings settings_of_suite --parallel 1 \
        --noinput -v 2 backends transactions postgres_tests select_for_update get_or_create introspection transaction_hooks \
        schema constraints delete_regress 2>&1 |
        awk '/^test[^ ]* \(/ { name = $2; gsub(/[()]/, "", name) } / \.\.\. ok$/ { print "ok " name }
             /^(FAIL|ERROR): / { name = $3; gsub(/[()]/, "", name); print "FAIL " name }'
}
