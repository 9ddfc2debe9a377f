#include "foreign/gguf_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace mt {

namespace {

constexpr std::uint64_t kMaxKey = 65535, kMaxName = 1024, kShownItems = 64, kMaxText = 64 << 20;
constexpr std::uint32_t kQ8 = 8, kText = 8, kArray = 9;
constexpr std::int64_t kBlock = 32, kQ8Bytes = 34;

struct GgufType {
  std::uint32_t number;
  const char* text;
  std::int64_t block, bytes;  // so many elements in so many bytes
  std::optional<DType> dtype;
};
constexpr std::array<GgufType, 22> kTypes = {{
    {0, "F32", 1, 4, DType::f32},     {1, "F16", 1, 2, DType::f16},     {2, "Q4_0", 32, 18, {}},   {3, "Q4_1", 32, 20, {}},
    {6, "Q5_0", 32, 22, {}},          {7, "Q5_1", 32, 24, {}},          {8, "Q8_0", 32, 34, DType::f32}, {9, "Q8_1", 32, 36, {}},
    {10, "Q2_K", 256, 84, {}},        {11, "Q3_K", 256, 110, {}},       {12, "Q4_K", 256, 144, {}}, {13, "Q5_K", 256, 176, {}},
    {14, "Q6_K", 256, 210, {}},       {15, "Q8_K", 256, 292, {}},       {24, "I8", 1, 1, DType::i8}, {25, "I16", 1, 2, DType::i16},
    {26, "I32", 1, 4, DType::i32},    {27, "I64", 1, 8, DType::i64},    {28, "F64", 1, 8, DType::f64}, {30, "BF16", 1, 2, DType::bf16},
    {39, "MXFP4", 32, 17, {}},        {40, "NVFP4", 64, 36, {}},
}};

// Bytes of a value of a fixed-size type, 0 for others.
std::uint64_t width_of(std::uint32_t type) {
  constexpr std::array<std::uint64_t, 13> kWidths = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < kWidths.size() ? kWidths[type] : 0;
}

class Head {
 public:
  Head(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  [[noreturn]] void fail(const std::string& what) const { throw Error(Code::corrupt, "not a whole GGUF file: " + what, fmt::format("{}, byte {}", where_, at_)); }
  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }
  std::uint64_t number(unsigned width) {
    if (width > left()) fail("it ends there");
    std::uint64_t v = 0;
    for (unsigned i = 0; i < width; ++i) v |= std::uint64_t{static_cast<std::uint8_t>(bytes_[at_ + i])} << (8 * i);
    at_ += width;
    return v;
  }
  std::string text(std::uint64_t most) {
    const auto n = number(8);
    if (n > left() || n > most) fail(fmt::format("a text of {} bytes", n));
    std::string s(reinterpret_cast<const char*>(bytes_.data()) + at_, n);
    at_ += n;
    return s;
  }
  void skip(std::uint64_t n) {
    if (n > left()) fail("it ends there");
    at_ += n;
  }

  Json value(std::uint32_t type) {
    if (type == kText) return text(kMaxText);
    const auto width = width_of(type);
    if (width == 0) fail(fmt::format("a value of type {}", type));
    const auto v = number(static_cast<unsigned>(width));
    switch (type) {
      case 0: case 2: case 4: case 10: return v;
      case 1: return static_cast<std::int8_t>(v);
      case 3: return static_cast<std::int16_t>(v);
      case 5: return static_cast<std::int32_t>(v);
      case 11: return static_cast<std::int64_t>(v);
      case 6: return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(v)));
      case 7: return v != 0;
      default: return std::bit_cast<double>(v);
    }
  }
  Json array() {
    const auto type = static_cast<std::uint32_t>(number(4));
    const auto n = number(8);
    if (type == kArray) fail("an array of arrays");
    const auto least = type == kText ? 8 : width_of(type);
    if (least == 0) fail(fmt::format("an array of type {}", type));
    if (n > left() / least) fail(fmt::format("an array of {} values", n));
    if (n > kShownItems) {
      for (std::uint64_t i = 0; type == kText && i < n; ++i) {
        const auto bytes = number(8);
        skip(bytes);
      }
      if (type != kText) skip(n * least);
      return fmt::format("{} values", n);
    }
    Json out = Json::array();
    for (std::uint64_t i = 0; i < n; ++i) out.push_back(value(type));
    return out;
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& where_;
  std::uint64_t at_ = 0;
};

GgufFile::Tensor read_info(Head& head, const std::string& name) {
  GgufFile::Tensor t;
  const auto dims = head.number(4);
  if (dims > 4) head.fail(fmt::format("{} of {} dimensions", name, dims));
  unsigned __int128 elements = 1;
  for (std::uint64_t d = 0; d < dims; ++d) {
    const auto n = head.number(8);
    elements *= n;
    if (n >> 48 != 0 || elements >> 58 != 0) head.fail(fmt::format("{} is too large", name));
    t.shape.insert(t.shape.begin(), static_cast<std::int64_t>(n));
  }
  t.type = static_cast<std::uint32_t>(head.number(4));
  const auto known = std::find_if(kTypes.begin(), kTypes.end(), [&](const GgufType& k) { return k.number == t.type; });
  if (known == kTypes.end()) head.fail(fmt::format("{} is of type {}, which is not known", name, t.type));
  t.type_text = known->text;
  t.dtype = known->dtype;
  const auto row = t.shape.empty() ? 1 : t.shape.back();
  if (row % known->block != 0) head.fail(fmt::format("{} has rows of {} elements, no whole blocks of {}", name, row, known->text));
  t.begin = head.number(8);
  t.end = static_cast<std::uint64_t>(elements) / static_cast<std::uint64_t>(known->block) * static_cast<std::uint64_t>(known->bytes);
  return t;  // begin from the start of the data, end as a size: placed when that start is known
}

// `count` elements from element `first` of a row that lies in blocks.
void unpack_q8(const std::byte* row, std::int64_t first, std::int64_t count, std::byte* out) {
  for (std::int64_t i = first; i < first + count; ++i) {
    const std::byte* block = row + i / kBlock * kQ8Bytes;
    std::uint16_t scale;
    std::memcpy(&scale, block, sizeof scale);
    const auto q = static_cast<std::int8_t>(block[2 + i % kBlock]);
    const float v = to_f32(f16{scale}) * static_cast<float>(q);
    std::memcpy(out, &v, sizeof v);
    out += sizeof v;
  }
}

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path) : file_(path), bytes_(file_.bytes()), where_(path.string()) { open(); }

GgufFile::GgufFile(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) { open(); }

void GgufFile::open() {
  Head head(bytes_, where_);
  if (bytes_.size() < 24 || std::memcmp(bytes_.data(), "GGUF", 4) != 0) head.fail("it does not begin with GGUF");
  head.skip(4);
  if (const auto version = head.number(4); version != 2 && version != 3) head.fail(fmt::format("version {} is not read, only 2 and 3", version));
  const auto num_tensors = head.number(8), num_values = head.number(8);
  if (num_tensors > head.left() / 24 || num_values > std::min<std::uint64_t>(head.left() / 12, 100'000)) head.fail(fmt::format("{} tensors and {} values", num_tensors, num_values));
  for (std::uint64_t i = 0; i < num_values; ++i) {
    const std::string key = head.text(kMaxKey);
    if (values_.contains(key)) head.fail("key " + key + " is there twice");
    const auto type = static_cast<std::uint32_t>(head.number(4));
    values_[key] = type == kArray ? head.array() : head.value(type);
  }
  for (std::uint64_t i = 0; i < num_tensors; ++i) {
    const std::string name = head.text(kMaxName);
    if (!tensors_.emplace(name, read_info(head, name)).second) head.fail(name + " is there twice");
  }
  std::uint64_t align = 32;
  if (values_.contains("general.alignment")) {
    if (!values_["general.alignment"].is_number_unsigned()) head.fail("general.alignment is no number");
    align = values_["general.alignment"].get<std::uint64_t>();
  }
  if (align == 0 || align > (1 << 20) || (align & (align - 1)) != 0) head.fail(fmt::format("general.alignment is {}", align));
  const std::uint64_t data = (head.at() + align - 1) / align * align;
  std::vector<const Tensor*> sorted;
  for (auto& [name, t] : tensors_) {
    const std::uint64_t size = t.end;
    if (data > bytes_.size() || t.begin > bytes_.size() - data || size > bytes_.size() - data - t.begin)
      head.fail(fmt::format("{} of {} bytes leaves the file: it is cut", name, size));
    t.begin += data;
    t.end = t.begin + size;
    sorted.push_back(&t);
  }
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->begin < sorted[i - 1]->end) head.fail(fmt::format("two tensors overlap at byte {}", sorted[i]->begin));
  const std::uint64_t end = sorted.empty() ? data : sorted.back()->end;
  if (bytes_.size() > end && bytes_.size() - end >= align) head.fail(fmt::format("{} bytes behind the last tensor", bytes_.size() - end));
}

void GgufFile::read(const std::string& name, const Box& box, std::byte* out) const {
  const Tensor& t = tensors_.at(name);
  const std::byte* data = bytes_.data() + t.begin;
  const auto width = static_cast<std::size_t>(bytes_of(*t.dtype, 1));
  const std::int64_t row = t.shape.empty() ? 1 : t.shape.back();
  for_each_run(whole(t.shape), box, [&](std::int64_t at, std::int64_t inner, std::int64_t n) {
    std::byte* to = out + static_cast<std::size_t>(inner) * width;
    if (t.type != kQ8) std::memcpy(to, data + static_cast<std::size_t>(at) * width, static_cast<std::size_t>(n) * width);
    else unpack_q8(data + at / row * (row / kBlock * kQ8Bytes), at % row, n, to);  // rows are whole blocks, one behind the other
  });
}

}  // namespace mt
