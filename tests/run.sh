#!/usr/bin/env bash
# Builds everything and runs the tests; the last lines are CTest's own.
#
#   tests/run.sh [--full] [--no-install] [--preset NAME] [--jobs N]
#
#   --full         also the slow and nightly tests
#   --no-install   install no packages
#   --preset NAME  another build than "release": debug, asan, tsan, coverage, clang, off
#   --jobs N       build and test N at a time (default: the number of cores)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

full=no
install=()
preset=release
jobs="$(nproc)"
while [ $# -gt 0 ]; do
  case "$1" in
    --full) full=yes ;;
    --no-install) install=(--no-install) ;;
    --preset) preset="${2:?--preset wants a name}"; shift ;;
    --jobs) jobs="${2:?--jobs wants a number}"; shift ;;
    --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "tests/run.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
  shift
done

say() { printf '== %s\n' "$*"; }

say "packages"
bash examples/install-packages.sh "${install[@]}" tests || [ ${#install[@]} -gt 0 ]

say "configure (preset $preset)"
log="$(mktemp)"
# The fast run compiles the CUDA kernels, where there is nvcc, for one kind of GPU; the full one for all.
architectures=()
[ "$full" = yes ] || architectures=(-DMT_CUDA_ARCHITECTURES=90a)
cmake --preset "$preset" "${architectures[@]}" > "$log" 2>&1 || { cat "$log"; rm -f "$log"; exit 1; }
sed -n '/^-- mt [0-9]/,/^-- /p' "$log" | sed '$d'
rm -f "$log"

say "build ($jobs at a time)"
cmake --build "build/$preset" --parallel "$jobs"

# Some MPICH packages (Ubuntu 24.04's first) start N worlds of one rank each. Tests over MPI would then test nothing.
mpiexec="$(sed -n 's/^MT_TEST_MPIEXEC_USED:[A-Z]*=//p' "build/$preset/CMakeCache.txt")"
if [ -n "$mpiexec" ]; then
  say "MPI: does mpiexec start one world?"
  if bash tests/mpi_world.sh "build/$preset" "$mpiexec"; then
    echo "yes"
  else
    echo "no: $mpiexec -n 2 gives worlds of another size. The tests over MPI are skipped; ranks as threads are tested."
    export MT_TEST_MPI_BROKEN=1
  fi
fi

say "tests"
select=(--label-exclude 'slow|nightly')
[ "$full" = yes ] && select=()
exec ctest --test-dir "build/$preset" --parallel "$jobs" --output-on-failure "${select[@]}"
