# shellcheck shell=bash disable=SC2034,SC2154
title='psycopg 3'
prepare() {
    python_venv || return 1
    command=("$python" "$folder/check.py")
}
