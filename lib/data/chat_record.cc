#include "data/chat_record.h"

#include <algorithm>
#include <array>
#include <optional>

#include <simdjson.h>

#include "base/error.h"

namespace mt::data {

namespace dom = simdjson::dom;

namespace {

constexpr std::array kAsked = {"instruction", "prompt", "query", "question"};
constexpr std::array kAnswered = {"output", "response", "completion", "answer"};
constexpr std::array kBeside = {"input", "context"};

[[noreturn]] void refuse(const std::string& where, std::string reason, std::string hint = "") {
  throw Error(Code::data, std::move(reason), where, std::move(hint));
}

std::optional<dom::element> field(const dom::object& object, std::string_view name) {
  std::optional<dom::element> found;
  for (const auto& [key, value] : object)
    if (key == name) found = value;
  return found;
}

// A text field; null and nothing are "".
std::string text_of(const std::optional<dom::element>& value, const std::string& what, const std::string& where) {
  if (!value || value->is_null()) return "";
  std::string_view text;
  if (value->get(text) != simdjson::SUCCESS)
    refuse(where, fmt::format("{}: wanted a string", what), "images and other parts of messages are not read");
  return std::string(text);
}

// The first of the fields that holds text.
std::string first_text(const dom::object& object, std::span<const char* const> names, const std::string& where) {
  for (const char* name : names)
    if (std::string text = text_of(field(object, name), fmt::format("field '{}'", name), where); !text.empty())
      return text;
  return "";
}

bool has_one(const dom::object& object, std::span<const char* const> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return field(object, name).has_value(); });
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// What ShareGPT's speakers are here.
std::string role_of_speaker(const std::string& speaker) {
  for (const char* name : {"gpt", "assistant", "model", "chatgpt", "bing", "bard"})
    if (speaker == name) return "assistant";
  for (const char* name : {"tool", "function", "observation"})
    if (speaker == name) return "tool";
  return speaker == "system" ? "system" : "user";
}

dom::array list_of(const dom::element& value, const char* name, const std::string& where) {
  dom::array list;
  if (value.get(list) != simdjson::SUCCESS) refuse(where, fmt::format("field '{}': wanted a list of messages", name));
  return list;
}

Conversation openai_messages(const dom::element& value, const std::string& where) {
  Conversation turns;
  for (const dom::element item : list_of(value, "messages", where)) {
    dom::object object;
    if (item.get(object) != simdjson::SUCCESS) refuse(where, "a message is no object");
    const std::string name = fmt::format("message {}", turns.size() + 1);
    turns.push_back({lower(text_of(field(object, "role"), name + ": role", where)),
                     text_of(field(object, "content"), name + ": content", where)});
  }
  return turns;
}

Conversation sharegpt(const dom::element& value, const std::string& where) {
  Conversation turns;
  for (const dom::element item : list_of(value, "conversations", where)) {
    dom::object object;
    if (item.get(object) != simdjson::SUCCESS) refuse(where, "a message is no object");
    const std::string name = fmt::format("message {}", turns.size() + 1);
    turns.push_back({role_of_speaker(lower(text_of(field(object, "from"), name + ": from", where))),
                     text_of(field(object, "value"), name + ": value", where)});
  }
  if (turns.empty() || turns.front().role != "system") turns.insert(turns.begin(), Turn{"system", ""});
  return turns;
}

Conversation instruction(const dom::object& object, const std::string& where) {
  std::string asked = first_text(object, kAsked, where);
  const std::string beside = first_text(object, kBeside, where);
  if (!beside.empty()) asked += "\n\n" + beside;
  return {{"system", ""}, {"user", asked}, {"assistant", first_text(object, kAnswered, where)}};
}

void check(const Conversation& turns, const std::string& where) {
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const std::string& role = turns[i].role;
    if (role != "system" && role != "user" && role != "assistant" && role != "tool")
      refuse(where, fmt::format("message {}: unknown role '{}'", i + 1, role), "system, user, assistant or tool");
    if (role != "assistant") continue;
    if (turns[i].content.empty()) refuse(where, fmt::format("message {}: an empty answer", i + 1));
    if (i == 0 || (turns[i - 1].role != "user" && turns[i - 1].role != "tool"))
      refuse(where, fmt::format("message {}: an answer follows the user or a tool", i + 1));
  }
}

}  // namespace

std::vector<Conversation> read_conversations(std::string_view line, const std::string& where) {
  dom::parser parser;
  dom::element root;
  if (const auto error = parser.parse(line.data(), line.size(), true).get(root))
    refuse(where, fmt::format("not JSON: {}", simdjson::error_message(error)), "one object a line");
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) refuse(where, "wanted an object");
  Conversation turns;
  if (const auto messages = field(object, "messages")) {
    turns = openai_messages(*messages, where);
  } else if (const auto talk = field(object, "conversations")) {
    turns = sharegpt(*talk, where);
  } else if (has_one(object, kAsked) && has_one(object, kAnswered)) {
    turns = instruction(object, where);
  } else {
    std::string keys;
    for (const auto& [key, value] : object) keys += fmt::format("{}'{}'", keys.empty() ? "" : ", ", key);
    refuse(where, fmt::format("no conversation: the keys are {}", keys.empty() ? "none" : keys),
           "messages, conversations, or instruction and output");
  }
  if (turns.empty()) refuse(where, "no messages");
  check(turns, where);
  std::vector<Conversation> all;
  for (Turn& turn : turns) {
    if (all.empty() || turn.role == "system") all.emplace_back();
    all.back().push_back(std::move(turn));
  }
  return all;
}

}  // namespace mt::data
