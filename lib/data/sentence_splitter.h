#pragma once
// Text into sentences by a few written rules, for data whose samples are made of sentences (BERT, T5).
//
// These are not the trained rules of NLTK's punkt, which Megatron uses: about the same on plain English prose, not the
// same sentence by sentence. The rules:
//   1  A sentence ends behind a run of . ! ? and U+2026, with the closing quotes and brackets that follow at once, where
//      white space or the end of the text comes next.
//   2  Not behind a single full stop, unless the text ends there, if the word before it is an abbreviation of a short
//      English list (Mr, Dr, St, vs, ...; No, p, Fig, Jan, ... where a digit follows), one capital letter, or a number
//      that begins the sentence ("1. First"); or has a full stop inside ("e.g.", "U.S.") and no capital letter follows.
//   3  Not where the next letter is a small one, past opening quotes and brackets.
//   4  Behind a run of the full-width U+3002 U+FF01 U+FF1F U+FF61 with its closing quotes, white space or not.
//   5  An empty line (line feeds with nothing but white space between) always ends one.
// White space between sentences belongs to none, unless it is kept: then it stays at the end of the sentence before it.
// Code: data/sentence_splitter.cc. Tests: tests/data/sentence_splitter_test.cc.

#include <cstddef>
#include <string_view>
#include <vector>

namespace mt::data {

// Longest piece that is looked at as one, in code points: longer texts are cut there first, as Megatron does.
constexpr std::size_t kSentencePiece = 1'000'000;

// Append the sentences of `text` to `out`, as views into it; none is empty or white space alone.
//   needs  valid UTF-8
//   cost   about 300 MB/s
void split_sentences(std::string_view text, bool keep_space, std::vector<std::string_view>& out);

}  // namespace mt::data
