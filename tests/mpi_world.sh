#!/usr/bin/env bash
# Status 0 when `mpiexec -n 2` starts one world of two ranks:  mpi_world.sh BUILD_DIR MPIEXEC
set -euo pipefail
probe="$1/mpi_world_probe"
[ -x "$probe" ] || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
[ "$(timeout 60 "$2" -n 2 "$probe" < /dev/null | sort | tr '\n' ' ')" = "2 2 " ]
