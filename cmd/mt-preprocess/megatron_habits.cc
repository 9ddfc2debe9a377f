#include "megatron_habits.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace mt::preprocess {

namespace {

struct Habit {
  const char* name;
  const char* argument;  // "" for a switch; "X..." takes several
  const char* accepted;  // value that asks for nothing; "*": any; null: none
  const char* words;     // why nothing is to be done, or why not
  const char* instead;   // of what is refused
};

constexpr const char* kPadding = "a vocabulary is padded where a model is made, not in token files";
constexpr const char* kTokens = "special tokens are those of the tokenizer's file";
constexpr const char* kChats = "conversations are put into a prompt format where samples are made";
constexpr const char* kSweep = "there is no sweep over numbers of workers: the output is the same for any";
constexpr Habit kHabits[] = {
    {"log-interval", "N", "*", "progress shows on a terminal, and a plain line comes now and then elsewhere", ""},
    {"dataset-impl", "NAME", "mmap", "token files are of the one format, mmap", "mmap, or leave it out"},
    {"legacy-tokenizer", "", "*", "there is one implementation of each tokenizer", ""},
    {"tokenizer-hf-use-fast", "", "*", "there is one implementation of each tokenizer", ""},
    {"tokenizer-hf-no-use-fast", "", "*", "there is one implementation of each tokenizer", ""},
    {"trust-remote-code", "", "*", "no code of a tokenizer is ever run", ""},
    {"tokenizer-metadata", "FILE", "*", "the kind of tokenizer is what --tokenizer-type says", ""},
    {"make-vocab-size-divisible-by", "N", "*", kPadding, ""},
    {"padded-vocab-size", "N", "*", kPadding, ""},
    {"no-pad-vocab-size", "", "*", kPadding, ""},
    {"tensor-model-parallel-size", "N", "*", kPadding, ""},
    {"rank", "N", "*", "one process does the work, with --workers threads", ""},
    {"vocab-extra-ids", "N", "0", "sentinels are put behind the vocabulary where samples are made",
     "leave it out, and give it to mt-preprocess samples"},
    {"special-tokens", "S...", nullptr, kTokens, "a tokenizer's file that holds them"},
    {"tokenizer-special-tokens", "S...", nullptr, kTokens, "a tokenizer's file that holds them"},
    {"tiktoken-special-tokens", "S...", nullptr, kTokens, "--tiktoken-num-special-tokens"},
    {"tokenizer-sentencepiece-legacy", "", nullptr, kTokens, "a .model that holds them"},
    {"null-tokenizer-eod-id", "N", nullptr, "the end id of NullTokenizer is its last, N-1", "--vocab-size N"},
    {"null-tokenizer-pad-id", "N", "*", "nothing is padded in token files", ""},
    {"sft-tokenizer-prompt-format", "NAME", nullptr, kChats, "mt-train --sft, which reads the chat file itself"},
    {"tokenizer-prompt-format", "NAME", nullptr, kChats, "mt-train --sft, which reads the chat file itself"},
    {"image-tag-type", "NAME", nullptr, "images are not read", "text alone"},
    {"force-system-message", "", nullptr, kChats, "mt-train --sft, which reads the chat file itself"},
    {"find-optimal-num-workers", "", nullptr, kSweep, "--workers N, and the rate of the summary"},
    {"workers-to-check", "N...", nullptr, kSweep, "--workers N"},
    {"max-documents", "N", nullptr, kSweep, "head -n N FILE | mt-preprocess --input -"},
};

void take(const Habit& habit, const std::vector<std::string>& values) {
  const bool is_switch = habit.argument[0] == '\0';
  if (is_switch && values.at(0) == "false") return;
  std::string said = habit.name;
  for (const std::string& value : is_switch ? std::vector<std::string>() : values) said += " " + value;
  const std::string asks_nothing = habit.accepted != nullptr ? habit.accepted : "";
  if (habit.accepted != nullptr && (asks_nothing == "*" || (values.size() == 1 && values[0] == asks_nothing)))
    return log::info("--{}: {}", said, habit.words);
  throw Error(Code::config, fmt::format("{}: {}", said, habit.words), fmt::format("--{}", habit.name), habit.instead);
}

}  // namespace

void add_megatron_habits(OptionTable& table) {
  for (const Habit& habit : kHabits) {
    OptionRow row;
    row.name = habit.name;
    row.argument = habit.argument;
    row.multiple = row.argument.ends_with("...");
    if (row.multiple) row.argument.resize(row.argument.size() - 3);
    row.hidden = row.foreign = true;
    row.help = habit.words;
    row.set = [&habit](const std::vector<std::string>& values) { take(habit, values); };
    table.add_foreign(std::move(row));
  }
}

}  // namespace mt::preprocess
