#!/usr/bin/env bash
# kill -9 at a random moment of mt-reshard and mt-ckpt convert, both ways: what it leaves is a complete checkpoint or model or
# none, and run again it makes the right one and leaves nothing else.
#   kill_rewrite.sh KILLS [SEED]
set -euo pipefail
kills="$1" seed="${2:-$RANDOM}"
RANDOM="$seed"
export PATH="$MT_TEST_BIN:$PATH"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
exec 2> noise  # the shell's words on every killed job

fail() {
  trap - ERR
  echo "FAILED with seed $seed, kill $n (${act[*]}): $*"
  tail -n 5 err noise
  ls -lAR to
  exit 1
}
trap 'fail "status $? at line $LINENO"' ERR
n=0 act=()
mt-ckpt random --save from --iteration 20 --optimizer --bf16 --vocab-size 8192 --hidden-size 256 --num-layers 4 --num-attention-heads 8 \
  --normalization RMSNorm --swiglu --disable-bias-linear --position-embedding-type rope --untie-embeddings-and-output-weights > out
mt-reshard --load from --save weights --weights-only --registry none > out
mt-ckpt convert --load weights --save model --to hf > out

now_ms() { echo $(($(date +%s%N) / 1000000)); }
same() { # whether `to` holds what it should
  case "$kind" in
    reshard) mt-ckpt diff from to > out 2> err ;;
    import) mt-ckpt diff weights to > out 2> err ;;
    export) cmp -s model/config.json to/config.json && cmp -s model/model.safetensors to/model.safetensors ;;
  esac
}
layouts=("--target-tensor-parallel-size 4" "--target-tensor-parallel-size 2 --target-pipeline-parallel-size 2" "--num-shards 3"
  "--target-data-parallel-size 4 --target-data-parallel-sharding-strategy optim" "--ckpt-codec planes-zstd")
killed=0 took=300
for ((n = 1; n <= kills; ++n)); do
  kinds=(reshard reshard export import) kind="${kinds[RANDOM % 4]}"
  case "$kind" in
    # shellcheck disable=SC2206
    reshard) act=(mt-reshard --load from --save to --registry none ${layouts[RANDOM % ${#layouts[@]}]}) ;;
    export) act=(mt-ckpt convert --load weights --save to --to hf) ;;
    import) act=(mt-ckpt convert --load model --save to) ;;
  esac
  rm -rf to
  had=no
  if [ $((RANDOM % 2)) = 1 ]; then  # over a complete one
    "${act[@]}" > out 2> err || fail "$(cat err)"
    had=yes act+=(--force)
  fi
  "${act[@]}" > out 2> err < /dev/null &
  job=$!
  delay=$((RANDOM % took))
  sleep "$(printf '%d.%03d' $((delay / 1000)) $((delay % 1000)))"
  kill -9 "$job" 2> /dev/null || true
  if wait "$job" 2> /dev/null; then :; else killed=$((killed + 1)); fi
  case "$kind" in
    export)
      # A model is there once its config is; over an older one, the same model here, it always is, but for the moment in
      # which the new files take their names.
      if [ "$had" = yes ] && [ ! -e to/config.json ]; then
        cmp -s model/model.safetensors to/model.safetensors || compgen -G 'to/model.safetensors.tmp.*' > none || fail "the model that was there is gone"
      fi
      if [ -e to/config.json ]; then same || fail "a model that is not whole"; fi ;;
    *)
      if [ "$had" = yes ]; then [ -e to/latest_checkpointed_iteration.txt ] || fail "the checkpoint that was there is gone"; fi
      if [ -e to/latest_checkpointed_iteration.txt ]; then
        mt-ckpt verify to > out 2> err || fail "$(cat out err)"
        same || fail "a checkpoint that is not the source's"
      fi ;;
  esac
  [ "${act[-1]}" = --force ] || act+=(--force)
  start=$(now_ms)
  "${act[@]}" > out 2> err || fail "run again: $(cat err)"
  took=$(($(now_ms) - start + 10))
  same || fail "run again it is not the same"
  left="$(find to -name '*.tmp*' -o -name 'replaced-*' -o -name '.lock')"
  [ -z "$left" ] || fail "left behind: $left"
done
act=(end)
[ "$killed" -ge $((kills / 4)) ] || fail "only $killed of $kills died"
echo "$kills rewritings, $killed killed, seed $seed"
