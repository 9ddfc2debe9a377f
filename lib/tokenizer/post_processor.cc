#include "tokenizer/post_processor.h"

#include "base/error.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/token_table.h"

namespace mt::tokenizer {

namespace {

Id id_of(const Json& json, const JsonFields& part, const std::string& key) {
  if (!json.is_number_integer()) part.broken(key, fmt::format("wanted an id, found {}", type_words(json)));
  const auto id = json.get<std::int64_t>();
  if (id < 0 || id > kMaxTokenId) part.broken(key, fmt::format("wanted an id, found {}", id));
  return static_cast<Id>(id);
}

// ["[SEP]", 102] of BertProcessing and RobertaProcessing.
Id pair_id(const JsonFields& part, const char* key) {
  const auto pair = part.json().find(key);
  if (pair == part.json().end() || !pair->is_array() || pair->size() != 2 || !pair->at(0).is_string()) {
    part.broken(key, "wanted [token, id]");
  }
  return id_of(pair->at(1), part, key);
}

// The ids a template gives a name.
const Json& ids_of(const JsonFields& part, const std::string& name) {
  const auto special = part.json().find("special_tokens");
  const bool known = special != part.json().end() && special->is_object() && special->contains(name);
  const Json* entry = known ? &special->at(name) : nullptr;
  if (entry == nullptr || !entry->is_object() || !entry->contains("ids") || !entry->at("ids").is_array()) {
    part.broken("special_tokens", fmt::format("no ids of '{}'", name));
  }
  return entry->at("ids");
}

Surround read_template(const JsonFields& part) {
  Surround around;
  int texts = 0;
  for (const JsonFields& one : part.list("single")) {
    if (one.json().contains("Sequence")) {
      ++texts;
      continue;
    }
    if (!one.json().contains("SpecialToken")) one.broken("SpecialToken", "neither this nor a Sequence");
    const JsonFields token(one.json().at("SpecialToken"), one.path() + ".SpecialToken");
    for (const Json& id : ids_of(part, token.text("id"))) {
      (texts == 0 ? around.before : around.after).push_back(id_of(id, part, "special_tokens"));
    }
  }
  if (texts != 1) part.broken("single", fmt::format("wanted one text in it, found {}", texts));
  if (part.json().contains("pair")) part.list("pair");
  return around;
}

Surround read_part(const JsonFields& part) {
  const std::string type = part.text("type");
  if (type == "ByteLevel") {  // it only moves offsets
    for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) part.flag(key, true);
    return {};
  }
  if (type == "TemplateProcessing") return read_template(part);
  if (type == "BertProcessing" || type == "RobertaProcessing") return {{pair_id(part, "cls")}, {pair_id(part, "sep")}};
  if (type != "Sequence") throw Error(Code::data, fmt::format("{} {} is not supported", part.path(), type));
  Surround all;  // a later one goes around an earlier one
  for (const JsonFields& one : part.list("processors")) {
    const Surround outer = read_part(one);
    all.before.insert(all.before.begin(), outer.before.begin(), outer.before.end());
    all.after.insert(all.after.end(), outer.after.begin(), outer.after.end());
  }
  return all;
}

}  // namespace

Surround read_post_processor(const Json& json) {
  return json.is_null() ? Surround{} : read_part(JsonFields(json, "post_processor"));
}

}  // namespace mt::tokenizer
