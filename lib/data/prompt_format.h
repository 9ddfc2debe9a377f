#pragma once
// Conversations as text: what stands around a message of each role, and which tokens of it are answers.
//
// A small fixed set of formats; no template is ever read from a data or tokenizer file.
//   nemotron-h-aligned  <SPECIAL_10>System\nS\n · <SPECIAL_11>User\nU\n<SPECIAL_11>Assistant\n · A\n (Megatron's
//                       default)
//   nemotron-nano-v2    as above; the answer is <SPECIAL_11>Assistant\nA\n<SPECIAL_12>\n, its first 3 tokens do not
//                       count; /think and /no_think are taken out of S and U as Megatron does
//   identity            the messages as they are, one behind the other
//   chatml              <|im_start|>ROLE\nM<|im_end|>\n; an answer counts up to and with <|im_end|>
//   llama3              <|begin_of_text|>, then <|start_header_id|>ROLE<|end_header_id|>\n\nM<|eot_id|>; an answer
//                       counts with <|eot_id|>
//   mistral             <s>, then [INST] U[/INST] and " A</s>", where [INST] and [/INST] are tokens (mistral-common's V2
//                       and V3); the system message stands before the last U, an empty line between
//   mistral-v1          <s>, then [INST] U [/INST] and " A</s>", where they are text (V1); it stands before the first U
// S, U and A lose white space at both ends in all but identity and chatml. An empty system message is left out by the
// last four. Every message is encoded alone, so an answer is the same ids wherever it stands.
// Source: Megatron-LM core 0.20 (SFTTokenizer) for the first three; the chat templates published with Qwen 2.5 and 3 and
// Llama 3, without the system message that some put in unasked; mistral-common 1.5.1 for Mistral's.
// Code: data/prompt_format.cc. Tests: tests/data/sft_dataset_test.cc.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace mt::data {

using tokenizer::Id;

// A message: role is system, user, assistant or tool.
struct Turn {
  std::string role, content;
};
using Conversation = std::vector<Turn>;

// Text without white space at its ends; white space is what Python's str.strip takes.
std::string_view strip_space(std::string_view text);

class PromptFormat {
 public:
  //   needs  `tokenizer` outlives this and was made with parse_special
  //   fails  Error{config}: an unknown name ("default" is Megatron's for the tokenizer's own template, which is not run
  //          here)
  PromptFormat(const std::string& name, const tokenizer::Tokenizer& tokenizer);
  static std::span<const std::string_view> names();

  // Append a conversation's ids; counts[i] is 1 where id i is part of an answer.
  void encode(const Conversation& conversation, tokenizer::EncodeScratch& scratch, std::vector<Id>& ids,
              std::vector<char>& counts) const;

  // What fills a sample up: the format's own (<SPECIAL_233>, <unk>, <|endoftext|>, <|eot_id|>, </s>), else the
  // tokenizer's end, else 0. It never counts, so which one it is changes no loss.
  Id pad() const { return pad_; }
  // Control tokens of the format that the tokenizer lacks: they are encoded as plain text.
  const std::vector<std::string>& missing_tokens() const { return missing_; }

  // What a format is made of; rows are in prompt_format.cc.
  struct Kind;

 private:
  const Kind* kind_;
  const tokenizer::Tokenizer* tokenizer_;
  Id pad_ = 0;
  std::vector<std::string> missing_;
};

}  // namespace mt::data
