#include "base/dtype.h"

#include <array>

namespace mt {

namespace {

struct Name {
  DType dtype;
  std::string_view name;
};

constexpr std::array<Name, 12> kNames{{{DType::f64, "f64"},
                                       {DType::f32, "f32"},
                                       {DType::bf16, "bf16"},
                                       {DType::f16, "f16"},
                                       {DType::e4m3, "e4m3"},
                                       {DType::e5m2, "e5m2"},
                                       {DType::i64, "i64"},
                                       {DType::i32, "i32"},
                                       {DType::i16, "i16"},
                                       {DType::u16, "u16"},
                                       {DType::i8, "i8"},
                                       {DType::u8, "u8"}}};

}  // namespace

std::string_view dtype_name(DType d) {
  for (const Name& n : kNames)
    if (n.dtype == d) return n.name;
  return "?";
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Name& n : kNames)
    if (n.name == name) return n.dtype;
  return std::nullopt;
}

}  // namespace mt
