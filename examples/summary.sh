#!/usr/bin/env bash
# The short table at the end of the quickstart, from what the run left in the current directory.
set -euo pipefail
number() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$2" | tail -n 1; }
loss_at() { sed -n "s/.*\"event\":\"step\",\"iteration\":$1,.*\"loss\":\([-0-9.e+]*\).*/\1/p" run/run.jsonl | tail -n 1; }
last="$(cat run/latest_checkpointed_iteration.txt)"

echo "sample"
sed 's/^/  /' sample.txt
echo
echo "training loss"
for step in 1 $((last / 4)) $((last / 2)) $((last * 3 / 4)) "$last"; do
  printf '  step %4d   %s\n' "$step" "$(loss_at "$step")"
done
echo
echo "held-out perplexity per token"
awk -F '\t' '{ printf "  %-34s %8s\n", $1 == "bigram" ? "interpolated bigram" : $1, $2 }' ngram.tsv
printf '  %-34s %8.1f\n' "this model, $last steps" "$(number token_ppl ppl.json)"
printf '  %-34s %8.3f\n' "bits per byte" "$(number bits_per_byte ppl.json)"
awk -F '\t' -v ppl="$(number token_ppl ppl.json)" '$1 == "unigram" {
  printf "  %-34s %8.2f  (wanted: at most 0.50)\n", "model / unigram", ppl / $2; exit !(ppl / $2 <= 0.5) }' ngram.tsv
echo
echo "registry"
mt-runs list | cut -f 1-8 | sed 's/^/  /'
