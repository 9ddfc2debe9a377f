#include "data/merge_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/progress.h"
#include "data/indexed_dataset.h"
#include "data/output_check.h"

namespace mt::data {

namespace {

std::vector<std::string> token_files_in(const std::string& directory) {
  std::set<std::string> bins, idxs;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) continue;
    const std::string path = entry->path().string();
    if (path.ends_with(".bin")) bins.insert(path.substr(0, path.size() - 4));
    if (path.ends_with(".idx")) idxs.insert(path.substr(0, path.size() - 4));
  }
  if (error) throw Error(Code::io, "cannot read the directory: " + error.message(), directory);
  for (const std::string& prefix : bins) {
    if (idxs.count(prefix) == 0) throw Error(Code::data, "has no .idx beside it", bin_path(prefix).string(), "complete it or take it away");
  }
  for (const std::string& prefix : idxs) {
    if (bins.count(prefix) == 0) throw Error(Code::data, "has no .bin beside it", idx_path(prefix).string(), "complete it or take it away");
  }
  if (bins.empty()) throw Error(Code::data, "no token file in the directory", directory, "name their prefixes");
  return {bins.begin(), bins.end()};
}

// What all files have in common.
struct Common {
  std::string first;  // its name in messages
  int type_code = 0;
  const char* type_name = "";
  std::optional<TokenFileOrigin> origin;  // nothing: a file has none
  std::string with, without;              // the first that has one, that has none

  void take(const IndexedDataset& file);
};

void Common::take(const IndexedDataset& file) {
  const bool is_first = first.empty();
  if (is_first) {
    first = file.prefix();
    type_code = file.type_code();
    type_name = file.type_name();
  }
  if (file.type_code() != type_code) {
    throw Error(Code::data, fmt::format("tokens are {}, those of {} are {}", file.type_name(), first, type_name), file.prefix());
  }
  if (type_code != static_cast<int>(TokenType::u16) && type_code != static_cast<int>(TokenType::i32)) {
    throw Error(Code::data, fmt::format("tokens are {}: only uint16 and int32 files are merged", type_name), file.prefix());
  }
  const std::optional<TokenFileOrigin> other = file.origin();
  if (std::string& of_its_kind = other ? with : without; of_its_kind.empty()) of_its_kind = file.prefix();
  if (is_first) {
    origin = other;
  } else if (!origin || !other) {
    origin.reset();
  } else if (origin->fingerprint != other->fingerprint || origin->eod_appended != other->eod_appended ||
             origin->before != other->before || origin->after != other->after) {
    throw Error(Code::data,
                fmt::format("made with tokenizer {} {}{}, {} with {} {}{}", other->tokenizer_type, other->fingerprint,
                            other->eod_appended ? " and end tokens" : "", first, origin->tokenizer_type, origin->fingerprint,
                            origin->eod_appended ? " and end tokens" : ""),
                file.prefix());
  } else if (origin->parse_special != other->parse_special || origin->sentences != other->sentences) {
    const char* flag = origin->sentences != other->sentences ? "--split-sentences" : "--parse-special";
    throw Error(Code::data, fmt::format("of it and {} one was made with {}, one without", first, flag), file.prefix());
  }
}

}  // namespace

std::vector<std::string> expand_prefixes(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& name : names) {
    std::error_code error;
    const bool directory = fs::is_directory(name, error) && !fs::exists(idx_path(name), error);
    const std::vector<std::string> files = directory ? token_files_in(name) : std::vector<std::string>{token_file_prefix(name)};
    all.insert(all.end(), files.begin(), files.end());
  }
  return all;
}

MergeReport merge_files(const std::vector<std::string>& names, const std::string& output_prefix, bool force) {
  const std::vector<std::string> prefixes = expand_prefixes(names);
  if (prefixes.empty()) throw Error(Code::usage, "no token file to merge");
  Common common;
  std::uint64_t bytes = 0;
  OutputFiles outputs;
  outputs.force = force;
  for (const std::string& prefix : prefixes) {
    const IndexedDataset file(prefix);
    common.take(file);
    bytes += file.bin().size();
    for (const fs::path& path : {bin_path(prefix), idx_path(prefix), sidecar_path(prefix)})
      outputs.inputs.push_back(path.string());
  }
  for (const fs::path& path : {bin_path(output_prefix), idx_path(output_prefix), sidecar_path(output_prefix)})
    outputs.outputs.push_back(path.string());
  check_outputs(outputs);
  remove_stale_temporaries(outputs);
  IndexedWriter writer(output_prefix, static_cast<TokenType>(common.type_code), force);
  Progress progress("merge", bytes, "bytes");
  std::uint64_t done = 0;
  for (const std::string& prefix : prefixes) {
    const IndexedDataset file(prefix);
    (void)file.verify();  // what is damaged gets no hash of its own
    writer.add_file(file);
    progress.update(done += file.bin().size());
  }
  writer.commit(common.origin);
  progress.finish();
  return {std::ssize(prefixes), writer.num_documents(), writer.num_sequences(), writer.num_tokens(),
          common.with.empty() ? "" : common.without};
}

}  // namespace mt::data
