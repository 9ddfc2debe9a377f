#include <algorithm>

#include "base/error.h"
#include "commands.h"
#include "data/indexed_dataset.h"

namespace mt::preprocess {

namespace {

struct Facts {
  std::string prefix, type, tokenizer = "-", fingerprint = "-";
  std::int64_t documents, sequences, tokens, empty_documents = 0, longest = 0, vocab_size = 0;
};

Facts facts_of(const std::string& name) {
  const data::IndexedDataset file(name);
  Facts f{file.prefix(), file.type_name(), "-", "-", file.num_documents(), file.num_sequences(), file.num_tokens()};
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
  table.positional(*prefixes, "PREFIX...", "token files, with or without .bin or .idx");
  return [prefixes, &shared] {
    if (prefixes->empty()) throw Error(Code::usage, "no token file given", "PREFIX");
    if (!shared.json) {
      cli::row({"prefix", "documents", "sequences", "tokens", "type", "empty_documents", "longest_sequence",
                "tokenizer", "vocab_size", "fingerprint"});
    }
    for (const std::string& name : *prefixes) {
      const Facts f = facts_of(name);
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
                     {"fingerprint", f.fingerprint}});
      } else {
        cli::row({f.prefix, text(f.documents), text(f.sequences), text(f.tokens), f.type, text(f.empty_documents),
                  text(f.longest), f.tokenizer, text(f.vocab_size), f.fingerprint});
      }
    }
    return 0;
  };
}

}  // namespace mt::preprocess
