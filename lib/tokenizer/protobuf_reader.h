#pragma once
// Fields of a protobuf message, one after the other: as much of the wire format as reading a model file needs.
//
// Code: tokenizer/protobuf_reader.cc. Tests: tests/tokenizer/sentencepiece_test.cc.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mt::tokenizer {

class ProtobufReader {
 public:
  // `message` outlives the reader.
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  // Go to the next field.   gives  false at the end
  //   fails  Error{corrupt}: a cut-off or unknown field (groups are not read)
  bool next();

  std::uint32_t number() const { return number_; }
  // The field as a number or as bytes (of a string or a message).
  //   fails  Error{corrupt}: the field is of another kind
  std::uint64_t varint() const;
  float single() const;
  std::string_view bytes() const;

 private:
  enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  std::uint64_t take_varint();
  std::string_view take(std::uint64_t size);
  void want(Wire wire) const;

  std::string_view rest_, bytes_;
  std::uint64_t value_ = 0;
  std::uint32_t number_ = 0;
  Wire wire_ = Wire::varint;
};

}  // namespace mt::tokenizer
