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

// {"Sequence": {"id": "A", "type_id": 0}} or {"SpecialToken": {"id": "[CLS]", "type_id": 0}}.
struct Piece {
  bool is_text = false;
  std::string name;
};
Piece read_piece(const JsonFields& one) {
  const bool is_text = one.json().contains("Sequence");
  const char* key = is_text ? "Sequence" : "SpecialToken";
  if (!one.json().contains(key)) one.broken(key, "neither this nor a Sequence");
  const JsonFields piece(one.json().at(key), one.path() + "." + key);
  piece.needed_count("type_id");
  return {is_text, piece.text("id")};
}

// Every entry names itself, its ids and their tokens, used or not.
void check_special_tokens(const JsonFields& part) {
  const auto special = part.json().find("special_tokens");
  if (special == part.json().end() || !special->is_object()) part.broken("special_tokens", "wanted an object");
  for (const auto& [name, entry] : special->items()) {
    const JsonFields fields(entry, fmt::format("{}.special_tokens.{}", part.path(), name));
    fields.text("id");
    for (const char* key : {"ids", "tokens"}) {
      const auto list = entry.find(key);
      if (list == entry.end() || !list->is_array()) fields.broken(key, "wanted an array");
    }
  }
}

Surround read_template(const JsonFields& part) {
  Surround around;
  int texts = 0;
  check_special_tokens(part);
  for (const JsonFields& one : part.list("single")) {
    const Piece piece = read_piece(one);
    if (piece.is_text) {
      ++texts;
      continue;
    }
    for (const Json& id : ids_of(part, piece.name)) {
      (texts == 0 ? around.before : around.after).push_back(id_of(id, part, "special_tokens"));
    }
  }
  if (texts != 1) part.broken("single", fmt::format("wanted one text in it, found {}", texts));
  for (const JsonFields& one : part.list("pair")) read_piece(one);
  return around;
}

Surround read_part(const JsonFields& part) {
  const std::string type = part.text("type");
  if (type == "ByteLevel") {  // it only moves offsets
    for (const char* key : {"add_prefix_space", "trim_offsets"}) part.flag(key);
    part.flag("use_regex", true);
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
