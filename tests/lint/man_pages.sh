#!/usr/bin/env bash
# The manual is true: every tool has a page, every page is clean roff, and the options of a tool are the same in its
# table (--dump-options), in --help and in the page.   man_pages.sh TOOL...
set -euo pipefail
man="$MT_TEST_SOURCE/man"
bad=0
complain() { echo "$*"; bad=1; }

if command -v groff > /dev/null; then
  for page in "$man"/*.[157]; do
    [ -e "$page" ] || continue
    said="$(LC_ALL=C.UTF-8 groff -man -ww -z "$page" 2>&1 || true)"
    [ -z "$said" ] || complain "groff -man -ww: $said"
  done
else
  echo "groff is not installed: pages are not checked as roff"
fi

# "--name ARGUMENT" of every tag line (after .TP) in sections whose heading holds OPTIONS. A tag line that starts with .B, .BR
# and the like alternates fonts; dots after an argument mean several values.
page_options() {
  awk '
    /^\.S[HS] / { options = /OPTIONS/ }
    tag && options {
      gsub(/\\-/, "-"); gsub(/\\f[BIRP]/, ""); gsub(/\\&/, ""); sub(/^\.[BIR]+ /, ""); gsub(/"/, ""); gsub(/, +/, " ")
      for (i = 1; i <= NF; ++i) if ($i ~ /^--./) {
        argument = i < NF && $(i + 1) !~ /^--/ ? $(i + 1) : ""
        sub(/\.\.\.$/, "", argument)
        print $i " " argument
      }
    }
    { tag = /^\.TP/ }' "$1" | sed 's/ *$//' | sort -u
}

field() { sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p'; }

for tool in "$@"; do
  page="$man/$tool.1"
  if [ ! -f "$page" ]; then
    complain "$tool has no man page (man/$tool.1)"
    continue
  fi
  dump="$("$MT_TEST_BIN/$tool" --dump-options | grep '"hidden":false')"
  table="$(while read -r line; do
    name="$(field name <<< "$line")" argument="$(field argument <<< "$line")"
    echo "--$name $argument"
    for other in $(sed -n 's/.*"aliases":\[\([^]]*\)\].*/\1/p' <<< "$line" | tr -d '"' | tr ',' ' '); do
      echo "--$other $argument"
    done
  done <<< "$dump" | sed 's/ *$//' | sort -u)"
  difference="$(diff <(echo "$table") <(page_options "$page") || true)"
  [ -z "$difference" ] || complain "$tool: '<' is in the option table only, '>' in man/$tool.1 only:
$(grep '^[<>]' <<< "$difference")"

  for command in $(field command <<< "$dump" | sort -u) ""; do
    rows="$(grep "\"command\":\"$command\"" <<< "$dump" || true)"
    [ -n "$rows" ] || continue
    # shellcheck disable=SC2086
    help="$("$MT_TEST_BIN/$tool" $command --help)"
    for name in $(field name <<< "$rows"); do
      grep -qE -- "^  --$name( |\$)" <<< "$help" || complain "$tool $command --help does not show --$name"
    done
  done
done
exit "$bad"
