#!/usr/bin/env bash
# Includes in lib/ point down: checks every #include "..." against floors.txt.   floors.sh [LIB_DIR]
set -euo pipefail
here="$(dirname "${BASH_SOURCE[0]}")"
lib="${1:-$here/../../lib}"
cd "$lib"
find . -mindepth 2 \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.h.in' \) | sed 's|^\./||' | sort |
  xargs awk -v table="$(cd "$OLDPWD" && cat "$here/floors.txt" | tr '\n' ';')" '
  BEGIN {
    n = split(table, lines, ";")
    for (i = 1; i <= n; ++i) {
      k = split(lines[i], w, " ")
      if (w[1] == "floor") for (j = 3; j <= k; ++j) floor[w[j]] = w[2] + 1
      if (w[1] == "never") never[w[2] " " w[3]] = 1
    }
  }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    split(FILENAME, path, "/"); from = path[1]
    split($0, quoted, "\""); split(quoted[2], target, "/"); to = target[1]
    place = FILENAME ":" FNR ": "
    if (!(from in floor)) { print place "module " from " has no floor in tests/lint/floors.txt"; bad = 1 }
    else if (!(to in floor)) { print place "\"" quoted[2] "\" names no module of lib/ (write \"module/file.h\")"; bad = 1 }
    else if (to != from && floor[to] >= floor[from]) {
      print place from " (floor " floor[from] - 1 ") includes " to " (floor " floor[to] - 1 ")"; bad = 1
    } else if ((from " " to) in never) { print place from " must not include " to; bad = 1 }
  }
  END { exit bad }'
