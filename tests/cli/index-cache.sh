#!/usr/bin/env bash
# Orders of samples made ahead by mt-preprocess index, and taken by mt-train without building: every form of a blend.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

for name in a b c; do
  for i in $(seq 60); do echo "{\"text\": \"$name $i $(printf "$name%.0s" $(seq $((1 + i % 17))))\"}"; done > $name.jsonl
  mt-preprocess --input $name.jsonl --output-prefix $name --tokenizer-type ByteTokenizer --append-eod --registry none --quiet
  ln $name"_text_document.bin" $name.bin && ln $name"_text_document.idx" $name.idx && ln $name"_text_document.json" $name.json
done
model=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --max-position-embeddings 16 --micro-batch-size 1 --lr 1e-3
  --registry none --metrics-file run.jsonl --local-ranks 2)
length=(--seq-length 16 --global-batch-size 4 --train-iters 3 --eval-interval 2 --eval-iters 1)
index=(mt-preprocess index --registry none --data-cache-path cache)
train() { expect 0 "$1" mt-train "${model[@]}" --data-cache-path cache "${@:2}"; }

# One file; a weighted blend out of a file of words; sets of their own; full passes, together and by name.
printf '0.5 a\n0.3 b  0.2 c\n' > words
echo '{"train": [0.5, "a", 0.5, "b"], "valid": "b c", "test": ["c"]}' > split.json
seed=0
check() {
  seed=$((seed + 1))
  local sets="$1"
  shift
  expect 0 "index cache: $sets built" "${index[@]}" "${length[@]}" --seed $seed "$@"
  train "index cache: hit ($sets of $sets) in cache" "${length[@]}" --seed $seed "$@"
}
check 3 --data-path a --split 8,1,1
check 12 --data-args-path words --split 8,1,1
check 8 --data-path a b c --split 6,4,0
check 7 --per-split-data-args-path split.json
check 2 --train-data-path a --valid-data-path c --full-validation
expect 0 "2 hit, 1 built" "${index[@]}" "${length[@]}" --seed $seed --train-data-path a --valid-data-path b c --full-validation --multiple-validation-sets
train "hit (3 of 3)" "${length[@]}" --seed $seed --train-data-path a --valid-data-path b c --full-validation --multiple-validation-sets

# The plan is printed, told, and stands in the record, with the losses of the members.
expect 0 "" "${index[@]}" "${length[@]}" --data-args-path words --split 8,1,1
grep -qxF "$(printf 'training\t1\tb\t0.3\t4\t')" <(cut -f 1-5 out.txt | sed 's/$/\t/') || fail "$(cat out.txt)"
train "1 b: 30 % of the samples, 4 of" "${length[@]}" --data-args-path words --split 8,1,1
grep -q '"data":{"training":{"samples":13,"members":\[{"prefix":"a","weight":0.5,"samples":6,' run.jsonl || fail "$(head -1 run.jsonl)"
grep -q '"iteration":1,.*"sources":\[{"member":0,"samples":2,"tokens":32,"loss":' run.jsonl || fail "$(sed -n 2p run.jsonl)"
grep -q ' loss by source | a: ' out.txt || fail "$(cat out.txt)"

# Flags out of the script that starts a training; those of the model are left aside.
cat > train.sh << 'END'
ARGS=( --num-layers 1 --hidden-size 16 --swiglu )
DATA="--data-path 1 a 2 b --split 1 --seed 7"
torchrun --nproc_per_node 2 train.py ${ARGS[@]} $DATA --seq-length 16 --train-samples 50 \
  --global-batch-size 4 --lr 1e-3 --data-cache-path cache
END
expect 0 "4 flags left aside" mt-preprocess index --registry i.db --args-file train.sh
grep -q "index cache: 3 built" err.txt || fail "$(cat err.txt)"
mt-runs show last --registry i.db --json | grep -q '"samples_made"' || fail "not recorded"
train "hit (3 of 3)" --seq-length 16 --global-batch-size 4 --train-samples 50 --data-path 1 a 2 b --split 1 --seed 7

# Other content of the same size is another file; a cut order is made again; nobody needs the cache.
cp -L c.bin kept && rm c.bin && tr c d < kept > c.bin
train "built" "${length[@]}" --local-ranks 1 --train-data-path a --valid-data-path c --full-validation
for order in cache/a-*.order; do head -c 100 "$order" > cut && cp cut "$order"; done
train "is made again: 100 bytes of" "${length[@]}" --local-ranks 1 --train-data-path a --valid-data-path c --full-validation
touch file
train "kept in memory" "${length[@]}" --data-path a --split 8,1,1 --data-cache-path file/none
expect 5 "could not be stored" mt-preprocess index --registry none "${length[@]}" --data-path a --split 8,1,1 --data-cache-path file/none
[ -z "$(find cache -name '*.tmp.*' -o -name '*.lock')" ] || fail "left behind: $(ls cache)"

# Refusals.
expect 2 "--seq-length" "${index[@]}" --data-path a --train-iters 1 --global-batch-size 4
expect 2 "--train-iters" "${index[@]}" --data-path a --seq-length 16 --global-batch-size 4
expect 2 "nowhere to keep" mt-preprocess index "${length[@]}" --data-path a --split 8,1,1 --data-cache-path none --registry none
expect 3 "beside other flags" "${index[@]}" "${length[@]}" --data-path a --data-args-path words
expect 3 "leave the weights out" "${index[@]}" "${length[@]}" --data-args-path words --full-validation
expect 3 "give weights" "${index[@]}" "${length[@]}" --data-path a b c --split 8,1,1 --train-iters 1000
expect 4 "'trian' is no key" "${index[@]}" "${length[@]}" --per-split-data-args-path <(echo '{"trian": "a"}')

# Killed or out of space at every file operation: the next run finds a whole order or none, and a full disk stops nothing. The
# lock of a killed process may stay, and locks nobody out.
if [ -n "${MT_TEST_FAULT_LIB:-}" ]; then
  drill=(mt-preprocess index --registry none "${length[@]}" --data-path a --split 1 --eval-interval 10 --eval-iters 0
    --data-cache-path "$work/drill")
  mkdir drill
  MT_TEST_FAULT=log:any:0:/drill MT_TEST_FAULT_LOG="$work/ops.txt" LD_PRELOAD="$MT_TEST_FAULT_LIB" "${drill[@]}" > /dev/null 2>&1
  operations="$(wc -l < ops.txt)"
  [ "$operations" -ge 6 ] || fail "only $operations operations seen"
  cp drill/*.order whole
  for n in $(seq "$operations"); do
    for action in kill enospc; do
      rm -rf drill && mkdir drill
      status=0
      MT_TEST_FAULT="$action:any:$n:/drill" LD_PRELOAD="$MT_TEST_FAULT_LIB" "${drill[@]}" > out.txt 2> err.txt || status=$?
      [ "$action" = kill ] || [ "$(wc -l < out.txt)" = 2 ] || fail "enospc at $n: no plan: $(cat err.txt)"
      [ "$action" = kill ] || [ -z "$(find drill -name '*.tmp*')" ] || fail "enospc at $n left $(ls drill)"
      expect 0 "index cache: " "${drill[@]}"
      cmp drill/*.order whole || fail "$action at operation $n"
      [ "$(find drill -type f ! -name '*.lock' | wc -l)" = 1 ] || fail "$action at $n: $(ls drill)"
    done
  done
fi
echo ok
