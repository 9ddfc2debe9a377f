#include "foreign/torch_writer.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "base/error.h"
#include "foreign/zip_archive.h"

namespace mt {

namespace {

constexpr std::uint64_t kPiece = 16 << 20, kAlign = 64, kLarge = 0xffffffff;

std::string le(std::uint64_t v, int bytes) {
  std::string s;
  for (int i = 0; i < bytes; ++i) s += static_cast<char>(v >> (8 * i));
  return s;
}

// The storage class that has such elements.
std::string_view storage_name(DType d) {
  switch (d) {
    case DType::f32: return "FloatStorage";
    case DType::f64: return "DoubleStorage";
    case DType::bf16: return "BFloat16Storage";
    case DType::f16: return "HalfStorage";
    case DType::i64: return "LongStorage";
    case DType::i32: return "IntStorage";
    case DType::i16: return "ShortStorage";
    case DType::i8: return "CharStorage";
    case DType::u8: return "ByteStorage";
    default: break;
  }
  MT_CHECK(false, "no storage of torch's for {}", dtype_name(d));
}

}  // namespace

std::string_view torch_dtype_word(DType d) {
  switch (d) {
    case DType::f32: return "float32";
    case DType::f64: return "float64";
    case DType::bf16: return "bfloat16";
    case DType::f16: return "float16";
    case DType::i64: return "int64";
    case DType::i32: return "int32";
    case DType::i16: return "int16";
    case DType::u16: return "uint16";
    case DType::i8: return "int8";
    case DType::u8: return "uint8";
    case DType::e4m3: return "float8_e4m3fn";
    case DType::e5m2: break;
  }
  return "float8_e5m2";
}

PickleWriter::PickleWriter() { put("\x80\x02"); }

PickleWriter& PickleWriter::put(std::string_view bytes) {
  out_ += bytes;
  return *this;
}
PickleWriter& PickleWriter::count(std::uint64_t v, int bytes) { return put(le(v, bytes)); }

PickleWriter& PickleWriter::none() { return put("N"); }
PickleWriter& PickleWriter::boolean(bool v) { return put(v ? "\x88" : "\x89"); }
PickleWriter& PickleWriter::integer(std::int64_t v) {
  if (v >= INT32_MIN && v <= INT32_MAX) return put("J").count(static_cast<std::uint64_t>(v), 4);
  return put("\x8a\x08").count(static_cast<std::uint64_t>(v), 8);
}
PickleWriter& PickleWriter::real(double v) {
  const auto bits = std::bit_cast<std::uint64_t>(v);
  put("G");
  for (int i = 7; i >= 0; --i) out_ += static_cast<char>(bits >> (8 * i));
  return *this;
}
PickleWriter& PickleWriter::text(std::string_view v) { return put("X").count(v.size(), 4).put(v); }
PickleWriter& PickleWriter::global(std::string_view module, std::string_view name) { return put("c").put(module).put("\n").put(name).put("\n"); }
PickleWriter& PickleWriter::begin_dict() { return put("}("); }
PickleWriter& PickleWriter::end_dict() { return put("u"); }
PickleWriter& PickleWriter::begin_list() { return put("]("); }
PickleWriter& PickleWriter::end_list() { return put("e"); }
PickleWriter& PickleWriter::begin_tuple() { return put("("); }
PickleWriter& PickleWriter::end_tuple() { return put("t"); }
PickleWriter& PickleWriter::call() { return put("R"); }
PickleWriter& PickleWriter::make() { return put("\x81"); }
PickleWriter& PickleWriter::build() { return put("b"); }
PickleWriter& PickleWriter::begin_object(std::string_view module, std::string_view name) { return global(module, name).put(")\x81").begin_dict(); }
PickleWriter& PickleWriter::end_object() { return end_dict().put("b"); }

PickleWriter& PickleWriter::size(const Dims& dims) {
  global("torch", "Size").begin_tuple().begin_tuple();
  for (const auto d : dims) integer(d);
  return end_tuple().end_tuple().call();
}

PickleWriter& PickleWriter::json(const Json& v) {
  if (v.is_null()) return none();
  if (v.is_boolean()) return boolean(v.get<bool>());
  if (v.is_number_integer()) return integer(v.get<std::int64_t>());
  if (v.is_number()) return real(v.get<double>());
  if (v.is_array()) {
    begin_list();
    for (const auto& e : v) json(e);
    return end_list();
  }
  if (v.is_object()) {
    begin_dict();
    for (const auto& [key, e] : v.items()) text(key).json(e);
    return end_dict();
  }
  const auto& s = v.get_ref<const std::string&>();
  constexpr std::string_view kTorch = "<torch.";
  const auto word = s.substr(std::min(s.size(), kTorch.size()));
  const bool name = s.starts_with(kTorch) && word.size() > 1 && word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == word.size() - 1;
  return name && word.back() == '>' ? global("torch", word.substr(0, word.size() - 1)) : text(s);
}

PickleWriter& PickleWriter::tensor(DType dtype, const Dims& shape, const std::string& storage) {
  global("torch._utils", "_rebuild_tensor_v2").begin_tuple();
  begin_tuple().text("storage").global("torch", storage_name(dtype)).text(storage).text("cpu").integer(num_elements(shape)).end_tuple().put("Q");
  integer(0).begin_tuple();
  for (const auto d : shape) integer(d);
  end_tuple().begin_tuple();
  for (std::size_t i = 0; i < shape.size(); ++i) integer(num_elements(Dims(shape.begin() + static_cast<std::ptrdiff_t>(i) + 1, shape.end())));
  return end_tuple().boolean(false).global("collections", "OrderedDict").put(")").call().end_tuple().call();
}

std::string PickleWriter::take() {
  put(".");
  return std::move(out_);
}

TorchArchiveWriter::TorchArchiveWriter(OutputFile& file, std::string top) : file_(file), top_(std::move(top)), start_(file.size()) {}

void TorchArchiveWriter::pickle(const std::string& bytes) {
  entry("data.pkl", bytes);
  entry("byteorder", "little");
}

void TorchArchiveWriter::storage(const std::string& key, std::uint64_t bytes,
                                 const std::function<void(std::uint64_t, std::uint64_t, std::byte*)>& fill) {
  begin_entry("data/" + key, bytes);
  std::uint32_t crc = 0;
  const auto piece = std::make_unique<std::byte[]>(std::min(bytes, kPiece));
  for (std::uint64_t at = 0; at < bytes; at += kPiece) {
    const auto end = std::min(bytes, at + kPiece);
    fill(at, end, piece.get());
    crc = zip_crc(crc, {piece.get(), end - at});
    file_.write(piece.get(), end - at);
  }
  end_entry(crc);
}

void TorchArchiveWriter::entry(const std::string& name, std::string_view content) {
  begin_entry(name, content.size());
  file_.write(content.data(), content.size());
  end_entry(zip_crc(0, std::as_bytes(std::span(content))));
}

// The local header, padded by an extra field of torch's own ("FB") so that the content begins at a multiple of 64.
void TorchArchiveWriter::begin_entry(const std::string& name, std::uint64_t size) {
  const Entry e{top_ + "/" + name, file_.size() - start_, size, 0};
  const bool large = size >= kLarge;
  const std::string sizes = large ? le(1, 2) + le(16, 2) + le(size, 8) + le(size, 8) : "";
  const std::uint64_t before = e.at + 30 + e.name.size() + sizes.size() + 4;
  const std::uint64_t padding = (kAlign - before % kAlign) % kAlign;
  const std::string extra = sizes + le(0x4246, 2) + le(padding, 2) + std::string(padding, 'Z');
  const auto short_size = large ? kLarge : size;
  const std::string header = le(0x04034b50, 4) + le(large ? 45 : 20, 2) + le(0, 2) + le(0, 2) + le(0, 2) + le(0x21, 2) + le(0, 4) + le(short_size, 4) +
                             le(short_size, 4) + le(e.name.size(), 2) + le(extra.size(), 2) + e.name + extra;
  file_.write(header.data(), header.size());
  entries_.push_back(e);
}

void TorchArchiveWriter::end_entry(std::uint32_t crc) {
  entries_.back().crc = crc;
  const std::string bytes = le(crc, 4);
  file_.write_at(start_ + entries_.back().at + 14, bytes.data(), bytes.size());
}

std::uint64_t TorchArchiveWriter::finish() {
  entry("version", "3\n");
  const std::uint64_t begin = file_.size() - start_;
  std::string directory;
  for (const auto& e : entries_) {
    const bool large = e.size >= kLarge, far = e.at >= kLarge;
    const std::string wide = (large ? le(e.size, 8) + le(e.size, 8) : "") + (far ? le(e.at, 8) : "");
    const std::string extra = wide.empty() ? "" : le(1, 2) + le(wide.size(), 2) + wide;
    const auto size = large ? kLarge : e.size;
    directory += le(0x02014b50, 4) + le(45, 2) + le(45, 2) + le(0, 2) + le(0, 2) + le(0, 2) + le(0x21, 2) + le(e.crc, 4) + le(size, 4) + le(size, 4) +
                 le(e.name.size(), 2) + le(extra.size(), 2) + le(0, 2) + le(0, 2) + le(0, 2) + le(0, 4) + le(far ? kLarge : e.at, 4) + e.name + extra;
  }
  const std::uint64_t n = entries_.size(), end = begin + directory.size();
  directory += le(0x06064b50, 4) + le(44, 8) + le(45, 2) + le(45, 2) + le(0, 4) + le(0, 4) + le(n, 8) + le(n, 8) + le(end - begin, 8) + le(begin, 8);
  directory += le(0x07064b50, 4) + le(0, 4) + le(end, 8) + le(1, 4);
  const auto capped = [](std::uint64_t v, std::uint64_t most) { return std::min(v, most); };
  directory += le(0x06054b50, 4) + le(0, 4) + le(capped(n, 0xffff), 2) + le(capped(n, 0xffff), 2) + le(capped(end - begin, kLarge), 4) +
               le(capped(begin, kLarge), 4) + le(0, 2);
  file_.write(directory.data(), directory.size());
  return file_.size() - start_;
}

}  // namespace mt
