#include "train/remembered_data.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace mt {

namespace {

// Not when it was written: a copy is the same data.
std::string content_hash(data::TokenFiles& files, const std::string& prefix) {
  Json content = Json::parse(files.content(prefix));
  content.erase("bin_mtime_ns");
  return hash_text(xxh3(json_line(content)));
}

std::string size_text(const Json& file) {
  if (file.contains("lines")) return fmt::format("{} lines", file["lines"].get<std::int64_t>());
  return fmt::format("{} sequences of {} tokens", file.at("sequences").get<std::int64_t>(), file.at("tokens").get<std::int64_t>());
}

}  // namespace

Json remembered_data(const RunData& data) {
  Json files = Json::array();
  const auto plans = data.plans();
  if (plans.empty()) return files;
  for (const auto& m : *plans.front().members) {
    Json file{{"prefix", m.prefix}, {plans.front().chats ? "lines" : "sequences", m.sequences}};
    if (!plans.front().chats) file["tokens"] = m.tokens;
    if (data.sets) file["content"] = content_hash(data.sets->files, m.prefix);
    files.push_back(std::move(file));
  }
  return files;
}

std::vector<std::string> data_changes(const Json& stored, const Json& now) {
  std::vector<std::string> lines;
  if (stored.size() != now.size()) return lines;
  for (std::size_t i = 0; i < now.size(); ++i) {
    Json was = stored.at(i), is = now[i];
    const std::string name = is["prefix"], sizes[2] = {size_text(was), size_text(is)};
    was.erase("prefix");
    is.erase("prefix");
    if (was == is) continue;
    lines.push_back(sizes[0] == sizes[1]
                        ? fmt::format("{} holds other tokens than when the checkpoint was saved", name)
                        : fmt::format("{} has {} for training, {} when the checkpoint was saved", name, sizes[1], sizes[0]));
  }
  return lines;
}

}  // namespace mt
