#include "foreign/pickle.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace mt {

namespace {

constexpr std::size_t kMaxPlain = 1 << 20;  // bytes, about
const std::string kNoName;

const char* kind_text(PickleKind k) {
  switch (k) {
    case PickleKind::none: return "None";
    case PickleKind::boolean: return "a boolean";
    case PickleKind::integer: return "a whole number";
    case PickleKind::long_integer: return "a whole number beyond 64 bits";
    case PickleKind::real: return "a number";
    case PickleKind::text: return "a text";
    case PickleKind::bytes: return "bytes";
    case PickleKind::list: return "a list";
    case PickleKind::tuple: return "a tuple";
    case PickleKind::set: return "a set";
    case PickleKind::dict: return "a dict";
    case PickleKind::global: return "the name";
    case PickleKind::object: return "an object";
    case PickleKind::persistent: break;
  }
  return "a reference to a storage";
}

// The number of a numpy.core.multiarray.scalar(dtype, bytes), or nothing.
std::optional<Json> numpy_scalar(const PickleValue& v) {
  if (!v.is(PickleKind::object) || (v.name() != "numpy.core.multiarray.scalar" && v.name() != "numpy._core.multiarray.scalar"))
    return std::nullopt;
  const auto a = v.arguments();
  if (a.size() != 2 || a[0].name() != "numpy.dtype" || !a[1].is(PickleKind::bytes)) return std::nullopt;
  const auto type = a[0].arguments();
  if (type.size() < 1 || !type[0].is(PickleKind::text)) return std::nullopt;
  const std::string &code = type[0].text(), &raw = a[1].bytes();
  const auto take = [&](auto value) -> std::optional<Json> {
    if (raw.size() != sizeof value) return std::nullopt;
    std::memcpy(&value, raw.data(), sizeof value);
    return Json(value);
  };
  if (code == "f8") return take(double{});
  if (code == "f4") return take(float{});
  if (code == "i8") return take(std::int64_t{});
  if (code == "u8") return take(std::uint64_t{});
  if (code == "i4") return take(std::int32_t{});
  if (code == "b1" && raw.size() == 1) return Json(raw[0] != 0);
  return std::nullopt;
}

// Text of Python 2 may be of any encoding; what is no UTF-8 is replaced.
Json valid(const std::string& text) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  return ascii ? Json(text) : parse_json(json_line(Json(text)), "text");
}

Json plain(const PickleValue& v, int depth, std::size_t& left) {
  const std::size_t cost = 16 + (v.is(PickleKind::text) ? v.text().size() : 0);
  if (depth < 0 || left < cost) return "...";
  left -= cost;
  switch (v.kind()) {
    case PickleKind::none: return nullptr;
    case PickleKind::boolean: return v.boolean();
    case PickleKind::integer: return v.integer();
    case PickleKind::real: return v.number();
    case PickleKind::text: return valid(v.text());
    case PickleKind::list: case PickleKind::tuple: case PickleKind::set: {
      Json out = Json::array();
      for (std::size_t i = 0; i < v.size() && left > 0; ++i) out.push_back(plain(v[i], depth - 1, left));
      return out;
    }
    case PickleKind::dict: {
      Json out = Json::object();
      for (std::size_t i = 0; i < v.num_entries() && left > 0; ++i) {
        const Json key = plain(v.key(i), 1, left);
        out[key.is_string() ? key.get<std::string>() : json_line(key)] = plain(v.entry(i), depth - 1, left);
      }
      return out;
    }
    default: break;
  }
  if (auto number = numpy_scalar(v)) return *number;
  return "<" + (v.name().empty() ? v.describe() : v.name()) + ">";
}

}  // namespace

const std::string& PickleValue::name() const {
  const auto& n = node();
  if (n.kind == PickleKind::global) return n.text;
  if (n.kind != PickleKind::object) return kNoName;
  const auto& callee = pickle_->node(n.items[0]);
  return callee.kind == PickleKind::global ? callee.text : kNoName;
}

std::string PickleValue::describe() const {
  const std::string what = kind_text(kind());
  switch (kind()) {
    case PickleKind::global: return what + " " + name();
    case PickleKind::object: return name().empty() ? what : what + " of " + name();
    case PickleKind::list: case PickleKind::tuple: case PickleKind::set: return fmt::format("{} of {}", what, size());
    case PickleKind::text: return "the text " + json_line(Json(node().text.substr(0, 40)));
    case PickleKind::integer: return fmt::format("{}", node().number);
    default: return what;
  }
}

void PickleValue::fail(const std::string& what) const {
  throw Error(Code::corrupt, what, fmt::format("{}, byte {}", pickle_->where(), at()));
}

void PickleValue::wanted(const char* what) const { fail(fmt::format("wanted {}, found {}", what, describe())); }

std::int64_t PickleValue::integer() const {
  if (!is(PickleKind::integer)) wanted("a whole number of 64 bits");
  return node().number;
}
bool PickleValue::boolean() const {
  if (!is(PickleKind::boolean)) wanted("a boolean");
  return node().number != 0;
}
double PickleValue::number() const {
  if (is(PickleKind::integer)) return static_cast<double>(node().number);
  if (!is(PickleKind::real)) wanted("a number");
  return node().real;
}
const std::string& PickleValue::text() const {
  if (!is(PickleKind::text)) wanted("a text");
  return node().text;
}
const std::string& PickleValue::bytes() const {
  if (!is(PickleKind::bytes)) wanted("bytes");
  return node().text;
}

std::size_t PickleValue::size() const {
  return is(PickleKind::list) || is(PickleKind::tuple) || is(PickleKind::set) ? node().items.size() : 0;
}
PickleValue PickleValue::operator[](std::size_t i) const {
  if (i >= size()) fail(fmt::format("wanted at least {} elements, found {}", i + 1, describe()));
  return {*pickle_, node().items[i]};
}

std::size_t PickleValue::num_entries() const {
  if (is(PickleKind::dict)) return node().items.size() / 2;
  return is(PickleKind::object) ? (node().items.size() - 2) / 2 : 0;
}
PickleValue PickleValue::key(std::size_t i) const {
  if (i >= num_entries()) wanted("a dict");
  return {*pickle_, node().items[2 * i + (is(PickleKind::object) ? 2 : 0)]};
}
PickleValue PickleValue::entry(std::size_t i) const {
  if (i >= num_entries()) wanted("a dict");
  return {*pickle_, node().items[2 * i + (is(PickleKind::object) ? 3 : 1)]};
}
std::optional<PickleValue> PickleValue::find(std::string_view wanted_key) const {
  for (std::size_t i = num_entries(); i-- > 0;)
    if (const auto k = key(i); k.is(PickleKind::text) && k.text() == wanted_key) return entry(i);
  return std::nullopt;
}

PickleValue PickleValue::persistent() const {
  if (!is(PickleKind::persistent)) wanted("a reference to a storage");
  return {*pickle_, node().items[0]};
}
PickleValue PickleValue::arguments() const {
  if (!is(PickleKind::object)) wanted("an object");
  return {*pickle_, node().items[1]};
}
std::optional<PickleValue> PickleValue::state() const {
  if (node().state == Pickle::kNothing) return std::nullopt;
  return PickleValue{*pickle_, node().state};
}
std::optional<PickleValue> PickleValue::attribute(std::string_view attribute_name) const {
  const auto s = state();
  if (!s) return std::nullopt;
  if (s->is(PickleKind::tuple) && s->size() == 2) {
    for (std::size_t i = 2; i-- > 0;)
      if (const auto found = (*s)[i].find(attribute_name)) return found;
    return std::nullopt;
  }
  return s->find(attribute_name);
}

Json plain_json(const PickleValue& value, int depth) {
  std::size_t left = kMaxPlain;
  return plain(value, depth, left);
}

}  // namespace mt
