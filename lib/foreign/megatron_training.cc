#include "foreign/megatron_training.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "ckpt/tensor_scan.h"
#include "foreign/source_tensors.h"

namespace mt {

namespace {

constexpr int kMaxDepth = 6;

// The number that the training state has for a word (optim/lr_schedule.h).
int number_of(std::span<const char* const> words, const std::string& word, const std::string& what, const std::string& where) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) throw Error(Code::config, fmt::format("{} {} is not represented", what, word), where, kWithoutState);
  return static_cast<int>(found - words.begin());
}

std::int64_t whole_of(double v, const char* what, const std::string& where) {
  if (!(v >= 0 && v < 0x1p53)) throw Error(Code::config, fmt::format("{} is {}", what, v), where, kWithoutState);
  return static_cast<std::int64_t>(std::llround(v));
}

template <class T>
T arg_or(const Json& args, const char* key, T otherwise) {
  return args.contains(key) && args[key].is_number() ? args[key].get<T>() : otherwise;
}

std::optional<double> step_in(const TorchFile& file, const PickleValue& v, int depth) {
  if (depth == 0) return std::nullopt;
  for (const char* key : {"common_step", "step"})
    if (const auto s = v.find(key); s && !s->is_none()) return scalar_of(file, *s);
  for (const char* key : {"param_groups", "optimizer", "state"})
    if (const auto inner = v.find(key))
      if (const auto s = step_in(file, *inner, depth - 1)) return s;
  for (std::size_t i = 0; i < v.size(); ++i)
    if (const auto s = step_in(file, v[i], depth - 1)) return s;
  for (std::size_t i = 0; i < v.num_entries(); ++i)
    if (v.key(i).is(PickleKind::integer) && v.entry(i).is(PickleKind::dict))
      if (const auto s = step_in(file, v.entry(i), depth - 1)) return s;
  return std::nullopt;
}

}  // namespace

double scalar_of(const TorchFile& file, const PickleValue& value) {
  if (value.is(PickleKind::integer) || value.is(PickleKind::real)) return value.number();
  const auto t = file.tensor(value);
  if (!t || num_elements(t->shape) != 1 || !t->dtype) value.fail("wanted a number, found " + value.describe());
  std::byte bytes[8] = {};
  file.read(*t, whole(t->shape), bytes);
  return element_value(*t->dtype, bytes);
}

std::optional<double> optimizer_step(const TorchFile& file, const PickleValue& optimizer) { return step_in(file, optimizer, kMaxDepth); }

Json megatron_loss_scaler(const TorchFile& file, const PickleValue& optimizer) {
  std::optional<PickleValue> s = optimizer.find("grad_scaler");
  for (std::size_t i = 0; !s && i < optimizer.size(); ++i) s = optimizer[i].find("grad_scaler");
  for (std::size_t i = 0; !s && i < optimizer.num_entries(); ++i)
    if (optimizer.entry(i).is(PickleKind::dict)) s = optimizer.entry(i).find("grad_scaler");
  if (!s || !s->find("scale") || !s->find("growth_tracker")) return nullptr;
  const auto hysteresis = s->find("hysteresis_tracker");
  return {{"scale", scalar_of(file, *s->find("scale"))},
          {"growth_tracker", whole_of(scalar_of(file, *s->find("growth_tracker")), "growth_tracker", file.where())},
          {"hysteresis_tracker", whole_of(hysteresis ? scalar_of(file, *hysteresis) : 1, "hysteresis_tracker", file.where())}};
}

Json megatron_training(const TorchFile& file, const PickleValue& root, const Json& args, double step, std::int64_t iteration) {
  static constexpr const char* kStyles[] = {"constant", "linear", "cosine", "inverse-square-root", "WSD"};
  static constexpr const char* kWsdStyles[] = {"exponential", "linear", "cosine", "minus_sqrt"};
  const auto& where = file.where();
  const auto s = root.find("opt_param_scheduler");
  if (!s || !s->is(PickleKind::dict)) throw Error(Code::config, "the optimizer's state is there and no opt_param_scheduler", where, kWithoutState);
  const auto need = [&](const char* key) {
    const auto v = s->find(key);
    if (!v) throw Error(Code::config, fmt::format("opt_param_scheduler does not say {}", key), where, kWithoutState);
    return *v;
  };
  const auto samples = [&](const char* key) { return whole_of(scalar_of(file, need(key)), key, where); };
  const std::int64_t batch = std::max<std::int64_t>(1, arg_or<std::int64_t>(args, "global_batch_size", 1));
  const std::string wsd = args.contains("lr_wsd_decay_style") && args["lr_wsd_decay_style"].is_string() ? args["lr_wsd_decay_style"].get<std::string>() : "exponential";
  const Json schedule = {
      {"max_lr", scalar_of(file, need("max_lr"))},
      {"min_lr", scalar_of(file, need("min_lr"))},
      {"warmup_init", arg_or<double>(args, "lr_warmup_init", 0)},
      {"warmup_samples", samples("lr_warmup_steps")},
      {"decay_samples", samples("lr_decay_steps")},
      {"wsd_decay_samples", arg_or<std::int64_t>(args, "lr_wsd_decay_samples", arg_or<std::int64_t>(args, "lr_wsd_decay_iters", 0) * batch)},
      {"style", number_of(kStyles, need("lr_decay_style").text(), "lr_decay_style", where)},
      {"wsd_style", number_of(kWsdStyles, wsd, "lr_wsd_decay_style", where)},
      {"start_weight_decay", scalar_of(file, need("start_wd"))},
      {"end_weight_decay", scalar_of(file, need("end_wd"))},
      {"weight_decay_samples", samples("wd_incr_steps")},
      {"weight_decay_style", number_of(std::span(kStyles).first(3), need("wd_incr_style").text(), "wd_incr_style", where)}};
  const auto steps = whole_of(step, "the optimizer's step", where);
  return {{"seed", std::max<std::int64_t>(0, arg_or<std::int64_t>(args, "seed", 1234))},
          {"optimizer_steps", steps},
          {"schedule_samples", samples("num_steps")},
          {"consumed_valid_samples", std::max<std::int64_t>(0, arg_or<std::int64_t>(args, "consumed_valid_samples", 0))},
          {"skipped_steps", std::max<std::int64_t>(0, iteration - steps)},
          {"skipped_samples", std::max<std::int64_t>(0, arg_or<std::int64_t>(args, "skipped_train_samples", 0))},
          {"lr_schedule", schedule},
          {"seq_length", arg_or<std::int64_t>(args, "seq_length", 0)},
          {"global_batch_size", batch}};
}

}  // namespace mt
