#!/usr/bin/env bash
# Writes what a weir says of itself below a folder share: manual pages, and the completions of three shells.
# Usage: install-docs.sh WEIR SHARE
set -eu
weir=$1 share=$2

"$weir" man --dir "$share/man"

# Writes the completions of a shell into a file.
completions() {
    install -d "$(dirname "$2")"
    "$weir" completions "$1" >"$2"
}

completions bash "$share/bash-completion/completions/weir"
completions zsh "$share/zsh/site-functions/_weir"
completions fish "$share/fish/vendor_completions.d/weir.fish"
