#!/usr/bin/env bash
# Tools for files work on machines without MPI or a GPU: they link neither.   linkage.sh TOOL...
set -euo pipefail
bad=0
for tool in "$@"; do
  case "$tool" in
    mt-preprocess | mt-ckpt | mt-reshard) ;;
    *) continue ;;
  esac
  linked="$(ldd "$MT_TEST_BIN/$tool" | grep -E 'lib(mpi|mpich|open-rte|cuda|cudart|cublas|nccl)' || true)"
  [ -z "$linked" ] || { echo "$tool links: $linked"; bad=1; }
done
exit "$bad"
