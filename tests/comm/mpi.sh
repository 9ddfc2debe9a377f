#!/usr/bin/env bash
# The tests of a binary on every rank of an MPI job:   mpi.sh BINARY RANKS [NAME=VALUE...]
set -euo pipefail
[ -n "${MT_TEST_MPIEXEC:-}" ] || { echo "skipped: this build has no MPI"; exit 77; }
[ -z "${MT_TEST_MPI_BROKEN:-}" ] || { echo "skipped: mpiexec starts worlds of one rank"; exit 77; }
binary="$1" ranks="$2"
shift 2
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export GTEST_FILTER='Comm/*'
[ $# -eq 0 ] || export "$@"
exec "$MT_TEST_MPIEXEC" -n "$ranks" "$binary" --gtest_brief=1 < /dev/null
