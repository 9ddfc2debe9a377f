#include "data/encode_identity.h"

#include <sys/stat.h>

#include "base/cli.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/encode_journal.h"

namespace mt::data {

namespace {

constexpr std::size_t kMostListed = 1000;

Json input_identity(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) throw Error(Code::io, "no such file", path);
  return {{"file", path}, {"bytes", st.st_size}, {"changed_ns", st.st_mtim.tv_sec * 1'000'000'000LL + st.st_mtim.tv_nsec}};
}

// Why a token file is not what a run over `wanted` would make; "": it is.
std::string difference_of(const std::string& prefix, const Json& sidecar, const Json& wanted) {
  const IndexedDataset file(prefix);
  for (const auto& [name, count] : {std::pair{"documents", file.num_documents()}, {"sequences", file.num_sequences()},
                                    {"tokens", file.num_tokens()}}) {
    if (const auto said = json_field<std::int64_t>(sidecar, name, sidecar_path(prefix).string()); said != count)
      throw Error(Code::corrupt, fmt::format("says {} {}, the token file has {}", said, name, count), sidecar_path(prefix).string(),
                  "--force encodes anew");
  }
  return first_difference(sidecar.at("made_from"), wanted);
}

}  // namespace

Json identity_of(const EncodeJob& job, TokenType type, const tokenizer::Tokenizer& tokenizer) {
  constexpr const char* kFormats[] = {"auto", "jsonl", "text"};
  constexpr const char* kBad[] = {"stop", "skip", "replace"};
  Json j{{"version", cli::version()},
         {"tokenizer", hash_text(tokenizer.fingerprint())},
         {"--eod-token", tokenizer.eod() ? Json(*tokenizer.eod()) : Json()},
         {"ids around texts", {tokenizer.surround().before, tokenizer.surround().after}},
         {"--parse-special", job.parse_special},
         {"--json-keys", job.keys},
         {"--append-eod", job.append_eod},
         {"--token-type", token_type_name(type)},
         {"--input-format", kFormats[static_cast<int>(job.source.format)]},
         {"--document-separator", job.source.document_separator},
         {"--shard", {job.source.share.index, job.source.share.count}},
         {"--partitions", job.source.deal},
         {"--split-sentences", job.split_sentences},
         {"--keep-newlines", job.keep_newlines},
         {"--on-error", kBad[static_cast<int>(job.on_bad)]},
         {"--rejects", job.rejects},
         {"--stats", job.stats}};
  j["inputs"] = Json::array();
  for (const std::string& path : job.source.inputs) j["inputs"].push_back(input_identity(path));
  return j;
}

Json kept_identity(const Json& identity) {
  Json kept = identity;
  for (const char* name : {"version", "--rejects", "--stats"}) kept.erase(name);
  const Json& inputs = identity.at("inputs");
  if (inputs.size() > kMostListed) {
    const std::string text = json_line(inputs);
    kept["inputs"] = fmt::format("{} files, hash {}", inputs.size(), hash_text(xxh3(text.data(), text.size())));
  }
  return kept;
}

std::optional<EncodeReport> finished_run(const EncodeJob& job, const Json& identity) {
  for (const std::string& key : job.keys) {
    if (const std::string prefix = key_prefix(job, key); !fs::exists(idx_path(prefix)) || !fs::exists(bin_path(prefix))) return std::nullopt;
  }
  EncodeReport report;
  report.already_complete = true;
  for (const std::string& key : job.keys) {
    const std::string prefix = key_prefix(job, key), sidecar = sidecar_path(prefix).string();
    const Json j = fs::exists(sidecar) ? read_json(sidecar) : Json();
    const bool says = j.is_object() && j.contains("made_from");
    const std::string difference = says ? difference_of(prefix, j, kept_identity(identity)) : "";
    if (job.force && (!says || !difference.empty())) {
      log::info("{}: {}; it is encoded anew", prefix, says ? "is of another run: " + difference : "does not say what it was made from");
      return std::nullopt;
    }
    if (!says)
      throw Error(Code::io, "exists already, and does not say what it was made from", sidecar, "--force overwrites, or choose another name");
    if (!difference.empty())
      throw Error(Code::config, "is finished and of another run: " + difference, prefix,
                  "give it what it had, --force to encode anew, or another --output-prefix");
    if (report.prefixes.empty()) {
      report.documents = j.at("documents").get<std::int64_t>();
      report.sequences = j.at("sequences").get<std::int64_t>();
      report.tokens = j.at("tokens").get<std::int64_t>();
    }
    report.prefixes.push_back(prefix);
  }
  return report;
}

}  // namespace mt::data
