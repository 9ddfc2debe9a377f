#include "data/post_processor.h"

#include "base/error.h"
#include "data/token_table.h"

namespace mt::data {

namespace {

[[noreturn]] void broken(const std::string& what) { throw Error(Code::corrupt, "post-processor " + what); }

Id id_of(const Json& json) {
  if (!json.is_number_integer()) broken("with an id that is none");
  const auto id = json.get<std::int64_t>();
  if (id < 0 || id > kMaxTokenId) broken(fmt::format("with the id {}", id));
  return static_cast<Id>(id);
}

// ["[SEP]", 102] of BertProcessing and RobertaProcessing.
Id pair_id(const Json& json, const char* key) {
  const auto pair = json.find(key);
  if (pair == json.end() || !pair->is_array() || pair->size() != 2) broken(fmt::format("without '{}'", key));
  return id_of(pair->at(1));
}

Surround read_template(const Json& json) {
  const auto single = json.find("single"), special = json.find("special_tokens");
  if (single == json.end() || !single->is_array()) broken("TemplateProcessing without 'single'");
  Surround around;
  int texts = 0;
  for (const Json& part : *single) {
    if (part.is_object() && part.contains("Sequence")) {
      ++texts;
      continue;
    }
    const Json token = part.is_object() ? part.value("SpecialToken", Json()) : Json();
    const std::string name = token.is_object() && token.contains("id") && token.at("id").is_string()
                                 ? token.at("id").get<std::string>()
                                 : "";
    if (name.empty() || special == json.end() || !special->is_object() || !special->contains(name)) {
      broken(fmt::format("TemplateProcessing with the part {}", json_line(part)));
    }
    const Json ids = special->at(name).value("ids", Json());
    if (!ids.is_array()) broken(fmt::format("TemplateProcessing: no ids of '{}'", name));
    for (const Json& id : ids) (texts == 0 ? around.before : around.after).push_back(id_of(id));
  }
  if (texts != 1) broken(fmt::format("TemplateProcessing with {} texts in 'single'", texts));
  return around;
}

}  // namespace

Surround read_post_processor(const Json& json) {
  if (json.is_null()) return {};
  const std::string type = json.is_object() && json.contains("type") && json.at("type").is_string()
                               ? json.at("type").get<std::string>()
                               : "";
  if (type == "ByteLevel") return {};  // it only moves offsets
  if (type == "TemplateProcessing") return read_template(json);
  if (type == "BertProcessing" || type == "RobertaProcessing") return {{pair_id(json, "cls")}, {pair_id(json, "sep")}};
  if (type == "Sequence") {
    const auto list = json.find("processors");
    if (list == json.end() || !list->is_array()) broken("Sequence without 'processors'");
    Surround all;  // a later one goes around an earlier one
    for (const Json& one : *list) {
      const Surround outer = read_post_processor(one);
      all.before.insert(all.before.begin(), outer.before.begin(), outer.before.end());
      all.after.insert(all.after.end(), outer.after.begin(), outer.after.end());
    }
    return all;
  }
  throw Error(Code::data, fmt::format("post-processor {} is not supported", type.empty() ? json_line(json) : type));
}

}  // namespace mt::data
