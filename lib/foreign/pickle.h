#pragma once
// Python's pickles as plain data: a graph of values, made without executing anything.
//
// A pickle is a program for a stack machine. Here every instruction makes or joins values and nothing else: a global (a class,
// a function) is its name, a call is an `object` with that name and its arguments, and stays one. Of calls only those
// that are another spelling of plain data become it: collections.OrderedDict, set, frozenset, bytearray, torch.Size,
// _codecs.encode of latin1. Who needs data where something else lies says so with the object's name and place.
//
// Values are shared as the pickle shares them, so a graph is never larger than its bytes make it, may hold itself, and is not
// to be walked without a bound on depth (plain_json has one).
// Code: foreign/pickle.cc, foreign/pickle_value.cc. Tests: tests/foreign/pickle_test.cc; fuzzed by tests/fuzz/pickle_fuzz.cc.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace mt {

enum class PickleKind : std::uint8_t {
  none, boolean, integer, long_integer, real, text, bytes, list, tuple, set, dict, global, object, persistent
};

class PickleValue;

class Pickle {
 public:
  using Id = std::uint32_t;

  // What a value is made of.
  //   at       byte of the pickle that made it
  //   number   of boolean and integer
  //   text     of text (UTF-8), bytes, global ("argparse.Namespace"); of long_integer its bytes, lowest first
  //   items    elements of list, tuple, set; of dict key, value, key, value; of object what is called and the
  //            arguments, then what was put into it as into a list or dict; of persistent the one identity
  //   state    of object and dict: what BUILD gave, usually a dict of attributes; kNothing without
  struct Node {
    PickleKind kind = PickleKind::none;
    std::uint64_t at = 0;
    std::int64_t number = 0;
    double real = 0;
    std::string text;
    std::vector<Id> items;
    Id state = kNothing;
  };
  static constexpr Id kNothing = 0xffffffff;

  // Read one pickle, of protocol 2 to 5, from the start of `bytes`.
  //   where  of the bytes, for messages
  //   gives  the graph; size() bytes were its own
  //   fails  Error{corrupt} "..., byte N": cut, an instruction that is not of these protocols or asks for what is not
  //          there, more than 2^24 values or marks
  //   cost   one pass; about 100 bytes a value
  static Pickle parse(std::span<const std::byte> bytes, const std::string& where);

  PickleValue root() const;
  const Node& node(Id id) const { return nodes_[id]; }
  std::size_t num_values() const { return nodes_.size(); }
  std::uint64_t size() const { return size_; }
  const std::string& where() const { return where_; }

 private:
  friend class PickleMachine;
  std::deque<Node> nodes_;
  Id root_ = kNothing;
  std::uint64_t size_ = 0;
  std::string where_;
};

// One value of a pickle, which must outlive it. Every accessor but the questions fails with Error{corrupt} naming what was
// wanted, what is there (an object by its name) and its byte.
class PickleValue {
 public:
  PickleValue(const Pickle& pickle, Pickle::Id id) : pickle_(&pickle), id_(id) {}

  PickleKind kind() const { return node().kind; }
  bool is(PickleKind k) const { return node().kind == k; }
  bool is_none() const { return is(PickleKind::none); }
  Pickle::Id id() const { return id_; }
  std::uint64_t at() const { return node().at; }

  // Of an object: the name of what is called to make it, "" when that is no global. Of a global: its name.
  const std::string& name() const;
  // "a list of 3", "an object of numpy.dtype".
  std::string describe() const;

  std::int64_t integer() const;       // a boolean counts as none
  bool boolean() const;
  double number() const;              // integer or real
  const std::string& text() const;
  const std::string& bytes() const;

  // Elements of list, tuple, set; 0 of anything else.
  std::size_t size() const;
  PickleValue operator[](std::size_t i) const;
  // Entries of a dict, or of an object that is filled as one; 0 of anything else.
  std::size_t num_entries() const;
  PickleValue key(std::size_t i) const;
  PickleValue entry(std::size_t i) const;
  // Entry of a dict by its text, the last if there are several.   cost  linear
  std::optional<PickleValue> find(std::string_view key) const;

  // The identity of a persistent reference.
  PickleValue persistent() const;
  // Arguments of an object's call.
  PickleValue arguments() const;
  // What BUILD gave.
  std::optional<PickleValue> state() const;
  // Attribute of an object whose state is a dict, or a pair of None or a dict and a dict of slots.
  std::optional<PickleValue> attribute(std::string_view name) const;

  // Throws Error{corrupt} "<what>: <where>, byte N".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  const Pickle::Node& node() const { return pickle_->node(id_); }
  [[noreturn]] void wanted(const char* what) const;
  const Pickle* pickle_;
  Pickle::Id id_;
};

// A value as JSON, to be printed or kept: keys become text, tuples and sets lists, an object that is no plain data
// its name in angle brackets; a numpy scalar its number. Beyond `depth` levels or some 1 MiB "...".
Json plain_json(const PickleValue& value, int depth = 8);

}  // namespace mt
