#include "data/merge_files.h"

#include <memory>

#include "base/error.h"
#include "data/indexed_dataset.h"
#include "data/output_check.h"

namespace mt::data {

MergeReport merge_files(const std::vector<std::string>& prefixes, const std::string& output_prefix, bool force) {
  if (prefixes.empty()) throw Error(Code::usage, "no token file to merge");
  std::vector<std::unique_ptr<IndexedDataset>> files;
  std::optional<TokenFileOrigin> origin;
  for (const std::string& prefix : prefixes) {
    files.push_back(std::make_unique<IndexedDataset>(prefix));
    const IndexedDataset& file = *files.back();
    if (file.type_code() != files.front()->type_code()) {
      throw Error(Code::data,
                  fmt::format("tokens are {}, those of {} are {}", file.type_name(), prefixes.front(),
                              files.front()->type_name()),
                  prefix);
    }
    if (file.type_code() != static_cast<int>(TokenType::u16) && file.type_code() != static_cast<int>(TokenType::i32)) {
      throw Error(Code::data, fmt::format("tokens are {}: only uint16 and int32 files are merged", file.type_name()),
                  prefix);
    }
    const std::optional<TokenFileOrigin> other = file.origin();
    if (files.size() == 1) {
      origin = other;
    } else if (origin && other &&
               (origin->fingerprint != other->fingerprint || origin->eod_appended != other->eod_appended ||
                origin->before != other->before || origin->after != other->after)) {
      throw Error(Code::data,
                  fmt::format("made with tokenizer {} {}{}, {} with {} {}{}", other->tokenizer_type, other->fingerprint,
                              other->eod_appended ? " and end tokens" : "", prefixes.front(), origin->tokenizer_type,
                              origin->fingerprint, origin->eod_appended ? " and end tokens" : ""),
                  prefix);
    } else if (!other) {
      origin.reset();
    }
  }
  OutputFiles outputs;
  outputs.force = force;
  for (const auto& file : files) {
    for (const fs::path& path : {bin_path(file->prefix()), idx_path(file->prefix()), sidecar_path(file->prefix())})
      outputs.inputs.push_back(path.string());
  }
  for (const fs::path& path : {bin_path(output_prefix), idx_path(output_prefix), sidecar_path(output_prefix)})
    outputs.outputs.push_back(path.string());
  check_outputs(outputs);
  remove_stale_temporaries(outputs);
  IndexedWriter writer(output_prefix, static_cast<TokenType>(files.front()->type_code()), force);
  for (const auto& file : files) writer.add_file(*file);
  writer.commit(origin);
  return {writer.num_documents(), writer.num_sequences(), writer.num_tokens()};
}

}  // namespace mt::data
