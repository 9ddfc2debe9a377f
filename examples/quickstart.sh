#!/usr/bin/env bash
# The main job on one machine with two cores and no GPU: English prose in, a trained and evaluated model out.
#
#   examples/quickstart.sh [--no-install] [--jobs N]
#
# Installs what is missing, builds the tools (no tests, no CUDA), then runs examples/Makefile with two MPI ranks. What is
# made goes to build/quickstart; a second run makes only what is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

install=()
jobs="$(nproc)"
while [ $# -gt 0 ]; do
  case "$1" in
    --no-install) install=(--no-install) ;;
    --jobs) jobs="${2:?--jobs wants a number}"; shift ;;
    --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "examples/quickstart.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
  shift
done
say() { printf '\n== %s\n' "$*"; }
started="$(date +%s)"
build=build/quickstart

say "packages"
bash examples/install-packages.sh "${install[@]}" build || [ ${#install[@]} -gt 0 ]

say "configure"
mkdir -p build
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMT_TESTS=OFF -DMT_CUDA=OFF -DMT_NCCL=OFF > "$build.log" 2>&1 ||
  { cat "$build.log"; exit 1; }
say "build ($jobs at a time)"
cmake --build "$build" --parallel "$jobs"

# Two ranks through MPI; as threads of one process where this machine's mpiexec starts worlds of one rank.
mpiexec="$(sed -n 's/^MT_TEST_MPIEXEC_USED:[A-Z]*=//p' "$build/CMakeCache.txt")"
if [ -n "$mpiexec" ] && bash tests/mpi_world.sh "$build" "$mpiexec"; then
  ranks="$mpiexec -n 2"
else
  say "no working mpiexec here: the two ranks are threads of one process (--local-ranks 2)"
  ranks=
fi

say "run: text, tokenizer, tokens, training on two ranks, resume, evaluation, sample"
export OMP_NUM_THREADS=1
make -C examples --no-print-directory BIN="$PWD/$build/bin" WORK="$PWD/$build/example" RANKS="$ranks" \
  LOCAL="$([ -n "$ranks" ] || echo '--local-ranks 2')"

say "done in $(($(date +%s) - started)) s; everything is in $build/example"
cat "$build/example/summary.txt"
