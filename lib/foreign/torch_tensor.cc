// A tensor of a pickle, and its elements in their storage.

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "foreign/torch_file.h"
#include "foreign/zip_archive.h"

namespace mt {

namespace {

// torch's dtypes: their word, the storage of old that has their elements, ours.
struct TorchType {
  std::string_view word, storage;
  std::size_t bytes;
  std::optional<DType> dtype;
};
constexpr std::array<TorchType, 19> kTypes = {{
    {"float32", "FloatStorage", 4, DType::f32},     {"float64", "DoubleStorage", 8, DType::f64},
    {"bfloat16", "BFloat16Storage", 2, DType::bf16}, {"float16", "HalfStorage", 2, DType::f16},
    {"int64", "LongStorage", 8, DType::i64},        {"int32", "IntStorage", 4, DType::i32},
    {"int16", "ShortStorage", 2, DType::i16},       {"int8", "CharStorage", 1, DType::i8},
    {"uint8", "ByteStorage", 1, DType::u8},         {"bool", "BoolStorage", 1, std::nullopt},
    {"complex64", "ComplexFloatStorage", 8, std::nullopt}, {"complex128", "ComplexDoubleStorage", 16, std::nullopt},
    {"float8_e4m3fn", "", 1, DType::e4m3},          {"float8_e5m2", "", 1, DType::e5m2},
    {"uint16", "", 2, DType::u16},                  {"uint32", "", 4, std::nullopt},
    {"uint64", "", 8, std::nullopt},                {"float8_e4m3fnuz", "", 1, std::nullopt},
    {"float8_e5m2fnuz", "", 1, std::nullopt},
}};

const TorchType* type_of_word(std::string_view name) {
  for (const auto& t : kTypes)
    if (name.size() == t.word.size() + 6 && name.rfind("torch.", 0) == 0 && name.substr(6) == t.word) return &t;
  return nullptr;
}
bool is_untyped(std::string_view name) {
  return name == "torch.storage.UntypedStorage" || name == "torch.UntypedStorage" || name == "torch.storage._UntypedStorage";
}
const TorchType* type_of_storage(std::string_view name) {
  for (const auto& t : kTypes)
    if (!t.storage.empty() && name.size() == t.storage.size() + 6 && name.rfind("torch.", 0) == 0 && name.substr(6) == t.storage) return &t;
  return nullptr;
}

Dims dims_of(const PickleValue& v) {
  if (!v.is(PickleKind::tuple) && !v.is(PickleKind::list)) v.fail("wanted a size, found " + v.describe());
  Dims out;
  for (std::size_t i = 0; i < v.size(); ++i) {
    out.push_back(v[i].integer());
    if (out.back() < 0) v[i].fail(fmt::format("an extent or stride of {}", out.back()));
  }
  if (out.size() > 16) v.fail(fmt::format("{} dimensions", out.size()));
  return out;
}

// One past the last element that a view touches; 0 when it has none. Nothing when that is beyond 62 bits.
std::optional<std::uint64_t> end_of(const TorchTensor& t) {
  unsigned __int128 last = static_cast<std::uint64_t>(t.offset), elements = 1;
  bool none = false;
  for (std::size_t i = 0; i < t.shape.size(); ++i) {
    if (t.shape[i] == 0) none = true;
    else {
      last += static_cast<unsigned __int128>(t.shape[i] - 1) * static_cast<std::uint64_t>(t.strides[i]);
      elements *= static_cast<std::uint64_t>(t.shape[i]);
    }
    if (last >> 58 != 0 || elements >> 58 != 0) return std::nullopt;
  }
  return none ? 0 : static_cast<std::uint64_t>(last) + 1;
}

}  // namespace

// ("storage", type, key, device, number of elements), and in old files what part of another one it is.
std::uint64_t describe_storage(const PickleValue& value, TorchTensor& t) {
  if (!value.is(PickleKind::persistent)) value.fail("wanted a storage, found " + value.describe());
  const PickleValue id = value.persistent();
  if (id.size() < 5 || !id[0].is(PickleKind::text) || id[0].text() != "storage") value.fail("a reference that is none to a storage");
  if (id.size() > 5 && !id[5].is_none()) value.fail("a storage that is a part of another one, as torch wrote before 0.4; that is not read");
  const PickleValue type = id[1];
  if (is_untyped(type.name())) {
    t.element_bytes = 1;
  } else if (const auto* known = type_of_storage(type.name())) {
    t.element_bytes = known->bytes;
    t.dtype_text = known->word;
    t.dtype = known->dtype;
  } else {
    type.fail("elements of a kind that is not read: " + type.describe());
  }
  t.storage = id[2].text();
  const auto elements = id[4].integer();
  if (elements < 0 || elements >> 58 != 0) id[4].fail(fmt::format("a storage of {} elements", elements));
  return static_cast<std::uint64_t>(elements) * t.element_bytes;
}

std::optional<TorchTensor> TorchFile::tensor(const PickleValue& outer) const {
  if (!outer.is(PickleKind::object)) return std::nullopt;
  PickleValue value = outer, a = outer.arguments();
  std::string name = outer.name();
  // One with attributes of its own: the call that makes it, its class, the call's arguments, the attributes.
  if (name == "torch._tensor._rebuild_from_type_v2") {
    if (a.size() != 4 || !a[0].is(PickleKind::global) || !a[1].is(PickleKind::global) ||
        (a[1].name() != "torch.nn.parameter.Parameter" && a[1].name() != "torch.Tensor"))
      value.fail("a tensor of a class that is not read: " + (a.size() > 1 ? a[1].describe() : a.describe()));
    name = a[0].name();
    a = a[2];
  }
  if (name == "torch._utils._rebuild_parameter" || name == "torch._utils._rebuild_parameter_with_state") {
    value = a[0];
    if (!value.is(PickleKind::object)) value.fail("wanted the tensor of a parameter, found " + value.describe());
    name = value.name();
    a = value.arguments();
  }
  const bool v2 = name == "torch._utils._rebuild_tensor_v2", v3 = name == "torch._utils._rebuild_tensor_v3";
  if (!v2 && !v3 && name != "torch._utils._rebuild_tensor") {
    if (name.rfind("torch._utils._rebuild", 0) == 0 || name.rfind("torch._tensor._rebuild", 0) == 0)
      value.fail("a tensor of a kind that is not read: " + name);
    return std::nullopt;
  }
  TorchTensor t;
  const std::uint64_t said = describe_storage(a[0], t);
  t.offset = a[1].integer();
  if (t.offset < 0) a[1].fail(fmt::format("an offset of {}", t.offset));
  t.shape = dims_of(a[2]);
  t.strides = dims_of(a[3]);
  if (t.shape.size() != t.strides.size()) value.fail(fmt::format("{} dimensions and {} strides", t.shape.size(), t.strides.size()));
  if (v3) {
    const auto* type = type_of_word(a[6].name());
    if (type == nullptr) a[6].fail("elements of a kind that is not read: " + a[6].describe());
    t.dtype_text = type->word;
    t.dtype = type->dtype;
    t.element_bytes = type->bytes;
  }
  if (t.dtype_text.empty()) value.fail("a tensor in a storage without a type");
  const auto found = storages_.find(t.storage);
  if (found == storages_.end()) value.fail(fmt::format("its storage '{}' is not in the file", json_line(Json(t.storage.substr(0, 40)))));
  const std::uint64_t there = found->second.end - found->second.begin;
  if (there != said) value.fail(fmt::format("its storage has {} bytes, and the file {} of them", said, there));
  const auto end = end_of(t);
  if (!end || *end > there / t.element_bytes)
    value.fail(fmt::format("a view of shape {} from element {} leaves its storage of {} bytes", dims_text(t.shape), t.offset, there));
  return t;
}

void TorchFile::read(const TorchTensor& t, const Box& box, std::byte* out) const {
  const auto& storage = storages_.at(t.storage);
  const auto bytes = bytes_.subspan(storage.begin, storage.end - storage.begin);
  if (!storage.checked && storage.crc != 0 && zip_crc(0, bytes) != storage.crc)
    throw Error(Code::corrupt, "the checksum of storage data/" + t.storage + " is another", where_, "the file was damaged after it was written");
  storage.checked = true;
  if (box.empty()) return;
  // Dimensions from the back that lie end to end are one run; the others are counted up.
  std::size_t dims = t.shape.size();
  std::int64_t run = 1;
  while (dims > 0 && (t.strides[dims - 1] == run || box.extent[dims - 1] == 1)) {
    run *= box.extent[dims - 1];
    --dims;
  }
  std::int64_t at = t.offset;
  for (std::size_t i = 0; i < t.shape.size(); ++i) at += box.offset[i] * t.strides[i];
  const std::size_t width = t.element_bytes, run_bytes = static_cast<std::size_t>(run) * width;
  std::vector<std::int64_t> count(dims, 0);
  for (;;) {
    std::memcpy(out, bytes.data() + static_cast<std::size_t>(at) * width, run_bytes);
    out += run_bytes;
    std::size_t i = dims;
    while (i > 0 && ++count[i - 1] == box.extent[i - 1]) {
      --i;
      at -= (box.extent[i] - 1) * t.strides[i];
      count[i] = 0;
    }
    if (i == 0) return;
    at += t.strides[i - 1];
  }
}

}  // namespace mt
