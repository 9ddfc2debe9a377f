#!/usr/bin/env bash
# Does the emulation notice a missing barrier? Leaves one out at a time and runs the tests.
#
#   tests/cuda_emulation/mutate.sh BUILD_DIR [FILE...]
#
# A mutant: one __syncthreads(), __syncwarp() or copy_async_wait<>() of lib/ops/cuda/, or one wait of lib/device/cuda/ or
# lib/comm/nccl/ for an event or a stream, that the emulation does not carry out (MT_EMULATION_LEAVE_OUT). FILE: only those of these sources.
# A mutant is found when a test fails, the emulation stops the program, or a run takes ten times as long as it did, with
# the threads in order or in two random orders (MT_EMULATION_SEED). A row a mutant, then the share found. Status 1 below 90 %.
# Known to survive: the barrier behind the clearing of digits in sum_squares.cu; the first exchange of a warp gives the
# clearing threads their turn in every order of threads that the emulation draws. So do both waits of memory_cache.cu: they
# come when memory has run out, and no test fills a device.
# BUILD_DIR has test_ops_emulated, test_device_emulated and test_comm_emulated built.
set -euo pipefail
build="$(cd "$1" && pwd)"
shift
source="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
waits='__syncthreads\(\)|__syncwarp\(\)|copy_async_wait<[0-9]>\(\)|cudaStreamWaitEvent\(|cudaEventSynchronize\(|cudaStreamSynchronize\('
export MT_TEST_DEVICE=cuda

if [ $# -gt 0 ]; then files=("$@")
else
  mapfile -t files < <(cd "$source" && grep -lE "$waits" lib/ops/cuda/*.cu lib/ops/cuda/*.h lib/device/cuda/*.cu lib/comm/nccl/*.cc |
    grep -v 'ptx\.h$')
fi

tests_for() {
  case "$1" in
    *attention*) echo 'Attention.*:MixedDtypes.*' ;;
    *embedding*) echo 'Embedding.*:CudaEqualsCpu.*Token*:CudaEqualsCpu.Embedding*' ;;
    *fp8*) echo 'Fp8*' ;;
    *sum_squares*) echo 'SumSquares.*' ;;
    */nccl/*) echo 'Nccl*:*/nccl*' ;;
    *reduce.h) echo 'Norm.*:CrossEntropy.*:Fp8.*:Adamw.*' ;;
    *) echo '*' ;;
  esac
}

all=0 found=0
for file in "${files[@]}"; do
  binary="$build/tests/test_ops_emulated"
  case "$file" in
    lib/device/*) binary="$build/tests/test_device_emulated" ;;
    lib/comm/*) binary="$build/tests/test_comm_emulated" ;;
  esac
  filter="$(tests_for "$file"):-*DeathTest*"
  began=$SECONDS
  "$binary" --gtest_brief=1 --gtest_filter="$filter" > "$log" 2>&1 || { cat "$log"; exit 2; }
  limit=$((10 * (SECONDS - began) + 20))
  while IFS=: read -r line _; do
    how=''
    for seed in 0 1 2; do
      status=0
      MT_EMULATION_LEAVE_OUT="$file:$line" MT_EMULATION_SEED=$seed timeout "$limit" "$binary" --gtest_brief=1 \
        --gtest_fail_fast --gtest_filter="$filter" > "$log" 2>&1 || status=$?
      [ "$status" = 0 ] || { how="seed $seed, status $status"; break; }
    done
    all=$((all + 1))
    text="$(sed -n "${line}p" "$source/$file" | sed 's/^ *//')"
    if [ -n "$how" ]; then
      found=$((found + 1))
      printf 'found     %s:%s  %s  (%s)\n' "$file" "$line" "$text" "$how"
    else
      printf 'survives  %s:%s  %s\n' "$file" "$line" "$text"
    fi
  done < <(grep -nE "$waits" "$source/$file" | grep -vE '^[0-9]+: *//')
done
[ "$all" -gt 0 ] || { echo "nothing to leave out in ${files[*]}"; exit 2; }
echo "$found of $all found ($((100 * found / all)) %)"
[ $((100 * found)) -ge $((90 * all)) ]
