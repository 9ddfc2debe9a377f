// mt-ckpt cat, stats, average: commands that read values.

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "ckpt/average.h"
#include "ckpt/one_save.h"
#include "ckpt/store.h"
#include "ckpt/tensor_scan.h"
#include "mt-ckpt/commands.h"
#include "mt-ckpt/opened.h"

namespace mt {
namespace {

struct Arguments {
  std::vector<std::string> paths, load;
  std::optional<std::int64_t> iteration;
  std::string kind = "weight", range, format = "text", save;
  bool force = false;
};

void add_checkpoint(OptionTable& table, Arguments& a) {
  table.add("ckpt-step", a.iteration, "N", "iteration to take from a --save directory instead of the tracker's");
}

// "2:5,0:1": of each dimension from the first on; "" or nothing behind a colon is all there is.
Box box_of_range(const std::string& text, const Dims& shape) {
  Box box = whole(shape);
  if (text.empty()) return box;
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::usage, why, "--range " + text, fmt::format("FROM:TO of each dimension of {}, as 0:4,0:8", dims_text(shape)));
  };
  std::size_t dim = 0;
  for (std::size_t from = 0; from <= text.size(); ++dim) {
    const auto comma = std::min(text.find(',', from), text.size());
    const std::string part = text.substr(from, comma - from);
    from = comma + 1;
    if (dim == shape.size()) refuse(fmt::format("the tensor has {} dimension{}", shape.size(), shape.size() == 1 ? "" : "s"));
    const auto colon = part.find(':');
    if (colon == std::string::npos) refuse("no ':' in '" + part + "'");
    const auto number = [&](const std::string& word, std::int64_t otherwise) {
      if (word.empty()) return otherwise;
      std::int64_t n = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
      if (error != std::errc() || end != word.data() + word.size()) refuse("'" + word + "' is no number");
      return n;
    };
    const auto lo = number(part.substr(0, colon), 0), hi = number(part.substr(colon + 1), shape[dim]);
    if (lo < 0 || hi > shape[dim] || lo >= hi) refuse(fmt::format("{}:{} is not in 0:{}", lo, hi, shape[dim]));
    box.offset[dim] = lo;
    box.extent[dim] = hi - lo;
  }
  return box;
}

const TensorBox& tensor_named(const Opened& opened, const std::string& name, const std::string& kind) {
  if (const auto* t = opened.tensors->find(name, kind)) return *t;
  std::vector<std::string> names;
  for (const auto& t : opened.tensors->tensors())
    if (t.kind == kind) names.push_back(t.name);
  const char* hint = opened.format.empty() ? "mt-ckpt info --tensors" : "names are ours: mt-ckpt stats lists them";
  if (names.empty()) throw Error(Code::config, "no tensor of kind " + kind, opened.dir.string(), hint);
  const auto near = nearest_name(name, names);
  throw Error(Code::config, "no tensor " + tensor_text(name, kind), opened.dir.string(), near.empty() ? hint : "did you mean " + near + "?");
}

bool is_whole(DType t) {
  for (const DType w : {DType::i64, DType::i32, DType::i16, DType::u16, DType::i8, DType::u8})
    if (t == w) return true;
  return false;
}

std::int64_t whole_value(DType t, const std::byte* at) {
  if (t != DType::i64) return static_cast<std::int64_t>(element_value(t, at));
  std::int64_t v = 0;
  std::memcpy(&v, at, sizeof v);
  return v;
}

// The fewest digits that read back to the number.
std::string value_text(DType t, const std::byte* at) {
  if (is_whole(t)) return std::to_string(whole_value(t, at));
  const double v = element_value(t, at);
  return t == DType::f64 ? fmt::format("{}", v) : fmt::format("{}", static_cast<float>(v));
}

// What is not finite has no number in JSON and is a word.
Json value_json(DType t, const std::byte* at) {
  if (is_whole(t)) return whole_value(t, at);
  const double v = element_value(t, at);
  return std::isfinite(v) ? Json(v) : Json(value_text(t, at));
}

// Rows along the last dimension; a row may come in several blocks.
class RowPrinter {
 public:
  RowPrinter(const TensorBox& t, const Box& part, bool json)
      : t_(t), json_(json), width_(part.extent.empty() ? 1 : part.extent.back()), at_(part.offset), part_(part) {}

  void take(const std::byte* elements, std::int64_t n) {
    const auto size = static_cast<std::size_t>(bytes_of(t_.dtype, 1));
    for (std::int64_t i = 0; i < n; ++i, elements += size) {
      if (json_) values_.push_back(value_json(t_.dtype, elements));
      else words_.push_back(value_text(t_.dtype, elements));
      if (++filled_ == width_) end_row();
    }
  }

 private:
  void end_row() {
    if (json_) cli::object({{"at", at_}, {"values", values_}});
    else cli::row(words_);
    values_ = Json::array();
    words_.clear();
    filled_ = 0;
    for (std::size_t d = at_.size(); d-- > 1;) {
      if (++at_[d - 1] < part_.offset[d - 1] + part_.extent[d - 1]) break;
      at_[d - 1] = part_.offset[d - 1];
    }
  }

  const TensorBox& t_;
  bool json_;
  std::int64_t width_, filled_ = 0;
  Dims at_;
  Box part_;
  Json values_ = Json::array();
  std::vector<std::string> words_;
};

void write_out(const void* bytes, std::size_t n) {
  if (std::fwrite(bytes, 1, n, stdout) != n) throw Error(Code::io, "cannot write", "standard output");
}

// numpy's format, version 1.0: bf16 and fp8, which it has no name for, as f32.
void write_npy(const TensorSource& source, const TensorBox& t, const Box& part) {
  const char* names[] = {"<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "<u2", "|i1", "|u1"};
  const DType types[] = {DType::f64, DType::f32, DType::f16, DType::i64, DType::i32, DType::i16, DType::u16, DType::i8, DType::u8};
  const char* name = nullptr;
  for (std::size_t i = 0; i < std::size(types); ++i)
    if (types[i] == t.dtype) name = names[i];
  std::string shape;
  for (const auto n : part.extent) shape += fmt::format("{}, ", n);
  std::string head = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", name ? name : "<f4", shape);
  constexpr std::size_t kBegin = 10;
  head.append(63 - (kBegin + head.size()) % 64, ' ');
  head += '\n';
  if (head.size() > 65535) throw Error(Code::config, "too many dimensions for a .npy file", t.name);
  const unsigned char begin[kBegin] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<unsigned char>(head.size() % 256),
                                       static_cast<unsigned char>(head.size() / 256)};
  write_out(begin, kBegin);
  write_out(head.data(), head.size());
  const auto width = static_cast<std::size_t>(bytes_of(t.dtype, 1));
  std::vector<float> wide;
  scan_tensor(source, t, part, [&](const Box& box, const std::byte* at) {
    if (name != nullptr) return write_out(at, static_cast<std::size_t>(box.size()) * width);
    wide.clear();
    for (std::int64_t i = 0; i < box.size(); ++i, at += width) wide.push_back(static_cast<float>(element_value(t.dtype, at)));
    write_out(wide.data(), wide.size() * sizeof(float));
  });
}

int cat(const Arguments& a, bool json) {
  if (a.paths.size() != 2)
    throw Error(Code::usage, fmt::format("wanted CHECKPOINT and TENSOR, found {} word{}", a.paths.size(), a.paths.size() == 1 ? "" : "s"),
                "", "mt-ckpt info --tensors says what there is");
  if (json && a.format != "text") throw Error(Code::usage, "--json and --format npy exclude each other");
  const Opened opened = open_tensors(a.paths[0], a.iteration, a.kind == "weight");
  const TensorBox& t = tensor_named(opened, a.paths[1], a.kind);
  const Box part = box_of_range(a.range, t.shape);
  if (a.format == "npy") {
    write_npy(*opened.tensors, t, part);
  } else {
    RowPrinter rows(t, part, json);
    scan_tensor(*opened.tensors, t, part, [&](const Box& box, const std::byte* at) { rows.take(at, box.size()); });
  }
  if (std::fflush(stdout) != 0) throw Error(Code::io, "cannot write", "standard output");
  return 0;
}

int stats(const Arguments& a, bool json) {
  const Opened opened = open_tensors(only_argument(a.paths, "CHECKPOINT"), a.iteration, a.kind == "weight");
  std::int64_t tensors = 0, nan = 0, infinite = 0;
  if (!json)
    cli::row({"tensor", "kind", "dtype", "shape", "elements", "min", "max", "mean", "std", "rms", "zeros", "nan", "inf"});
  for (const auto& t : opened.tensors->tensors()) {
    if (!a.kind.empty() && t.kind != a.kind) continue;
    ++tensors;
    const TensorStats s = stats_of(*opened.tensors, t);
    nan += s.nan;
    infinite += s.infinite;
    if (json) {
      cli::object({{"tensor", t.name}, {"kind", t.kind}, {"dtype", dtype_name(t.dtype)}, {"shape", t.shape},
                   {"elements", s.elements}, {"min", s.least}, {"max", s.most}, {"mean", s.mean}, {"std", s.deviation},
                   {"rms", s.rms}, {"zeros", s.zeros}, {"nan", s.nan}, {"inf", s.infinite}});
      continue;
    }
    std::vector<std::string> row{t.name, t.kind, std::string(dtype_name(t.dtype)), dims_text(t.shape), std::to_string(s.elements)};
    for (const double v : {s.least, s.most, s.mean, s.deviation, s.rms}) row.push_back(fmt::format("{:.9g}", v));
    for (const auto n : {s.zeros, s.nan, s.infinite}) row.push_back(std::to_string(n));
    cli::row(row);
  }
  if (tensors == 0) throw Error(Code::config, "no tensor of kind " + a.kind, opened.dir.string(), "mt-ckpt info --tensors");
  if (nan + infinite > 0) log::warn("not finite: {} elements are NaN, {} infinite", nan, infinite);
  return 0;
}

int average(const Arguments& a, bool json) {
  if (a.save.empty()) throw Error(Code::usage, "no directory to write to", "--save");
  if (a.paths.size() < 2)
    throw Error(Code::usage, fmt::format("wanted two checkpoints or more, found {}", a.paths.size()), "", "see --help");
  std::deque<Reader> readers;
  std::vector<const Reader*> sources;
  std::int64_t iteration = 0;
  for (const auto& path : a.paths) {
    readers.emplace_back(resolve_and_tell(path, std::nullopt).dir);
    sources.push_back(&readers.back());
    iteration = std::max(iteration, readers.back().manifest().meta.iteration);
    std::error_code ec;
    if (std::filesystem::equivalent(readers.back().dir(), std::filesystem::path(a.save) / iteration_name(readers.back().manifest().meta.iteration), ec))
      throw Error(Code::config, "is a source and would be replaced", path, "write to another directory");
  }
  const OneSave lock(a.save, iteration, a.force);
  LateProgress progress("averaging");
  const auto dir = average_checkpoints(sources, a.save, std::ref(progress));
  if (json) cli::object({{"path", dir.string()}, {"iteration", iteration}, {"checkpoints", sources.size()}});
  else {
    cli::row({"path", "iteration", "checkpoints"});
    cli::row({dir.string(), std::to_string(iteration), std::to_string(sources.size())});
  }
  return 0;
}

}  // namespace

cli::Command cat_command() {
  return {"cat", "print the values of a tensor",
          [](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            table.positional(a->paths, "CHECKPOINT TENSOR", "a --save directory or an iteration, and the tensor's name");
            add_checkpoint(table, *a);
            table.add("kind", a->kind, "WORD", "weight, master, exp_avg ...");
            table.add("range", a->range, "FROM:TO", "elements of each dimension, as 0:4,0:8; all when not given");
            table.add("format", a->format, "F", "text, a row along the last dimension, or npy").choices = {"text", "npy"};
            return [a, &shared] { return cat(*a, shared.json); };
          }};
}

cli::Command stats_command() {
  return {"stats", "least, most, mean, deviation, zeros and what is not finite, of every tensor",
          [](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            a->kind.clear();
            table.positional(a->paths, "CHECKPOINT", "a --save directory (its tracker decides) or an iter_0000000 in it");
            add_checkpoint(table, *a);
            table.add("kind", a->kind, "WORD", "only tensors of this kind: weight, master, exp_avg ...");
            return [a, &shared] { return stats(*a, shared.json); };
          }};
}

cli::Command average_command() {
  return {"average", "the mean of the weights of several checkpoints of one model",
          [](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            table.positional(a->paths, "CHECKPOINT", "--save directories (their trackers decide) or iterations in them");
            table.add("save", a->save, "DIRECTORY", "where to write");
            table.add("force", a->force, "", "replace that iteration if it is there");
            return [a, &shared] { return average(*a, shared.json); };
          }};
}

}  // namespace mt
