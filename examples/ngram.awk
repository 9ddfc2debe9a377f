# Perplexity of held-out documents under the simplest models of the training documents: unigram, and bigram
# interpolated with it. Input: two files of `mt-preprocess cat --ids` (a document a line), training first.
#   unigram   (count + 1) / (total + vocabulary)
#   bigram    w·count(a b)/count(a) + (1 - w)·unigram(b), w of 0.05 ... 0.95 chosen on every tenth training document
# The start of a document is token "^". Result: TSV, model and token perplexity.
function unigram(t) { return (count[t] + 1) / (total + vocabulary) }
function probability(a, t, w) {
  if (!(a in after)) return unigram(t)
  return w * pair[a, t] / after[a] + (1 - w) * unigram(t)
}
FNR == 1 { ++file }
file == 1 && FNR % 10 == 0 { tuning[++tunings] = $0; next }
file == 1 {
  previous = "^"
  for (i = 1; i <= NF; ++i) {
    ++count[$i]; ++total; ++pair[previous, $i]; ++after[previous]
    previous = $i
  }
  next
}
{ held[++holds] = $0 }
function bigram_nll(documents, n, w,    d, i, parts, k, sum, tokens, a) {
  for (d = 1; d <= n; ++d) {
    k = split(documents[d], parts, " ")
    a = "^"
    for (i = 1; i <= k; ++i) { sum -= log(probability(a, parts[i], w)); a = parts[i]; ++tokens }
  }
  return sum / tokens
}
END {
  best = 1e30
  for (w = 0.05; w < 0.96; w += 0.1)
    if ((nll = bigram_nll(tuning, tunings, w)) < best) { best = nll; weight = w }
  for (d = 1; d <= holds; ++d) {
    k = split(held[d], parts, " ")
    for (i = 1; i <= k; ++i) { sum -= log(unigram(parts[i])); ++tokens }
  }
  printf "unigram\t%.1f\n", exp(sum / tokens)
  printf "bigram\t%.1f\n", exp(bigram_nll(held, holds, weight))
}
