# For scripts that run tools as people do: source this first. Gives an empty directory, the built tools in PATH, and
#   fail WORDS                            end the test
#   expect CODE WORDS COMMAND...          exit status CODE and WORDS on standard error (kept in err.txt, output in out.txt)
#   says TEXT...                          each TEXT is a whole line of out.txt ($'a\tb' for fields)
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
export PATH="$MT_TEST_BIN:$PATH" OMP_NUM_THREADS=1

fail() {
  echo "FAILED: $*"
  exit 1
}
expect() {
  local code="$1" words="$2" status=0
  shift 2
  "$@" > out.txt 2> err.txt || status=$?
  [ "$status" = "$code" ] || fail "status $status, wanted $code: $* ($(cat err.txt))"
  [ -z "$words" ] || grep -qF -- "$words" err.txt || fail "'$words' not in: $(cat err.txt) ($*)"
}
says() {
  local line
  for line in "$@"; do
    grep -qxF -- "$line" out.txt || fail "no line '$line' in: $(cat out.txt)"
  done
}
