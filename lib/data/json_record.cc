#include <algorithm>
#include <cstring>

#include <simdjson.h>

#include "base/error.h"
#include "base/json_reason.h"
#include "data/mend_text.h"
#include "data/text_source.h"
#include "tokenizer/unicode.h"

namespace mt::data {

namespace dom = simdjson::dom;

struct RecordReader::Parser {
  dom::parser parser;
  dom::element root;  // of the record at hand
};

namespace {

const char* type_name(const dom::element& e) {
  switch (e.type()) {
    case dom::element_type::ARRAY: return "array";
    case dom::element_type::OBJECT: return "object";
    case dom::element_type::BOOL: return "boolean";
    case dom::element_type::NULL_VALUE: return "null";
    case dom::element_type::STRING: return "string";
    default: return "number";
  }
}

// A second, slow reader names the byte and the reason of what simdjson refused.
struct Diagnosis {
  std::string reason;
  std::int64_t column;
};
Diagnosis diagnose(std::string_view line, const char* refused_because) {
  try {
    [[maybe_unused]] const auto read = nlohmann::json::parse(line.begin(), line.end());
  } catch (const nlohmann::json::parse_error& e) {
    std::string reason = json_reason(e);
    reason = reason.substr(0, reason.find("; last read"));  // the raw bytes again, however long
    return {"not JSON: " + reason,
            std::clamp<std::int64_t>(static_cast<std::int64_t>(e.byte), 1, static_cast<std::int64_t>(line.size()) + 1)};
  } catch (const nlohmann::json::exception& e) {  // a number no double holds
    return {"not JSON: " + json_reason(e), 1};
  }
  return {fmt::format("not JSON: {}", refused_because), 1};
}

bool is_blank(std::string_view line) {
  return std::all_of(line.begin(), line.end(), [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
}

}  // namespace

RecordReader::RecordReader(std::vector<std::string> keys, Mend mend)
    : parser_(std::make_unique<Parser>()), keys_(std::move(keys)), values_(keys_.size()), mend_(mend) {
  MT_CHECK(!keys_.empty(), "no keys");
}

RecordReader::~RecordReader() = default;

void RecordReader::start(const TextChunk& chunk) {
  chunk_ = &chunk;
  at_ = 0;
  line_ = chunk.first_line;
  dealt_ = chunk.first_dealt;
}

RecordReader::Step RecordReader::next() {
  MT_CHECK(chunk_ != nullptr, "next() before start()");
  return chunk_->format == InputFormat::text ? next_text() : next_line();
}

RecordReader::Step RecordReader::bad(std::string reason, std::int64_t column, std::string_view raw) {
  fault_.reason = std::move(reason);
  fault_.column = column;
  fault_.raw = raw;
  fault_.likely = BadRecord::Likely::nothing;
  return Step::bad;
}

std::string BadRecord::hint(const std::string& key_flag) const {
  if (likely == Likely::plain_text) return "plain text wants --input-format text";
  if (likely == Likely::other_key) return key_flag + " names the field of the text";
  return "";
}

RecordReader::Step RecordReader::next_line() {
  const std::string_view text = chunk_->text();
  while (at_ < text.size()) {
    const void* lf = std::memchr(text.data() + at_, '\n', text.size() - at_);
    const std::size_t end =
        lf == nullptr ? text.size() : static_cast<std::size_t>(static_cast<const char*>(lf) - text.data());
    const std::string_view line = text.substr(at_, end - at_);
    at_ = end + 1;
    fault_.line = line_++;
    if (chunk_->deal > 1 && dealt_++ % chunk_->deal != chunk_->pass) continue;
    if (!is_blank(line)) return take_json(line);
    ++blank_lines_;
  }
  return Step::end;
}

RecordReader::Step RecordReader::refuse_json(std::string_view line, const char* reason) {
  if (line.starts_with("\xEF\xBB\xBF")) {
    return bad("a byte order mark in front of the record, as files joined end to end have", 1, line);
  }
  const Diagnosis d = diagnose(line, reason);
  if (line.starts_with('[')) return bad(d.reason + " (a JSON array? wanted one object a line)", d.column, line);
  const bool at_start = fault_.line == 1 && !line.starts_with('{');
  bad(d.reason, d.column, line);
  if (at_start) fault_.likely = BadRecord::Likely::plain_text;
  return Step::bad;
}

// Whether the line is a record once its characters are mended, if that is wanted, and its numbers are read as Python does.
bool RecordReader::parses_otherwise(std::string_view line) {
  std::string text;
  const std::int64_t mended = mend_ == Mend::yes ? mend_json(line, text) : 0;
  mended_text_.clear();
  const std::int64_t numbers = take_python_numbers(mended > 0 ? text : line, mended_text_);
  if (mended == 0 && numbers == 0) return false;
  const std::size_t size = mended_text_.size();
  mended_text_.append(simdjson::SIMDJSON_PADDING, ' ');
  if (parser_->parser.parse(mended_text_.data(), size, false).get(parser_->root) != simdjson::SUCCESS) return false;
  mended_ = mended;
  odd_numbers_ += numbers > 0 ? 1 : 0;
  return true;
}

RecordReader::Step RecordReader::take_json(std::string_view line) {
  raw_ = line;
  mended_ = 0;
  dom::element& root = parser_->root;
  if (const auto error = parser_->parser.parse(line.data(), line.size(), false).get(root)) {
    if (!parses_otherwise(line)) return refuse_json(line, simdjson::error_message(error));
  }
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    return bad(fmt::format("wanted an object with the key '{}', found {} {}", keys_.front(),
                           root.is_array() ? "an" : "a", type_name(root)),
               1, line);
  }
  for (std::size_t k = 0; k < keys_.size(); ++k) {
    values_[k].clear();
    dom::element value;
    bool found = false;
    for (const auto& [key, member] : object) {  // of two equal keys the last counts, as in Python
      if (key != keys_[k]) continue;
      value = member;
      found = true;
    }
    if (!found) {
      std::string keys;
      for (const auto& [key, member] : object) keys += fmt::format("{}'{}'", keys.empty() ? "" : ", ", key);
      bad(fmt::format("no key '{}': the keys are {}", keys_[k], keys.empty() ? "none" : keys), 0, line);
      if (!keys.empty()) fault_.likely = BadRecord::Likely::other_key;
      return Step::bad;
    }
    std::string_view text;
    dom::array list;
    if (value.get(text) == simdjson::SUCCESS) {
      values_[k].push_back(text);
    } else if (value.get(list) == simdjson::SUCCESS) {
      for (const dom::element& item : list) {
        if (item.get(text) != simdjson::SUCCESS) {
          return bad(fmt::format("key '{}': wanted strings in the list, found {}", keys_[k], type_name(item)), 0, line);
        }
        values_[k].push_back(text);
      }
    } else {
      return bad(fmt::format("key '{}': wanted a string, found {}", keys_[k], type_name(value)), 0, line);
    }
  }
  return Step::record;
}

RecordReader::Step RecordReader::next_text() {
  const std::string_view text = chunk_->text(), separator = chunk_->separator;
  while (at_ < text.size()) {
    const std::size_t hit = separator.empty() ? std::string_view::npos : text.find(separator, at_);
    const std::size_t end = std::min(hit, text.size());
    const std::string_view document = text.substr(at_, end - at_);
    at_ = hit == std::string_view::npos ? text.size() : hit + separator.size();
    fault_.line = line_;
    line_ += std::count(text.begin() + static_cast<std::ptrdiff_t>(end - document.size()),
                        text.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    if (!separator.empty() &&
        std::all_of(document.begin(), document.end(), [](char c) { return c == '\n' || c == '\r'; })) {
      ++blank_lines_;
      continue;
    }
    return take_text(document);
  }
  return Step::end;
}

RecordReader::Step RecordReader::take_text(std::string_view document) {
  raw_ = document;
  mended_ = 0;
  const std::size_t invalid = tokenizer::find_invalid_utf8(document);
  if (invalid != std::string_view::npos && mend_ == Mend::no) {
    const std::string_view before = document.substr(0, invalid);
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0
    fault_.line += std::count(before.begin(), before.end(), '\n');
    return bad(fmt::format("byte 0x{:02x} is not valid UTF-8", static_cast<unsigned char>(document[invalid])),
               static_cast<std::int64_t>(invalid - line_start) + 1, document);
  }
  if (invalid != std::string_view::npos) {
    mended_text_.clear();
    mended_ = replace_invalid_utf8(document, mended_text_);
    document = mended_text_;
  }
  for (std::vector<std::string_view>& values : values_) values.assign(1, document);
  return Step::record;
}

}  // namespace mt::data
