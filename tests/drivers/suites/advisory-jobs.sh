# shellcheck shell=bash disable=SC2034,SC2154
title='a queue with advisory locks' package='jobs by advisory locks, psycopg 3.3.9' size=8
prepare() { python_venv; }
suite() { program_results "$python" "$folder/check.py"; }
