# shellcheck shell=bash disable=SC2034,SC2154
# The package has no tests: the program beside this file uses it.
title=pg-boss package='pg-boss 12.38.0' size=8
prepare() { node_modules; }
suite() { program_results node "$node_folder/check.js"; }
