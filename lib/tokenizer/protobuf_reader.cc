#include "tokenizer/protobuf_reader.h"

#include <cstring>

#include "base/error.h"

namespace mt::tokenizer {

std::uint64_t ProtobufReader::take_varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1).front());
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  throw Error(Code::corrupt, "protobuf: a number of more than ten bytes");
}

std::string_view ProtobufReader::take(std::uint64_t size) {
  if (size > rest_.size()) {
    throw Error(Code::corrupt, fmt::format("protobuf: a field of {} bytes, {} are left", size, rest_.size()));
  }
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

bool ProtobufReader::next() {
  if (rest_.empty()) return false;
  const std::uint64_t tag = take_varint();
  number_ = static_cast<std::uint32_t>(tag >> 3);
  const auto wire = static_cast<int>(tag & 7);
  switch (wire) {
    case 0: value_ = take_varint(); break;
    case 1: bytes_ = take(8); break;
    case 2: bytes_ = take(take_varint()); break;
    case 5: bytes_ = take(4); break;
    default: throw Error(Code::corrupt, fmt::format("protobuf: field {} of wire type {}", number_, wire));
  }
  if (number_ == 0 || tag >> 32 != 0) throw Error(Code::corrupt, fmt::format("protobuf: field number {}", tag >> 3));
  wire_ = static_cast<Wire>(wire);
  return true;
}

void ProtobufReader::want(Wire wire) const {
  if (wire_ == wire) return;
  throw Error(Code::corrupt, fmt::format("protobuf: field {} is of wire type {}, wanted {}", number_,
                                         static_cast<int>(wire_), static_cast<int>(wire)));
}

std::uint64_t ProtobufReader::varint() const {
  want(Wire::varint);
  return value_;
}

float ProtobufReader::single() const {
  want(Wire::fixed32);
  float value = 0;
  std::memcpy(&value, bytes_.data(), 4);
  return value;
}

std::string_view ProtobufReader::bytes() const {
  want(Wire::bytes);
  return bytes_;
}

}  // namespace mt::tokenizer
