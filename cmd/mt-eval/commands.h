#pragma once
// The commands of mt-eval, a file each, and what they share: a model, a tokenizer, ranks.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/cli.h"
#include "infer/session.h"
#include "options/registry_options.h"
#include "options/tokenizer_options.h"
#include "options/launch.h"

namespace mt::eval {

struct ModelFlags {
  SessionOptions session;
  bool bf16 = false, fp32 = false;
  options::TokenizerFlags tokenizer;
  options::Launch launch;
  options::RegistryFlag registry;

  void add(OptionTable& table);
  // After parsing.   fails  Error{usage} for --bf16 with --fp32, or no --load
  SessionOptions resolved() const;
};

// The tokenizer of the flags, checked against the fingerprint the checkpoint was trained with.
//   fails  Error{config} when they differ, or the vocabulary is larger than the model's
std::unique_ptr<tokenizer::Tokenizer> tokenizer_for(const ModelFlags& flags, const Session& session);

// What the numbers are computed in: "f32", "bf16", "f16". fp8 is no part of a model here, as in Megatron, where flags of the
// evaluation decide: a checkpoint that was trained with it is computed without, and rank 0 warns of it.
std::string told_precision(Communicator& world, const Session& session);

// Text the tokenizer can take.   fails  Error{data} with the place of the first byte that is not UTF-8
void check_utf8(std::string_view text, const std::string& where);

using Build = std::function<std::function<int()>(OptionTable&, const cli::Shared&)>;
Build ppl_command();
Build generate_command();

}  // namespace mt::eval
