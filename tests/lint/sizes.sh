#!/usr/bin/env bash
# Rooms of human size: files up to 600 lines, functions up to 100, main.cc up to 200.   sizes.sh [ROOT]
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"
{ find lib cmd tests \( -name '*.h' -o -name '*.cc' -o -name '*.cu' \) -print 2> /dev/null || true; } | sort | xargs awk '
  function report(text) { print text; bad = 1 }
  function end_of_file() {
    limit = file ~ /(^|\/)main\.cc$/ ? 200 : 600
    if (lines > limit) report(file ": " lines " lines, the limit is " limit)
  }
  FNR == 1 {
    if (NR > 1) end_of_file()
    file = FILENAME; depth = 0; head = ""; head_line = 0; comment = 0; functions = 0
  }
  {
    lines = FNR
    text = $0
    if (comment) { if (!sub(/^.*\*\//, "", text)) next; comment = 0 }
    gsub(/\\./, "", text)
    gsub(/"[^"]*"/, "", text)
    gsub(/\047[^\047]\047/, "", text)
    sub(/\/\/.*/, "", text)
    gsub(/\/\*[^*]*\*\//, "", text)
    if (sub(/\/\*.*/, "", text)) comment = 1
    if (text ~ /^[ \t]*#/) next
    while (match(text, /[{};]/)) {
      c = substr(text, RSTART, 1)
      before = substr(text, 1, RSTART - 1)
      if (before ~ /[^ \t]/ && head !~ /[^ \t]/) head_line = FNR
      head = head before
      text = substr(text, RSTART + 1)
      if (c == "{") {
        ++depth
        # A function opens outside other functions and has a parameter list; types and namespaces are looked into.
        if (functions == 0 && head ~ /\)/ && head !~ /^[ \t]*(namespace|enum|class|struct|union)[ \t]/) {
          functions = depth
          opened = head_line; name = head
        }
      } else if (c == "}") {
        if (functions == depth && depth > 0) {
          size = FNR - opened + 1
          if (size > 100) {
            sub(/^[ \t]+/, "", name)
            report(file ":" opened ": function of " size " lines, the limit is 100: " substr(name, 1, 60))
          }
          functions = 0
        }
        if (depth > 0) --depth
      }
      head = ""
    }
    if (text ~ /[^ \t]/ && head !~ /[^ \t]/) head_line = FNR
    head = head " " text
  }
  END { if (NR > 0) end_of_file(); exit bad }'
