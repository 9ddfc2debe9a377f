#include "foreign/megatron_buffers.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string_view>
#include <tuple>

namespace mt {

namespace {

constexpr std::int64_t kParamMultiple = 64;
constexpr std::string_view kLayers = "decoder.layers.";

// `full`: whether a bucket ends with so many elements.
FlatLayout lay_out(std::span<const FlatParam> params, const std::function<bool(std::size_t bucket, std::int64_t elements)>& full) {
  FlatLayout out;
  out.places.resize(params.size());
  std::int64_t at = 0, filled = 0;
  bool empty = true;
  const auto end_bucket = [&](std::int64_t elements) {
    out.buckets.push_back(elements);
    at = filled = 0;
    empty = true;
  };
  for (std::size_t i = params.size(); i-- > 0;) {
    at = (filled + kParamMultiple - 1) / kParamMultiple * kParamMultiple;
    if (params[i].alone && !empty) end_bucket(at);
    out.places[i] = {out.buckets.size(), at};
    filled = at + num_elements(params[i].shape);
    empty = false;
    if (params[i].alone || full(out.buckets.size(), filled)) end_bucket(filled);
  }
  if (!empty) end_bucket(filled);
  return out;
}

// Places of a layer's parts in the order they are made; of Transformer Engine norms go with what they stand before.
int place_in_layer(std::string_view inside, bool transformer_engine) {
  static constexpr std::array<std::string_view, 9> kLocal = {"input_layernorm.", "self_attention.linear_proj.", "self_attention.linear_qkv.", "self_attention.q_layernorm.",
                                                             "self_attention.k_layernorm.", "pre_mlp_layernorm.", "mlp.router.", "mlp.linear_fc1.", "mlp.linear_fc2."};
  static constexpr std::array<std::string_view, 9> kFused = {"self_attention.linear_proj.", "input_layernorm.", "self_attention.linear_qkv.", "self_attention.q_layernorm.",
                                                             "self_attention.k_layernorm.", "pre_mlp_layernorm.", "mlp.router.", "mlp.linear_fc1.", "mlp.linear_fc2."};
  const auto& all = transformer_engine ? kFused : kLocal;
  const auto found = std::find_if(all.begin(), all.end(), [&](std::string_view s) { return inside.starts_with(s); });
  return static_cast<int>(found - all.begin());
}

std::tuple<int, int, int, bool> place_of(const std::string& name, bool transformer_engine) {
  const bool bias = name.ends_with(".bias");
  if (name.starts_with("embedding.word")) return {0, 0, 0, bias};
  if (name.starts_with("embedding.")) return {1, 0, 0, bias};
  if (!name.starts_with(kLayers)) return {name.starts_with("decoder.") ? 3 : 4, 0, 0, bias};
  const auto inside = name.find('.', kLayers.size());
  return {2, std::atoi(name.c_str() + kLayers.size()), place_in_layer(std::string_view(name).substr(inside + 1), transformer_engine), bias};
}

}  // namespace

std::int64_t FlatLayout::size() const { return std::accumulate(buckets.begin(), buckets.end(), std::int64_t{0}); }

std::int64_t FlatLayout::begin_of(std::size_t param) const {
  const auto& p = places[param];
  return std::accumulate(buckets.begin(), buckets.begin() + static_cast<std::ptrdiff_t>(p.bucket), p.begin);
}

FlatLayout flat_layout(std::span<const FlatParam> params, std::optional<std::int64_t> bucket_size) {
  return lay_out(params, [&](std::size_t, std::int64_t n) { return bucket_size && n >= *bucket_size; });
}

std::optional<FlatLayout> flat_layout_of(std::span<const FlatParam> params, std::span<const std::int64_t> buckets) {
  auto out = lay_out(params, [&](std::size_t b, std::int64_t n) { return b < buckets.size() && n == buckets[b]; });
  return std::equal(out.buckets.begin(), out.buckets.end(), buckets.begin(), buckets.end()) ? std::optional(std::move(out)) : std::nullopt;
}

bool made_before(const std::string& a, const std::string& b, bool transformer_engine) {
  return place_of(a, transformer_engine) < place_of(b, transformer_engine);
}

}  // namespace mt
