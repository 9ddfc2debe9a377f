#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "data/indexed_dataset.h"

namespace mt::preprocess {

namespace {

struct Facts {
  std::string prefix, type, tokenizer = "-", fingerprint = "-", verified = "no";
  std::int64_t documents = 0, sequences = 0, tokens = 0, empty_documents = 0, longest = 0, vocab_size = 0;
};

Facts facts_of(const std::string& name, bool verify) {
  const data::IndexedDataset file(name);
  Facts f;
  f.prefix = file.prefix();
  f.type = file.type_name();
  f.documents = file.num_documents();
  f.sequences = file.num_sequences();
  f.tokens = file.num_tokens();
  if (verify && !file.verify()) {
    throw Error(Code::data, "its .json holds no hashes to compare with", file.prefix(), "leave out --verify for this file");
  }
  if (verify) f.verified = "yes";
  for (std::int64_t d = 0; d < f.documents; ++d) f.empty_documents += file.document_begin(d) == file.document_end(d);
  for (std::int64_t i = 0; i < f.sequences; ++i) f.longest = std::max<std::int64_t>(f.longest, file.length(i));
  if (const auto origin = file.origin()) {
    f.tokenizer = origin->tokenizer_type;
    f.fingerprint = origin->fingerprint;
    f.vocab_size = origin->vocab_size;
  }
  return f;
}

}  // namespace

Run build_info(OptionTable& table, const cli::Shared& shared) {
  const auto prefixes = std::make_shared<std::vector<std::string>>();
  const auto verify = std::make_shared<bool>(false);
  table.positional(*prefixes, "PREFIX...", "token files, with or without .bin or .idx");
  table.group("Check");
  table.add("verify", *verify, "", "read both files whole and compare their hashes with those of the .json");
  return [prefixes, verify, &shared] {
    if (prefixes->empty()) throw Error(Code::usage, "no token file given", "PREFIX");
    if (!shared.json) {
      cli::row({"prefix", "documents", "sequences", "tokens", "type", "empty_documents", "longest_sequence",
                "tokenizer", "vocab_size", "fingerprint", "verified"});
    }
    int unsound = 0;
    std::optional<Code> code;  // of the first
    for (const std::string& name : *prefixes) {
      Facts f;
      try {
        f = facts_of(name, *verify);
      } catch (const Error& e) {  // said at once; the others are looked at all the same
        if (prefixes->size() == 1) throw;
        log::line(e.what());
        if (!code) code = e.code();
        ++unsound;
        continue;
      }
      const auto text = [](std::int64_t n) { return std::to_string(n); };
      if (shared.json) {
        cli::object({{"prefix", f.prefix},
                     {"documents", f.documents},
                     {"sequences", f.sequences},
                     {"tokens", f.tokens},
                     {"type", f.type},
                     {"empty_documents", f.empty_documents},
                     {"longest_sequence", f.longest},
                     {"tokenizer", f.tokenizer},
                     {"vocab_size", f.vocab_size},
                     {"fingerprint", f.fingerprint},
                     {"verified", f.verified == "yes"}});
      } else {
        cli::row({f.prefix, text(f.documents), text(f.sequences), text(f.tokens), f.type, text(f.empty_documents),
                  text(f.longest), f.tokenizer, text(f.vocab_size), f.fingerprint, f.verified});
      }
    }
    if (code) throw Error(*code, fmt::format("{} of {} token files cannot be told of", unsound, prefixes->size()));
    return 0;
  };
}

}  // namespace mt::preprocess
