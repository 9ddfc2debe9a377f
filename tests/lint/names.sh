#!/usr/bin/env bash
# Names and words: no file is called "util" and the like, `#if MT_*` stands in backend folders only, and no path of
# somebody's machine is written down.   names.sh [ROOT]
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"
bad=0

files() { find lib cmd tests man examples -type f "$@" 2> /dev/null | sort; }

while read -r file; do
  name="$(basename "$file")"
  for word in $(printf '%s\n' "${name%.*}" | tr -s '_.-' ' '); do
    case "$word" in
      util | utils | helper | helpers | manager | misc | common | v2 | fast | new)
        echo "$file: '$word' in a file name says nothing; name the idea"
        bad=1 ;;
    esac
  done
done < <(files -not -path 'tests/golden/*')  # where other programs name files

switches="$(files \( -name '*.h' -o -name '*.cc' -o -name '*.cu' \) | grep -Ev '^lib/[^/]+/(cpu|cuda|cudnn|mpi|nccl)/' |
  xargs grep -nE '^[ \t]*#[ \t]*(if|ifdef|ifndef|elif).*\bMT_[A-Z]' || true)"
if [ -n "$switches" ]; then
  echo "$switches"
  echo "#if MT_*: only in lib/*/{cpu,cuda,cudnn,mpi,nccl}/ and base/features.h; elsewhere ask mt::kHaveMpi and the like"
  bad=1
fi

paths="$( { files; find . -maxdepth 1 -type f ! -name '.git'; } | xargs grep -nIE \
  '(^|[^[:alnum:]_./}~$-])/(work|root|home)/[[:alnum:]_.]' || true)"
if [ -n "$paths" ]; then
  echo "$paths"
  echo "paths of one machine are nobody else's"
  bad=1
fi
exit "$bad"
