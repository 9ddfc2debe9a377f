#include <algorithm>

#include <fmt/format.h>

#include "base/file_lock.h"
#include "base/json.h"
#include "tokenizer/byte_level_bpe.h"
#include "tokenizer/tokenizer_json.h"

namespace mt::tokenizer {

namespace {

std::string json_text(std::string_view text) { return Json(text).dump(); }

Json byte_level(bool add_prefix_space) {
  return Json{
      {"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"trim_offsets", true}, {"use_regex", true}};
}

// What stands around vocabulary and merges of a style.
struct Frame {
  std::string pre_tokenizer, decoder, flags;
};

Frame frame_of(const TrainedBpe& bpe) {
  if (bpe.style == BpeStyle::byte_level) {
    return {byte_level(false).dump(), byte_level(true).dump(),
            "    \"unk_token\": null,\n    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n"};
  }
  const std::string block = "\xE2\x96\x81";
  const Json steps = {{{"type", "Replace"}, {"pattern", {{"String", block}}}, {"content", " "}},
                      {{"type", "ByteFallback"}},
                      {{"type", "Fuse"}},
                      {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}};
  const bool unknown = std::find(bpe.special.begin(), bpe.special.end(), "<unk>") != bpe.special.end();
  return {Json{{"type", "Metaspace"}, {"replacement", block}, {"prepend_scheme", "always"}, {"split", true}}.dump(),
          Json{{"type", "Sequence"}, {"decoders", steps}}.dump(),
          fmt::format("    \"unk_token\": {},\n    \"fuse_unk\": true,\n    \"byte_fallback\": true,\n",
                      unknown ? "\"<unk>\"" : "null")};
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
    const bool bytes = bpe.style == BpeStyle::byte_level && id >= bpe.special.size();
    return bytes ? token_of_bytes(bpe.tokens[id]) : bpe.tokens[id];
  };
  const Frame frame = frame_of(bpe);
  std::string out = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n";
  out += "  \"added_tokens\": " + added.dump() + ",\n  \"normalizer\": null,\n";
  out += "  \"pre_tokenizer\": " + frame.pre_tokenizer + ",\n  \"post_processor\": null,\n";
  out += "  \"decoder\": " + frame.decoder + ",\n  \"model\": {\n    \"type\": \"BPE\",\n";
  out += "    \"dropout\": null,\n    \"continuing_subword_prefix\": null,\n";
  out += "    \"end_of_word_suffix\": null,\n" + frame.flags;
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

}  // namespace mt::tokenizer
