#include "data/encode_chunk.h"

#include <cstring>
#include <span>

#include "base/error.h"
#include "data/sentence_splitter.h"

namespace mt::data {

namespace {

void pack(std::span<const Id> ids, TokenType type, std::vector<std::byte>& out) {
  if (type == TokenType::i32) {
    const std::span<const std::byte> bytes = std::as_bytes(ids);
    out.insert(out.end(), bytes.begin(), bytes.end());
    return;
  }
  const std::size_t old = out.size();
  out.resize(old + ids.size() * 2);
  std::byte* to = out.data() + old;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto narrow = static_cast<std::uint16_t>(ids[i]);
    std::memcpy(to + 2 * i, &narrow, 2);
  }
}

}  // namespace

ChunkEncoder::ChunkEncoder(const ChunkOptions& options, const tokenizer::Tokenizer& tokenizer)
    : options_(options), tokenizer_(tokenizer), around_(tokenizer.surround()), reader_(options.keys, options.mend) {
  if (options.append_eod) eod_ = tokenizer::require_eod(tokenizer);
}

ChunkResult ChunkEncoder::encode(const TextChunk& chunk, std::vector<EncodedKey> room) {
  ChunkResult result;
  result.keys = std::move(room);
  result.keys.resize(options_.keys.size());
  for (EncodedKey& key : result.keys) key.clear();
  result.bytes = chunk.pass == 0 ? static_cast<std::int64_t>(chunk.size) : 0;  // of what there is, not of what is read
  result.file = chunk.file;
  result.separator = chunk.separator;
  result.input = chunk.input;
  result.after = chunk.after;
  result.used = chunk.used;
  const std::int64_t odd_before = reader_.odd_numbers(), blank_before = reader_.blank_lines(), specials_before = scratch_.specials_as_text;
  reader_.start(chunk);
  for (RecordReader::Step step = reader_.next(); step != RecordReader::Step::end; step = reader_.next()) {
    if (step == RecordReader::Step::record && encode_record()) {
      keep_record(result);
      continue;
    }
    result.faults.push_back(fault_of(step));
    if (options_.stop_at_fault) break;
  }
  result.blank_lines = reader_.blank_lines() - blank_before;
  result.odd_numbers = reader_.odd_numbers() - odd_before;
  result.specials_as_text = scratch_.specials_as_text - specials_before;
  return result;
}

RecordFault ChunkEncoder::fault_of(RecordReader::Step step) const {
  RecordFault fault;
  fault.line = reader_.line();
  if (step == RecordReader::Step::record) {
    fault.reason = token_fault_;
  } else {
    fault.reason = reader_.fault().reason;
    fault.hint = reader_.fault().hint("--json-keys");
    fault.column = reader_.fault().column;
  }
  if (options_.keep_raw) fault.raw = reader_.raw();
  return fault;
}

// False: a text the tokenizer refused (token_fault_ says why).
bool ChunkEncoder::encode_record() {
  ids_.clear();
  lengths_.clear();
  per_key_.clear();
  for (const std::vector<std::string_view>& texts : reader_.values()) {
    const std::size_t first = lengths_.size();
    for (const std::string_view text : texts) {
      if (!encode_texts(text)) return false;
    }
    if (eod_ && lengths_.size() > first) {
      ids_.push_back(*eod_);
      ++lengths_.back();
    }
    per_key_.push_back(static_cast<std::int32_t>(lengths_.size() - first));
  }
  return true;
}

bool ChunkEncoder::encode_texts(std::string_view text) {
  if (!options_.split_sentences) return encode_text(text);
  sentences_.clear();
  split_sentences(text, options_.keep_newlines, sentences_);
  for (const std::string_view sentence : sentences_) {
    if (!encode_text(sentence)) return false;
  }
  return true;
}

bool ChunkEncoder::encode_text(std::string_view text) {
  const std::size_t old = ids_.size();
  ids_.insert(ids_.end(), around_.before.begin(), around_.before.end());
  try {
    tokenizer_.encode(text, scratch_, ids_);
  } catch (const Error& error) {
    if (error.code() != Code::data) throw;
    token_fault_ = error.message();
    return false;
  }
  ids_.insert(ids_.end(), around_.after.begin(), around_.after.end());
  if (ids_.size() - old >= std::size_t{0x7FFFFFFF}) {
    token_fault_ = fmt::format("a sequence of {} tokens: wanted below 2^31", ids_.size() - old);
    return false;
  }
  if (ids_.size() > old) lengths_.push_back(static_cast<std::int32_t>(ids_.size() - old));
  return true;
}

void ChunkEncoder::keep_record(ChunkResult& result) {
  std::size_t sequence = 0, token = 0;
  for (std::size_t k = 0; k < per_key_.size(); ++k) {
    EncodedKey& out = result.keys[k];
    std::size_t tokens = 0;
    for (std::int32_t i = 0; i < per_key_[k]; ++i) {
      out.lengths.push_back(lengths_[sequence]);
      tokens += static_cast<std::size_t>(lengths_[sequence++]);
    }
    pack(std::span<const Id>(ids_).subspan(token, tokens), options_.type, out.ids);
    token += tokens;
    out.document_sequences.push_back(per_key_[k]);
    out.empty_documents += per_key_[k] == 0 ? 1 : 0;
    if (k == 0 && options_.stats) {
      result.stats.add(static_cast<std::int64_t>(tokens), reader_.line());
      for (const std::string_view text : reader_.values()[0]) result.stats.text_bytes += std::ssize(text);
    }
  }
  ++result.documents;
  if (reader_.mended() == 0) return;
  if (result.mended_records == 0) result.first_mended_line = reader_.line();
  ++result.mended_records;
  result.mended_characters += reader_.mended();
}

}  // namespace mt::data
