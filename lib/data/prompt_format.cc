#include "data/prompt_format.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.h"
#include "tokenizer/unicode.h"

namespace mt::data {

namespace {

// A stretch of text that is encoded by itself.
struct Piece {
  std::string text;
  bool counts = false;
  std::size_t head = 0;  // tokens at its front that do not count
};
using Pieces = std::vector<Piece>;

std::string stripped(const std::string& text) { return std::string(strip_space(text)); }

std::string without(std::string text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) text.erase(at, word.size());
  return text;
}

// `first_user`, `last_user`: places of the user's first and last message.
struct Place {
  const Conversation& all;
  std::size_t turn;
  std::size_t first_user, last_user;
};

Pieces nemotron_h(const Place& p) {
  const Turn& t = p.all[p.turn];
  if (t.role == "system") return {{"<SPECIAL_10>System\n" + stripped(t.content) + "\n"}};
  if (t.role == "user") return {{"<SPECIAL_11>User\n" + stripped(t.content) + "\n<SPECIAL_11>Assistant\n"}};
  if (t.role == "assistant") return {{stripped(t.content) + "\n", true}};
  return {};
}

Pieces nemotron_nano(const Place& p) {
  const Turn& t = p.all[p.turn];
  const auto asked = [&] { return stripped(without(without(t.content, "/think"), "/no_think")) + "\n"; };
  if (t.role == "system") return {{"<SPECIAL_10>System\n" + asked()}};
  if (t.role == "user") return {{"<SPECIAL_11>User\n" + asked()}};
  if (t.role == "assistant") return {{"<SPECIAL_11>Assistant\n" + stripped(t.content) + "\n<SPECIAL_12>\n", true, 3}};
  return {};
}

Pieces identity(const Place& p) {
  const Turn& t = p.all[p.turn];
  return {{t.content, t.role == "assistant"}};
}

Pieces chatml(const Place& p) {
  const Turn& t = p.all[p.turn];
  if (t.role == "system" && t.content.empty()) return {};
  const std::string head = "<|im_start|>" + t.role + "\n";
  if (t.role == "assistant") return {{head}, {t.content + "<|im_end|>", true}, {"\n"}};
  return {{head + t.content + "<|im_end|>\n"}};
}

Pieces llama3(const Place& p) {
  const Turn& t = p.all[p.turn];
  Pieces pieces;
  if (p.turn == 0) pieces.push_back({"<|begin_of_text|>"});
  if (t.role == "system" && t.content.empty()) return pieces;
  // Answers of tools go under the name the model was trained with.
  const std::string role = t.role == "tool" ? "ipython" : t.role;
  const std::string head = "<|start_header_id|>" + role + "<|end_header_id|>\n\n";
  const std::string text = stripped(t.content) + "<|eot_id|>";
  if (t.role != "assistant") {
    pieces.push_back({head + text});
  } else {
    pieces.push_back({head});
    pieces.push_back({text, true});
  }
  return pieces;
}

// `with_system`: the message of the user that the system message stands before.
Pieces mistral_turn(const Place& p, std::size_t with_system, const char* end) {
  const Turn& t = p.all[p.turn];
  Pieces pieces;
  if (p.turn == 0) pieces.push_back({"<s>"});
  if (t.role == "assistant") {
    pieces.push_back({" " + stripped(t.content) + "</s>", true});
  } else if (t.role == "tool") {
    pieces.push_back({"[TOOL_RESULTS] " + stripped(t.content) + "[/TOOL_RESULTS]"});
  } else if (t.role == "user") {
    std::string system;
    if (p.turn == with_system && p.all[0].role == "system") system = stripped(p.all[0].content);
    if (!system.empty()) system += "\n\n";
    pieces.push_back({"[INST] " + system + stripped(t.content) + end});
  }
  return pieces;
}

Pieces mistral(const Place& p) { return mistral_turn(p, p.last_user, "[/INST]"); }
Pieces mistral_v1(const Place& p) { return mistral_turn(p, p.first_user, " [/INST]"); }

}  // namespace

struct PromptFormat::Kind {
  std::string_view name;
  Pieces (*pieces)(const Place&);
  const char* pad;
  std::array<const char*, 3> controls;  // null: no more
};

namespace {

constexpr PromptFormat::Kind kKinds[] = {
    {"nemotron-h-aligned", nemotron_h, "<SPECIAL_233>", {"<SPECIAL_10>", "<SPECIAL_11>"}},
    {"nemotron-nano-v2", nemotron_nano, "<unk>", {"<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>"}},
    {"identity", identity, "<unk>", {}},
    {"chatml", chatml, "<|endoftext|>", {"<|im_start|>", "<|im_end|>"}},
    {"llama3", llama3, "<|eot_id|>", {"<|begin_of_text|>", "<|start_header_id|>", "<|eot_id|>"}},
    {"mistral", mistral, "</s>", {"<s>", "[INST]", "</s>"}},
    {"mistral-v1", mistral_v1, "</s>", {"<s>", "</s>"}},
};

constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kKinds)> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kKinds[i].name;
  return names;
}();

// White space of Python: Unicode's, and the four separators of ASCII.
bool is_space(std::uint32_t c) { return (tokenizer::unicode_classes()[c] & tokenizer::kSpace) != 0 || (c >= 0x1C && c <= 0x1F); }

}  // namespace

std::string_view strip_space(std::string_view text) {
  while (!text.empty()) {
    const tokenizer::Decoded d = tokenizer::decode_utf8(text.data());
    if (!is_space(d.code_point)) break;
    text.remove_prefix(d.size);
  }
  while (!text.empty()) {
    std::size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    if (!is_space(tokenizer::decode_utf8(text.data() + last).code_point)) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

std::span<const std::string_view> PromptFormat::names() { return kNames; }

PromptFormat::PromptFormat(const std::string& name, const tokenizer::Tokenizer& tokenizer) : tokenizer_(&tokenizer) {
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.name == name; });
  if (kind == std::end(kKinds)) {
    std::string known;
    for (const std::string_view n : kNames) known += fmt::format("{}{}", known.empty() ? "" : ", ", n);
    throw Error(Code::config,
                name == "default" ? std::string("'default' is the tokenizer's own template, which is not run here")
                                  : fmt::format("unknown prompt format '{}'", name),
                "--sft-tokenizer-prompt-format", "one of " + known);
  }
  kind_ = kind;
  pad_ = tokenizer.find(kind->pad).value_or(tokenizer.eod().value_or(0));
  for (const char* token : kind->controls)
    if (token != nullptr && !tokenizer.find(token)) missing_.emplace_back(token);
}

void PromptFormat::encode(const Conversation& conversation, tokenizer::EncodeScratch& scratch, std::vector<Id>& ids,
                          std::vector<char>& counts) const {
  std::size_t first_user = conversation.size(), last_user = first_user;
  for (std::size_t turn = 0; turn < conversation.size(); ++turn) {
    if (conversation[turn].role != "user") continue;
    last_user = turn;
    if (first_user == conversation.size()) first_user = turn;
  }
  for (std::size_t turn = 0; turn < conversation.size(); ++turn) {
    for (const Piece& piece : kind_->pieces({conversation, turn, first_user, last_user})) {
      const std::size_t begin = ids.size();
      tokenizer_->encode(piece.text, scratch, ids);
      counts.resize(ids.size(), piece.counts ? 1 : 0);
      const std::size_t head = std::min(ids.size(), begin + piece.head);
      std::fill(counts.begin() + static_cast<std::ptrdiff_t>(begin), counts.begin() + static_cast<std::ptrdiff_t>(head),
                char{0});
    }
  }
}

}  // namespace mt::data
