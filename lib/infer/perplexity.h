#pragma once
// Perplexity of documents under a model: every token scored once, by windows that slide.
//
//   W  window, tokens of context and targets together       S  stride, 1 ≤ S ≤ W
// A document of n tokens behind a start id (the end-of-text id) has n targets. Window k covers targets up to
// W + k·S; it counts those the windows before it did not: the first counts up to W, later ones the last S. So every
// target has at least W − S tokens of context (but for the first window). Without a start id the first token of a
// document cannot be scored, and is counted as such.
//   token ppl = exp(nll / tokens)   word ppl = exp(nll / words)   byte ppl = exp(nll / bytes)
//   bits per byte = nll / (bytes·ln 2)     words are separated by white space
// A window longer than the longest document would only add padding: W (and S) are cut to it, and a micro-batch to the
// windows a rank has.
// Code: infer/perplexity.cc. Tests: tests/infer/perplexity_test.cc.

#include <functional>
#include <string>
#include <vector>

#include "infer/session.h"

namespace mt {

struct ScoredDocument {
  std::vector<std::int32_t> tokens;
  std::int64_t words = 0, bytes = 0;  // 0 when the text is not known
};

struct PerplexityOptions {
  int window = 0;  // 0: the model's positions, else 1024
  int stride = 0;  // 0: half the window
  int micro_batch = 4;
  std::optional<std::int32_t> start_id;
};

struct Perplexity {
  double nll = 0;  // nats, summed over scored tokens
  std::int64_t tokens = 0, unscored_tokens = 0, words = 0, bytes = 0, documents = 0, windows = 0;
  int window = 0, stride = 0;  // as used
  double token_ppl() const, word_ppl() const, byte_ppl() const, bits_per_byte() const;
};

// Collective over the session's world; the same numbers on every rank.
//   fails  Error{data} when there is nothing to score, or a token the vocabulary does not have; Error{config} for a window
//          beyond a learned table of positions, a stride beyond the window, a micro-batch below 1
Perplexity perplexity(Session& session, const std::vector<ScoredDocument>& documents,
                      const PerplexityOptions& options);

// Words of a text, as wc counts them.
std::int64_t count_words(std::string_view text);

}  // namespace mt
