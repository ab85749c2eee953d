#!/usr/bin/env bash
# Builds the site of the pages into target/site; `make docs` runs it. The pages stay as a forge shows them: they are copied
# with their folders, together with the files that they link to, so that every relative link is right in both places.
#
# mdBook has a fixed version. The first run builds it, into a cache folder outside of the repository; nothing else is fetched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VERSION=0.5.4
cache=${XDG_CACHE_HOME:-$HOME/.cache}/weir/mdbook-$VERSION
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
stage=$target/book
site=$target/site

if [ ! -x "$cache/bin/mdbook" ]; then
    echo "building mdBook $VERSION into $cache, once"
    # One job at a low priority, and nothing optimised, which takes a quarter of the time: the site takes seconds either way.
    CARGO_PROFILE_DEV_DEBUG=0 nice "${CARGO:-cargo}" install --quiet --locked --debug --jobs 1 --no-default-features \
        --features search --version "$VERSION" --root "$cache" mdbook
fi

# The files that the page $1 links to. Links to other sites and to headings of the same page are none.
linked() {
    local link
    # A picture for dark themes is named by HTML, since Markdown has no such choice.
    { grep -oE '\]\([^)]+\)|(src|srcset)="[^"]+"' "$1" || true; } | sed -E 's/^\]\(//; s/^(src|srcset)="//; s/[)"]$//; s/#.*//' |
        sort -u | while read -r link; do
        case $link in *://* | mailto:* | "") continue ;; esac
        realpath -m --relative-to=. "$(dirname "$1")/$link"
    done
}

# Copies a file to its place. In a page, a link whose text is a file's name gets the title of the page that it leads to,
# and a README is the index of its folder, so links to it follow.
copy() {
    local to=$stage/src/$1
    mkdir -p "$(dirname "$to")"
    case $1 in
    *.md) awk -v page="$1" "$titled" <(echo "$pages") "$1" | sed -E 's#(\]\(|\]\([^):]*/)README\.md#\1index.md#g' >"${to/%README.md/index.md}" ;;
    *) cp "$1" "$to" ;;
    esac
}

# For awk: reads the contents of the site, and then the page. `out` has the part of a line that is finished.
titled='
    function resolved(link, parts, count, at, path, length_of) {
        sub(/[^\/]*$/, "", folder)
        count = split(folder link, parts, "/")
        for (at = 1; at <= count; at++) {
            if (parts[at] == "..") length_of--
            else if (parts[at] != "." && parts[at] != "") path[++length_of] = parts[at]
        }
        link = path[1]
        for (at = 2; at <= length_of; at++) link = link "/" path[at]
        return link
    }
    BEGIN { folder = page }
    FNR == NR { if (split($0, cell, /[][()]/) > 3) title[cell[4]] = cell[2]; next }
    {
        out = ""
        while (match($0, /\[[a-zA-Z.\/-]*\.md\]\([^)#]*\.md/)) {
            link = substr($0, RSTART, RLENGTH)
            target = link
            sub(/^[^(]*\(/, "", target)
            name = title[resolved(target)]
            if (name != "") link = "[" name "](" target
            out = out substr($0, 1, RSTART - 1) link
            $0 = substr($0, RSTART + RLENGTH)
        }
        print out $0
    }'

rm -rf "$stage"
mkdir -p "$stage/src"
cp docs/book.toml "$stage/"
# The list of pages is beside them. Its links are relative to docs, and mdBook wants them relative to its own root.
pages=$(sed -E 's#\]\(#](docs/#; s#\(docs/\.\./#(#' docs/SUMMARY.md)
sed 's#README\.md)#index.md)#' <<<"$pages" >"$stage/src/SUMMARY.md"
grep -oE '\([^)]+\.md\)' <<<"$pages" | tr -d '()' | while read -r page; do
    copy "$page"
    linked "$page" | while read -r file; do
        [ ! -f "$file" ] || [ "${file%.md}" != "$file" ] || copy "$file"
    done
done

rm -rf "$site"
"$cache/bin/mdbook" build --dest-dir "$site" "$stage"
echo "the site is in $site: open $site/index.html"
