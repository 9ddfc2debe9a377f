#pragma once
// Flags about what samples are made of, spelled as Megatron spells them, for every tool that makes samples.
//
// Each function adds rows to the group at hand, bound to the struct, which must outlive the table. Tests: tests/cli/.

#include "base/options.h"
#include "data/sample_options.h"

namespace mt::options {

inline void add_fim(OptionTable& t, data::FimOptions& f) {
  t.add("fim-rate", f.rate, "P", "share of stretches between end tokens that are changed").between(0, 1);
  t.add("fim-spm-rate", f.spm_rate, "P", "share of those in the order suffix, prefix, middle").between(0, 1);
  t.add("fim-split-sample", f.split_sample, "S", "token at which stretches are cut in fragments");
  t.add("fim-fragment-rate", f.fragment_rate, "P", "share of fragments that are changed").between(0, 1);
  t.add("fim-no-prefix", f.no_prefix, "S", "text that begins so stays as it is");
  t.add("fim-prefix-token", f.prefix_token, "S", "stands before the prefix");
  t.add("fim-middle-token", f.middle_token, "S", "stands before the middle");
  t.add("fim-suffix-token", f.suffix_token, "S", "stands before the suffix");
  t.add("fim-pad-token", f.pad_token, "S", "fills a sample that became shorter");
  t.add("fim-eod-token", f.eod_token, "S", "parts the documents of a sample");
}

inline void add_sft(OptionTable& t, data::SftOptions& s) {
  t.add("sft-tokenizer-prompt-format", s.prompt_format, "NAME",
        "nemotron-h-aligned, nemotron-nano-v2, identity, chatml, llama3, mistral or mistral-v1");
  t.add("sft-pack-lines", s.pack_lines, "", "consecutive lines share a sample while they fit");
}

}  // namespace mt::options
