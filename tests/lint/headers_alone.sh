#!/usr/bin/env bash
# Every header of lib/ compiles alone.   headers_alone.sh COMPILER GENERATED_DIR [FLAGS...]
set -euo pipefail
compiler="$1" generated="$2"
shift 2
cd "$MT_TEST_SOURCE/lib"
export compiler generated
export flags="$*"
check() {
  # shellcheck disable=SC2086
  printf '#include "%s"\n' "$1" | "$compiler" -std=c++20 -fsyntax-only -O0 -w -I. -I"$generated" $flags -x c++ - ||
    { echo "$1 does not compile alone"; return 255; }
}
export -f check
# CUDA headers need nvcc or the toolkit; they are compiled with their sources. Those of mpi/ need an MPI.
without_mpi=()
echo '#include <mpi.h>' | "$compiler" -fsyntax-only $flags -x c++ - 2> /dev/null || without_mpi=(-not -path '*/mpi/*')
{ find . -name '*.h' -not -path '*/cuda/*' -not -path '*/cudnn/*' -not -path '*/nccl/*' "${without_mpi[@]}" | sed 's|^\./||'
  (cd "$generated" && find base -name '*.h'); } | sort |
  xargs -P "$(nproc)" -I{} bash -c 'check {}'
