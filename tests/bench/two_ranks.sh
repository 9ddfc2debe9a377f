#!/usr/bin/env bash
# Two ranks with one thread each: pairs of runs in turn, medians of their ratios, beside what is wanted and what is possible.
#
#   tests/bench/two_ranks.sh BIN_DIR MPIEXEC [PAIRS] [ROW...]     10 pairs; rows: default all
#
#   row          run                                        against
#   gpt2-pp      GPT-2 124M, pp 2, 1F1B, layers 9/3,        one rank, one thread
#                16 micro-batches of 1 x 256 tokens
#   zb           pp 2, ZB-H1, 4 micro-batches               1F1B
#   zb-emulated  the same with --emulate-compute 25         1F1B, emulated
#   zero1        dp 2, ZeRO 1                               dp 2
#   overlap      dp 2, ZeRO 1, both overlaps                dp 2
#   zero3        dp 2, ZeRO 3                               dp 2
#   tp-overlap   tp 2, --tp-comm-overlap                    tp 2, with sequence parallelism both
#   tp, pp, dp   tp 2 with sequence parallelism, pp 2, dp 2 one rank, two threads
# Rows but gpt2-pp are of a GPT of 6 layers and width 512, bf16, micro-batches of 4 x 256 tokens: 16 (tp, tp-overlap, pp), 8 a rank (dp,
# ZeRO), 4 (zb). Pipelines of it split 4/2: the output layer weighs about two layers.
#
# A row says: tokens/s of both, the ratio's median and quartiles over pairs, the ratio wanted and the one no run can pass,
# "ok" where the median is as wanted (zero1, overlap: where 1 lies below the upper quartile), and the shares of its steps that were exposed
# communication and bubble, means over ranks, read from the last run's trace. A run is 3 steps; the first is not counted.
# gpt2-pp takes some 100 s a pair, the other rows 15-40 s, zb-emulated 4 s: all rows in 10 pairs about 40 minutes. The
# machine must do nothing else meanwhile.
#
# What gpt2-pp wants: 0.85 of (1 - bubble) x balance x 2, with bubble 1/17 and the balance of the split, half of the work
# over the larger stage's, counted as multiplications a token: 12 C^2 + C T a layer, V C the output layer.
set -euo pipefail
export PATH="$1:$PATH"
mpiexec="$2"
pairs="${3:-10}"
shift $(($# < 3 ? $# : 3))
[ $# -gt 0 ] || set -- gpt2-pp zb zb-emulated zero1 overlap zero3 tp-overlap tp pp dp
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"

run() { # NAME THREADS LAUNCHER... -- ARGUMENTS...; appends the median tokens/s of the steps but the first to NAME.rates
  local name="$1" threads="$2"
  shift 2
  local launch=()
  while [ "$1" != -- ]; do launch+=("$1"); shift; done
  shift
  rm -f "$name.jsonl" "$name.trace"
  OMP_NUM_THREADS="$threads" "${launch[@]}" mt-train --mock-data --seq-length 256 --bf16 --lr 1e-4 --train-iters 3 \
    --attention-dropout 0 --hidden-dropout 0 --registry none --log-interval 1000 --metrics-file "$name.jsonl" \
    --trace "$name.trace" "$@" > "$name.log" 2>&1 || { cat "$name.log"; exit 1; }
  # An emulated step has no throughput: samples/s stand in, times tokens.
  sed -n 's/.*"event":"step","iteration":[23],.*"step_s":\([0-9.e+-]*\).*"global_batch_size":\([0-9]*\).*/\1 \2/p' "$name.jsonl" |
    awk '{ s += $1; n += $2 } END { print 256 * n / s }' >> "$name.rates"
}
shares() { # NAME; exposed and bubble, means over ranks without the first step
  mt-runs trace "$1.trace" --skip-steps 1 | awk -F'\t' 'NR > 1 { e += $8; b += $9; ++n } END { printf "%.3f\t%.3f", e / n, b / n }'
}

gpt2=(--num-layers 12 --hidden-size 768 --num-attention-heads 12 --max-position-embeddings 1024 --vocab-size 50257
  --micro-batch-size 1 --global-batch-size 16)
small=(--num-layers 6 --hidden-size 512 --num-attention-heads 8 --max-position-embeddings 256 --vocab-size 8192
  --micro-batch-size 4)
sixteen=("${small[@]}" --global-batch-size 64) four=("${small[@]}" --global-batch-size 16)
two=("$mpiexec" -n 2)
pp=(--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers)
emulated=(--emulate-compute 25)
tp=(--tensor-model-parallel-size 2 --sequence-parallel)
zero1=(--use-distributed-optimizer)

pair() { # ROW; one run of it and one of what it is held against
  case "$1" in
    gpt2-pp) run a 1 "${two[@]}" -- "${gpt2[@]}" "${pp[@]}" 9; run b 1 env -- "${gpt2[@]}" ;;
    zb) run a 1 "${two[@]}" -- "${four[@]}" "${pp[@]}" 4 --pipeline-schedule zb-h1
        run b 1 "${two[@]}" -- "${four[@]}" "${pp[@]}" 4 ;;
    zb-emulated) run a 1 "${two[@]}" -- "${four[@]}" "${pp[@]}" 4 --pipeline-schedule zb-h1 "${emulated[@]}"
        run b 1 "${two[@]}" -- "${four[@]}" "${pp[@]}" 4 "${emulated[@]}" ;;
    zero1) run a 1 "${two[@]}" -- "${sixteen[@]}" "${zero1[@]}"; run b 1 "${two[@]}" -- "${sixteen[@]}" ;;
    overlap) run a 1 "${two[@]}" -- "${sixteen[@]}" "${zero1[@]}" --overlap-grad-reduce --overlap-param-gather
        run b 1 "${two[@]}" -- "${sixteen[@]}" ;;
    zero3) run a 1 "${two[@]}" -- "${sixteen[@]}" --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params
        run b 1 "${two[@]}" -- "${sixteen[@]}" ;;
    tp-overlap) run a 1 "${two[@]}" -- "${sixteen[@]}" "${tp[@]}" --tp-comm-overlap; run b 1 "${two[@]}" -- "${sixteen[@]}" "${tp[@]}" ;;
    tp) run a 1 "${two[@]}" -- "${sixteen[@]}" "${tp[@]}"; run b 2 env -- "${sixteen[@]}" ;;
    pp) run a 1 "${two[@]}" -- "${sixteen[@]}" "${pp[@]}" 4; run b 2 env -- "${sixteen[@]}" ;;
    dp) run a 1 "${two[@]}" -- "${sixteen[@]}"; run b 2 env -- "${sixteen[@]}" ;;
    *) echo "no row $1" >&2; exit 2 ;;
  esac
}
bounds() { # ROW; the ratio wanted and the highest possible
  case "$1" in
    gpt2-pp) awk 'BEGIN { c = 768; t = 256; layer = 12 * c * c + c * t; head = 50257 * c; all = 12 * layer + head
      most = 9 * layer > all - 9 * layer ? 9 * layer : all - 9 * layer
      top = 2 * 16 / 17 * (all / 2) / most; printf "%.3f %.3f", 0.85 * top, top }' ;;
    zb | zb-emulated) echo "1 $(awk 'BEGIN { printf "%.3f", 15 / 13 }')" ;;
    zero1 | overlap) echo "1 -" ;;
    zero3) echo "0.85 -" ;;
    *) echo "- -" ;;
  esac
}

printf 'row\ttokens_per_s\tagainst\tratio\tlower\tupper\twanted\tlimit\tverdict\texposed\tbubble\n'
median() { sort -g "$1" | awk '{ v[NR] = $1 } END { printf "%.0f", v[int((NR + 1) / 2)] }'; }
for row in "$@"; do
  rm -f a.rates b.rates
  for _ in $(seq "$pairs"); do pair "$row"; done
  read -r wanted limit <<< "$(bounds "$row")"
  ratios="$(paste a.rates b.rates | awk '{ print $1 / $2 }' | sort -g | awk -v wanted="$wanted" -v row="$row" '{ v[NR] = $1 } END {
    middle = v[int((NR + 1) / 2)]; lower = v[int((NR + 3) / 4)]; upper = v[int((3 * NR + 3) / 4)]
    held = row == "zero1" || row == "overlap" ? upper : middle
    printf "%.3f\t%.3f\t%.3f\t%s", middle, lower, upper, (wanted == "-" ? "-" : (held >= wanted ? "ok" : "below")) }')"
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$row" "$(median a.rates)" "$(median b.rates)" "$(cut -f 1-3 <<< "$ratios")" \
    "$wanted" "$limit" "$(cut -f 4 <<< "$ratios")" "$(shares a)"
done
