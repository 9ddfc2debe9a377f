#pragma once
// What samples are made of besides the order of documents: options of fill-in-middle and of conversations.
//
// What they mean: data/fim.h, data/sft_dataset.h. Header only.

#include <optional>
#include <string>

namespace mt::data {

struct FimOptions {
  double rate = 0.5, spm_rate = 0.5;  // of stretches changed; of those, as SPM
  // Stretches that hold this token are cut at it and each fragment is changed with fragment_rate.
  std::optional<std::string> split_sample;
  std::optional<double> fragment_rate;
  std::optional<std::string> no_prefix;  // text that begins so stays as it is
  std::string prefix_token = "<fim_prefix>", middle_token = "<fim_middle>", suffix_token = "<fim_suffix>",
              pad_token = "<fim_pad>", eod_token = "<|endoftext|>";
};

struct SftOptions {
  std::string prompt_format = "nemotron-h-aligned";
  bool pack_lines = false;  // consecutive lines share a sample while they fit
};

}  // namespace mt::data
