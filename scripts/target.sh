#!/bin/sh
# The folder that cargo builds into.
cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
