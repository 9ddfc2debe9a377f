#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "commands.h"
#include "data/indexed_dataset.h"
#include "options/tokenizer_options.h"

namespace mt::preprocess {

namespace {

struct Flags {
  options::TokenizerFlags tokenizer;
  std::vector<std::string> prefixes;
  std::string documents;
  bool ids = false, keep_eod = false, sequences = false;
};

struct Range {
  std::int64_t begin, end;
};

// "A:B", "A:", ":B" or "A" of `count` documents.
Range parse_range(const std::string& text, std::int64_t count) {
  if (text.empty()) return {0, count};
  const auto number = [&text](std::string_view word, std::int64_t fallback) {
    if (word.empty()) return fallback;
    std::int64_t n = -1;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    if (error != std::errc() || stop != word.data() + word.size() || n < 0) {
      throw Error(Code::usage, fmt::format("'{}': wanted FIRST:END, such as 0:10", text), "--documents");
    }
    return n;
  };
  const std::size_t colon = text.find(':');
  const std::string_view view = text;
  Range range{number(view.substr(0, colon), 0), 0};
  range.end = colon == std::string::npos ? range.begin + 1 : number(view.substr(colon + 1), count);
  if (range.begin > range.end || range.end > count) {
    throw Error(Code::usage, fmt::format("documents {} to {}: the file has {}", range.begin, range.end, count),
                "--documents");
  }
  return range;
}

// What encode added to the texts and is not to be shown.
struct Additions {
  std::optional<tokenizer::Id> eod;
  std::vector<tokenizer::Id> before, after;  // around each text
};

// Sequences [begin, end) of document d, one behind the other.
std::vector<tokenizer::Id> read_sequences(const data::IndexedDataset& file, std::int64_t d, Range part, const Additions& added) {
  std::vector<tokenizer::Id> ids;
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    std::vector<tokenizer::Id> text(static_cast<std::size_t>(file.length(i)));
    file.read(i, 0, text);
    if (added.eod && i + 1 == file.document_end(d) && !text.empty() && text.back() == *added.eod) text.pop_back();
    std::span<const tokenizer::Id> shown = text;
    if (shown.size() >= added.before.size() &&
        std::equal(added.before.begin(), added.before.end(), shown.begin())) {
      shown = shown.subspan(added.before.size());
    }
    if (shown.size() >= added.after.size() &&
        std::equal(added.after.rbegin(), added.after.rend(), shown.rbegin())) {
      shown = shown.first(shown.size() - added.after.size());
    }
    ids.insert(ids.end(), shown.begin(), shown.end());
  }
  return ids;
}

struct Place {
  std::int64_t document;
  std::optional<std::int64_t> sequence;  // in it
};

void print(const Place& place, const std::string& text, const std::vector<tokenizer::Id>& ids, const Flags& flags,
           bool json) {
  if (json) {
    Json j{{"document", place.document}};
    if (place.sequence) j["sequence"] = *place.sequence;
    flags.ids ? j["ids"] = ids : j["text"] = text;
    return cli::object(j);
  }
  std::string out = text;
  if (flags.ids) {
    for (std::size_t i = 0; i < ids.size(); ++i) out += fmt::format("{}{}", i == 0 ? "" : " ", ids[i]);
  }
  out += '\n';
  std::fwrite(out.data(), 1, out.size(), stdout);  // a failure shows when stdout is closed
}

int cat(const Flags& flags, bool json) {
  if (flags.prefixes.size() != 1) throw Error(Code::usage, "wanted one token file", "PREFIX");
  const data::IndexedDataset file(flags.prefixes.front());
  const auto origin = file.origin();
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  if (!flags.ids) {
    tokenizer = tokenizer::make_tokenizer(flags.tokenizer.spec());
    if (origin && origin->fingerprint != hash_text(tokenizer->fingerprint())) {
      log::warn("{} was written with another tokenizer ({}, vocabulary {})", file.prefix(), origin->tokenizer_type,
                origin->vocab_size);
    }
  }
  Additions added;
  if (!flags.keep_eod && !(origin && !origin->eod_appended)) {
    added.eod = origin ? origin->eod : tokenizer ? tokenizer->eod() : std::nullopt;
  }
  if (!flags.keep_eod && origin) {
    added.before = origin->before;
    added.after = origin->after;
  }
  const Range range = parse_range(flags.documents, file.num_documents());
  for (std::int64_t d = range.begin; d < range.end; ++d) {
    const Range all{file.document_begin(d), file.document_end(d)};
    const auto show = [&](std::optional<std::int64_t> sequence, Range part) {
      const std::vector<tokenizer::Id> ids = read_sequences(file, d, part, added);
      print({d, sequence}, tokenizer ? tokenizer->decode(ids) : "", ids, flags, json);
    };
    if (!flags.sequences) show(std::nullopt, all);
    else for (std::int64_t i = all.begin; i < all.end; ++i) show(i - all.begin, {i, i + 1});
  }
  return 0;
}

}  // namespace

Run build_cat(OptionTable& table, const cli::Shared& shared) {
  const auto flags = std::make_shared<Flags>();
  table.positional(flags->prefixes, "PREFIX", "token file, with or without .bin or .idx");
  table.group("Documents");
  table.add("documents", flags->documents, "A:B", "documents A to B-1, from 0; A alone is one; by default all");
  table.add("sequences", flags->sequences, "", "a line a sequence, as a sentence is with --split-sentences, not a line a document");
  table.add("ids", flags->ids, "", "print ids, not text");
  table.add("keep-eod", flags->keep_eod, "", "keep the end token that encode appended, and what stands around texts");
  flags->tokenizer.add(table);
  return [flags, &shared] { return cat(*flags, shared.json); };
}

}  // namespace mt::preprocess
