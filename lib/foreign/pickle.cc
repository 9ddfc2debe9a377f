// The stack machine of pickles, whose every instruction only makes values.

#include "foreign/pickle.h"

#include <bit>
#include <cstring>
#include <unordered_map>

#include "base/error.h"

namespace mt {

namespace {

constexpr std::size_t kMaxValues = 1u << 24, kMaxStack = 1u << 24, kMaxName = 256;

enum Op : std::uint8_t {
  kMark = '(', kStop = '.', kPop = '0', kPopMark = '1', kDup = '2', kBinFloat = 'G', kBinInt = 'J', kBinInt1 = 'K', kBinInt2 = 'M',
  kNone = 'N', kBinPersId = 'Q', kReduce = 'R', kBinString = 'T', kShortBinString = 'U', kBinUnicode = 'X', kAppend = 'a',
  kBuild = 'b', kGlobal = 'c', kAppends = 'e', kBinGet = 'h', kLongBinGet = 'j', kList = 'l', kDict = 'd', kEmptyDict = '}',
  kEmptyList = ']', kEmptyTuple = ')', kBinPut = 'q', kLongBinPut = 'r', kSetItem = 's', kTuple = 't', kSetItems = 'u',
  kBinBytes = 'B', kShortBinBytes = 'C', kProto = 0x80, kNewObj = 0x81, kTuple1 = 0x85, kTuple2 = 0x86, kTuple3 = 0x87,
  kNewTrue = 0x88, kNewFalse = 0x89, kLong1 = 0x8a, kLong4 = 0x8b, kShortBinUnicode = 0x8c, kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e, kEmptySet = 0x8f, kAddItems = 0x90, kFrozenSet = 0x91, kNewObjEx = 0x92, kStackGlobal = 0x93,
  kMemoize = 0x94, kFrame = 0x95, kByteArray8 = 0x96
};

// Modules whose names Python 2 wrote otherwise.
std::string module_now(const std::string& module) {
  if (module == "__builtin__") return "builtins";
  if (module == "copy_reg") return "copyreg";
  return module;
}

// Text whose characters are all below 256 as bytes, one each; nothing for other text.
std::optional<std::string> latin1_bytes(const std::string& utf8) {
  std::string out;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto c = static_cast<unsigned char>(utf8[i]);
    if (c < 0x80) {
      out += utf8[i];
    } else if ((c == 0xc2 || c == 0xc3) && i + 1 < utf8.size()) {
      out += static_cast<char>((c & 3) << 6 | (static_cast<unsigned char>(utf8[++i]) & 0x3f));
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

class PickleMachine {
 public:
  using Id = Pickle::Id;
  using Kind = PickleKind;

  PickleMachine(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes) {
    out_.where_ = where;
    none_ = make(Kind::none);
    false_ = make(Kind::boolean);
    true_ = make(Kind::boolean);
    node(true_).number = 1;
    empty_tuple_ = make(Kind::tuple);
  }

  Pickle run() {
    if (bytes_.size() < 2 || byte(0) != kProto) fail("no pickle of protocol 2 or later");
    for (;;) {
      start_ = at_;
      const auto op = static_cast<std::uint8_t>(number(1));
      if (op == kStop) break;
      if (!constant(op) && !text(op) && !container(op) && !call(op) && !memory(op))
        fail(fmt::format("instruction 0x{:02x} is not one of protocols 2 to 5 that are read", op));
    }
    if (stack_.size() != 1 || !marks_.empty()) fail(fmt::format("ends with {} values on the stack", stack_.size()));
    out_.root_ = stack_.back();
    out_.size_ = at_;
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Code::corrupt, "pickle: " + what, fmt::format("{}, byte {}", out_.where_, start_));
  }
  std::uint8_t byte(std::uint64_t i) const { return static_cast<std::uint8_t>(bytes_[i]); }
  Pickle::Node& node(Id id) { return out_.nodes_[id]; }

  std::uint64_t left() const { return bytes_.size() - at_; }
  void need(std::uint64_t n) const {
    if (n > left()) fail(fmt::format("wants {} bytes more, and {} are left", n, left()));
  }
  // Little-endian.
  std::uint64_t number(unsigned width) {
    need(width);
    std::uint64_t v = 0;
    for (unsigned i = 0; i < width; ++i) v |= std::uint64_t{byte(at_ + i)} << (8 * i);
    at_ += width;
    return v;
  }
  std::string chars(std::uint64_t n) {
    need(n);
    std::string s(reinterpret_cast<const char*>(bytes_.data()) + at_, n);
    at_ += n;
    return s;
  }
  std::string line() {
    const void* end = std::memchr(bytes_.data() + at_, '\n', left());
    if (end == nullptr) fail("a name without an end");
    std::string s = chars(static_cast<std::uint64_t>(static_cast<const std::byte*>(end) - bytes_.data()) - at_);
    ++at_;
    return s;
  }

  Id make(Kind kind) {
    if (out_.nodes_.size() >= kMaxValues) fail(fmt::format("more than {} values", kMaxValues));
    auto& n = out_.nodes_.emplace_back();
    n.kind = kind;
    n.at = start_;
    return static_cast<Id>(out_.nodes_.size() - 1);
  }
  void push(Id id) {
    if (stack_.size() >= kMaxStack) fail("the stack is too deep");
    stack_.push_back(id);
  }
  void push_integer(std::int64_t v) {
    const Id id = make(Kind::integer);
    node(id).number = v;
    push(id);
  }
  void push_text(Kind kind, std::string s) {
    const Id id = make(kind);
    node(id).text = std::move(s);
    push(id);
  }

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Id pop() {
    if (stack_.size() <= floor()) fail("takes a value from an empty stack");
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }
  Id top() const {
    if (stack_.size() <= floor()) fail("looks at an empty stack");
    return stack_.back();
  }
  std::vector<Id> pop_to_mark() {
    if (marks_.empty()) fail("no mark");
    std::vector<Id> all(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return all;
  }

  bool constant(std::uint8_t op) {
    switch (op) {
      case kNone: push(none_); return true;
      case kNewTrue: push(true_); return true;
      case kNewFalse: push(false_); return true;
      case kBinInt: push_integer(static_cast<std::int32_t>(number(4))); return true;
      case kBinInt1: push_integer(static_cast<std::int64_t>(number(1))); return true;
      case kBinInt2: push_integer(static_cast<std::int64_t>(number(2))); return true;
      case kLong1: long_integer(number(1)); return true;
      case kLong4: long_integer(number(4)); return true;
      case kBinFloat: {
        std::uint64_t v = 0;
        for (int i = 0; i < 8; ++i) v = v << 8 | number(1);
        const Id id = make(Kind::real);
        node(id).real = std::bit_cast<double>(v);
        push(id);
        return true;
      }
      default: return false;
    }
  }

  void long_integer(std::uint64_t width) {
    std::string s = chars(width);
    if (width > 8) return push_text(Kind::long_integer, std::move(s));
    std::uint64_t v = width > 0 && (s.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = s.size(); i-- > 0;) v = v << 8 | static_cast<unsigned char>(s[i]);
    push_integer(static_cast<std::int64_t>(v));
  }

  bool text(std::uint8_t op) {
    switch (op) {
      case kBinString: push_text(Kind::text, chars(number(4))); return true;
      case kShortBinString: push_text(Kind::text, chars(number(1))); return true;
      case kShortBinUnicode: push_text(Kind::text, chars(number(1))); return true;
      case kBinUnicode: push_text(Kind::text, chars(number(4))); return true;
      case kBinUnicode8: push_text(Kind::text, chars(number(8))); return true;
      case kShortBinBytes: push_text(Kind::bytes, chars(number(1))); return true;
      case kBinBytes: push_text(Kind::bytes, chars(number(4))); return true;
      case kBinBytes8: case kByteArray8: push_text(Kind::bytes, chars(number(8))); return true;
      case kGlobal: {
        const std::string module = line();
        push_global(module, line());
        return true;
      }
      case kStackGlobal: {
        const Id name = pop(), module = pop();
        if (node(name).kind != Kind::text || node(module).kind != Kind::text) fail("a global whose name is no text");
        push_global(node(module).text, node(name).text);
        return true;
      }
      default: return false;
    }
  }

  // Texts may be shared and names may not, so those are bounded; they are printed, too.
  void push_global(const std::string& module, const std::string& name) {
    if (module.size() > kMaxName || name.size() > kMaxName) fail("a name of more than 256 letters");
    for (const char c : module + name)
      if (c <= ' ' || c == 0x7f) fail("a name that is none");
    push_text(Kind::global, module_now(module) + "." + name);
  }

  void push_items(Kind kind, std::vector<Id> items) {
    const Id id = make(kind);
    node(id).items = std::move(items);
    push(id);
  }
  void push_tuple(std::size_t n) {
    std::vector<Id> items(n);
    for (std::size_t i = n; i-- > 0;) items[i] = pop();
    push_items(Kind::tuple, std::move(items));
  }
  // Into what lies on top: a list or set takes elements, a dict pairs, an object either.
  void put(const std::vector<Id>& items, Kind into, bool pairs) {
    auto& n = node(top());
    if (n.kind != into && n.kind != Kind::object) fail("puts elements into what holds none");
    if (pairs && items.size() % 2 != 0) fail("a key without a value");
    n.items.insert(n.items.end(), items.begin(), items.end());
  }

  bool container(std::uint8_t op) {
    switch (op) {
      case kMark:
        if (marks_.size() >= kMaxStack) fail("too many marks");
        marks_.push_back(stack_.size());
        return true;
      case kEmptyList: push_items(Kind::list, {}); return true;
      case kEmptyDict: push_items(Kind::dict, {}); return true;
      case kEmptySet: push_items(Kind::set, {}); return true;
      case kEmptyTuple: push(empty_tuple_); return true;
      case kList: push_items(Kind::list, pop_to_mark()); return true;
      case kTuple: push_items(Kind::tuple, pop_to_mark()); return true;
      case kFrozenSet: push_items(Kind::set, pop_to_mark()); return true;
      case kTuple1: push_tuple(1); return true;
      case kTuple2: push_tuple(2); return true;
      case kTuple3: push_tuple(3); return true;
      case kDict: {
        auto items = pop_to_mark();
        if (items.size() % 2 != 0) fail("a key without a value");
        push_items(Kind::dict, std::move(items));
        return true;
      }
      case kAppend: { const Id v = pop(); put({v}, Kind::list, false); return true; }
      case kAppends: put(pop_to_mark(), Kind::list, false); return true;
      case kAddItems: put(pop_to_mark(), Kind::set, false); return true;
      case kSetItem: { const Id v = pop(), k = pop(); put({k, v}, Kind::dict, true); return true; }
      case kSetItems: put(pop_to_mark(), Kind::dict, true); return true;
      default: return false;
    }
  }

  bool call(std::uint8_t op) {
    switch (op) {
      case kReduce: case kNewObj: { const Id arguments = pop(), callee = pop(); push(called(callee, arguments)); return true; }
      case kNewObjEx: {
        const Id keywords = pop(), arguments = pop(), callee = pop();
        const Id id = called(callee, arguments);
        if (!node(keywords).items.empty()) {
          if (node(id).kind != Kind::object) fail("keywords of what takes none");
          node(id).state = keywords;
        }
        push(id);
        return true;
      }
      case kBuild: {
        const Id state = pop();
        auto& n = node(top());
        if (n.kind != Kind::object && n.kind != Kind::dict) fail("gives a state to what has none");
        n.state = state;
        return true;
      }
      case kBinPersId: { const Id v = pop(); push_items(Kind::persistent, {v}); return true; }
      default: return false;
    }
  }

  // A call that is another spelling of plain data, or an object.
  Id called(Id callee, Id arguments) {
    if (node(arguments).kind != Kind::tuple) fail("arguments that are no tuple");
    const auto& a = node(arguments).items;
    if (node(callee).kind == Kind::global)
      if (const auto plain = plain_call(node(callee).text, a)) return *plain;
    const Id id = make(Kind::object);
    node(id).items = {callee, arguments};
    return id;
  }

  std::optional<Id> plain_call(const std::string& name, const std::vector<Id>& a) {
    const auto is = [&](std::size_t i, Kind k) { return i < a.size() && node(a[i]).kind == k; };
    if (name == "collections.OrderedDict" && a.empty()) return make(Kind::dict);
    if (name == "collections.OrderedDict" && a.size() == 1 && is(0, Kind::list)) return dict_of_pairs(a[0]);
    if ((name == "builtins.set" || name == "builtins.frozenset") && a.size() == 1 && is(0, Kind::list)) return copied(Kind::set, a[0]);
    if (name == "torch.Size" && a.size() == 1 && (is(0, Kind::tuple) || is(0, Kind::list))) return copied(Kind::tuple, a[0]);
    if (name == "builtins.bytearray" && a.size() == 1 && is(0, Kind::bytes)) return a[0];
    if ((name == "builtins.bytearray" || name == "builtins.bytes") && a.empty()) return make(Kind::bytes);
    const bool encode = name == "_codecs.encode", of_text = name == "builtins.bytearray";
    if ((encode || of_text) && a.size() == 2 && is(0, Kind::text) && is(1, Kind::text)) {
      const auto& codec = node(a[1]).text;
      copied_bytes_ += node(a[0]).text.size();
      if (copied_bytes_ > bytes_.size()) fail("bytes made of one text again and again");
      auto bytes = codec == "latin1" || codec == "latin-1" ? latin1_bytes(node(a[0]).text) : std::nullopt;
      if (!bytes) fail("bytes spelled as text that is not latin1");
      const Id id = make(Kind::bytes);
      node(id).text = std::move(*bytes);
      return id;
    }
    return std::nullopt;
  }
  Id copied(Kind kind, Id from) {
    copied_ += node(from).items.size();  // what is copied may be copied again and again
    if (copied_ > kMaxValues) fail(fmt::format("more than {} values", kMaxValues));
    const Id id = make(kind);
    node(id).items = node(from).items;
    return id;
  }
  std::optional<Id> dict_of_pairs(Id list) {
    const Id id = make(Kind::dict);
    copied_ += node(list).items.size();
    if (copied_ > kMaxValues) fail(fmt::format("more than {} values", kMaxValues));
    for (const Id pair : node(list).items) {
      const auto& p = node(pair);
      if ((p.kind != Kind::list && p.kind != Kind::tuple) || p.items.size() != 2) fail("pairs of a dict that are none");
      node(id).items.insert(node(id).items.end(), p.items.begin(), p.items.end());
    }
    return id;
  }

  bool memory(std::uint8_t op) {
    switch (op) {
      case kProto:
        if (const auto version = number(1); start_ != 0 || version < 2 || version > 5) fail(fmt::format("protocol {}", version));
        return true;
      case kFrame:
        if (const auto n = number(8); n > left()) fail(fmt::format("a frame of {} bytes where {} are left", n, left()));
        return true;
      case kPop:
        if (stack_.size() > floor()) stack_.pop_back();
        else if (!marks_.empty()) marks_.pop_back();
        else fail("takes a value from an empty stack");
        return true;
      case kPopMark: pop_to_mark(); return true;
      case kDup: push(top()); return true;
      case kBinPut: memo_[static_cast<std::uint32_t>(number(1))] = top(); return true;
      case kLongBinPut: memo_[static_cast<std::uint32_t>(number(4))] = top(); return true;
      case kMemoize: memo_[static_cast<std::uint32_t>(memo_.size())] = top(); return true;
      case kBinGet: recall(number(1)); return true;
      case kLongBinGet: recall(number(4)); return true;
      default: return false;
    }
  }
  void recall(std::uint64_t place) {
    const auto found = memo_.find(static_cast<std::uint32_t>(place));
    if (found == memo_.end()) fail(fmt::format("recalls {}, which was not kept", place));
    push(found->second);
  }

  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0, start_ = 0;
  Pickle out_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, Id> memo_;
  std::size_t copied_ = 0, copied_bytes_ = 0;
  Id none_ = 0, true_ = 0, false_ = 0, empty_tuple_ = 0;
};

Pickle Pickle::parse(std::span<const std::byte> bytes, const std::string& where) { return PickleMachine(bytes, where).run(); }

PickleValue Pickle::root() const { return {*this, root_}; }

}  // namespace mt
