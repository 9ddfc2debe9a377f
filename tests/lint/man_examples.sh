#!/usr/bin/env bash
# Runs the EXAMPLES section of one man page: man_examples.sh PAGE [--print]
#
# The lines between .EX and .EE are one bash script a page, run in an empty directory with the built tools in PATH and
# `mpiexec` being this build's own. Invisible to the reader, in the page's source:
#   .\" run: COMMAND     is run at that place (to make the files an example takes for granted)
#   .\" no-run           before .EX: that block is not run (it needs a cluster, say)
set -euo pipefail
page="$1"
script="$(awk '
  /^\.SH / { examples = /^\.SH "?EXAMPLES?"?/ }
  !examples { next }
  /^\.\\" run: / { sub(/^\.\\" run: /, ""); print; next }
  /^\.\\" no-run/ { skip = 1; next }
  /^\.EX/ { block = 1; next }
  /^\.EE/ { block = 0; skip = 0; next }
  block && !skip {
    gsub(/\\-/, "-"); gsub(/\\f[BIRP]/, ""); gsub(/\\f\(C[WBRI]/, ""); gsub(/\\&/, "")
    gsub(/\\\(aq/, "\047"); gsub(/\\\(dq/, "\""); gsub(/\\\(ga/, "`"); gsub(/\\\(ti/, "~"); gsub(/\\\(ha/, "^")
    gsub(/\\\(rs|\\e/, "\\")
    print
  }' "$page")"
if [ "${2:-}" = --print ]; then
  printf '%s\n' "$script"
  exit 0
fi
[ -n "$script" ] || { echo "$page has no EXAMPLES that run"; exit 1; }
if grep -q mpiexec <<< "$script"; then
  [ -n "${MT_TEST_MPIEXEC:-}" ] || { echo "no MPI in this build"; exit 77; }
  [ -z "${MT_TEST_MPI_BROKEN:-}" ] || { echo "this machine's MPI starts worlds of one rank"; exit 77; }
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/here"
[ -z "${MT_TEST_MPIEXEC:-}" ] || ln -s "$MT_TEST_MPIEXEC" "$work/bin/mpiexec"
cd "$work/here"
export PATH="$work/bin:$MT_TEST_BIN:$PATH" OMP_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
bash -xeuo pipefail -c "$script" < /dev/null
