#include <fmt/format.h>

#include "base/file_lock.h"
#include "base/json.h"
#include "data/byte_level_bpe.h"
#include "data/tokenizer_json.h"

namespace mt::data {

namespace {

std::string json_text(std::string_view text) { return Json(text).dump(); }

Json byte_level(bool add_prefix_space) {
  return Json{
      {"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"trim_offsets", true}, {"use_regex", true}};
}

}  // namespace

// The large objects are streamed: an ordered JSON object of a whole vocabulary would be searched for each insertion.
void write_tokenizer_json(const std::filesystem::path& path, const TrainedBpe& bpe, bool replace) {
  Json added = Json::array();
  for (std::size_t id = 0; id < bpe.special.size(); ++id) {
    added.push_back({{"id", id},
                     {"content", bpe.special[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const auto spelled = [&bpe](std::size_t id) {
    return id < bpe.special.size() ? bpe.special[id] : token_of_bytes(bpe.tokens[id]);
  };
  std::string out = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n";
  out += "  \"added_tokens\": " + added.dump() + ",\n  \"normalizer\": null,\n";
  out += "  \"pre_tokenizer\": " + byte_level(false).dump() + ",\n  \"post_processor\": null,\n";
  out += "  \"decoder\": " + byte_level(true).dump() + ",\n  \"model\": {\n    \"type\": \"BPE\",\n";
  out += "    \"dropout\": null,\n    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n";
  out += "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n";
  out += "    \"ignore_merges\": false,\n    \"vocab\": {";
  for (std::size_t id = 0; id < bpe.tokens.size(); ++id) {
    out += fmt::format("{}\n      {}: {}", id == 0 ? "" : ",", json_text(spelled(id)), id);
  }
  out += "\n    },\n    \"merges\": [";
  for (std::size_t i = 0; i < bpe.merges.size(); ++i) {
    const Merge& m = bpe.merges[i];
    out += fmt::format("{}\n      [{}, {}]", i == 0 ? "" : ",", json_text(spelled(static_cast<std::size_t>(m.left))),
                       json_text(spelled(static_cast<std::size_t>(m.right))));
  }
  out += "\n    ]\n  }\n}\n";
  OutputFile file(path);
  file.write(out.data(), out.size());
  file.finish();
  if (replace) file.publish();
  else publish_new(file, path);
}

}  // namespace mt::data
