#include "ckpt/diff.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "mt-ckpt/commands.h"
#include "mt-ckpt/opened.h"

namespace mt {
namespace {

struct Arguments {
  std::vector<std::string> paths;
  std::string kind;
  bool all = false;
};

// Elements have been compared: shapes are the same.
bool compared(const TensorDifference& d) {
  using Kind = TensorDifference::Kind;
  return d.kind_of == Kind::same || d.kind_of == Kind::values || d.kind_of == Kind::dtype;
}

Json difference_json(const TensorDifference& d) {
  return {{"tensor", d.name},        {"kind", d.kind},         {"difference", difference_name(d.kind_of)},
          {"elements", d.num_elements}, {"differ", compared(d) ? Json(d.num_differ) : Json()},
          {"largest", compared(d) ? Json(d.largest) : Json()},
          {"first_at", d.at},        {"text", d.text}};
}

void print(const TensorDifference& d, bool json) {
  if (json) return cli::object(difference_json(d));
  cli::row({d.name, d.kind, difference_name(d.kind_of), compared(d) ? std::to_string(d.num_differ) : "-",
            std::to_string(d.num_elements), compared(d) ? fmt::format("{:.9g}", d.largest) : "-", d.at.empty() ? "-" : dims_text(d.at)});
}

int diff(const Arguments& a, bool json) {
  if (a.paths.size() != 2)
    throw Error(Code::usage, fmt::format("wanted two checkpoints, found {}", a.paths.size()), "", "see --help");
  const Opened first = open_tensors(a.paths[0], std::nullopt, a.kind == "weight"), second = open_tensors(a.paths[1], std::nullopt, a.kind == "weight");
  std::int64_t tensors = 0, differ = 0, dtypes = 0, alone = 0, elements = 0, elements_differ = 0;
  double largest = 0;
  std::string first_name, largest_name;
  if (!json) cli::row({"tensor", "kind", "difference", "differ", "elements", "largest", "first_at"});
  // Hashes are compared too: a damaged file is told as damage, not as a difference.
  diff_tensors(*first.tensors, *second.tensors, a.kind.empty() ? DiffOptions{} : DiffOptions{{a.kind}}, [&](const TensorDifference& d) {
    ++tensors;
    elements += d.num_elements;
    if (compared(d)) elements_differ += d.num_differ;
    if (d.kind_of != TensorDifference::Kind::same) {
      ++differ;
      dtypes += d.kind_of == TensorDifference::Kind::dtype && d.num_differ == 0 ? 1 : 0;
      alone += d.kind != "weight" && (d.kind_of == TensorDifference::Kind::only_in_a || d.kind_of == TensorDifference::Kind::only_in_b) ? 1 : 0;
      if (first_name.empty()) first_name = d.name;
      if (compared(d) && (d.largest > largest || largest_name.empty())) largest_name = d.name, largest = std::max(largest, d.largest);
    }
    if (a.all || differ == 1) {
      if (a.all || d.kind_of != TensorDifference::Kind::same) print(d, json);
    }
    return true;
  });
  if (tensors == 0)
    throw Error(Code::config, "no tensor of that kind in either checkpoint", first.dir.string(),
                "mt-ckpt info --tensors lists kinds");
  const bool known = differ == 0 || !largest_name.empty();
  if (json)
    cli::object({{"equal", differ == 0}, {"tensors", tensors}, {"tensors_differ", differ},
                 {"largest", known ? Json(largest) : Json()},
                 {"first", first_name}, {"largest_in", largest_name}});
  else
    // The fields of the header, over all tensors.
    cli::row({"all", a.kind.empty() ? "-" : a.kind, differ == 0 ? "equal" : "differs", known ? std::to_string(elements_differ) : "-",
              std::to_string(elements), known ? fmt::format("{:.9g}", largest) : "-", "-"});
  if (differ > 0)
    log::info("{} of {} tensors differ, first {}, largest difference in {}", differ, tensors, first_name,
              known ? largest_name : "-");
  if (dtypes > 0) log::info("{} of them in dtype alone: all their values are equal", dtypes);
  if (alone > 0 && alone == differ) log::info("all of them are state that one side does not have: --kind weight compares weights alone");
  return differ == 0 ? 0 : static_cast<int>(Code::difference);
}

}  // namespace

cli::Command diff_command() {
  return {"diff", "compare two checkpoints tensor by tensor, bit by bit, whatever their layouts and formats",
          [](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            table.positional(a->paths, "A B", "two checkpoints: --save directories or iter_0000000 in them, or what convert reads");
            table.add("kind", a->kind, "WORD", "compare only this kind: weight, master, exp_avg ...");
            table.add("all", a->all, "", "a row for every tensor, not only for the first that differs");
            return [a, &shared] { return diff(*a, shared.json); };
          }};
}

}  // namespace mt
