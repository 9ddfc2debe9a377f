#pragma once
// Reading and writing keys of a Hugging Face config.json, and what LLaMA's config shares with those of its kin.
//
// null counts as absent. A key is written only where it says something else now, so that what passes through keeps its spelling.
// Code: foreign/hf_config.cc. Tests: tests/foreign/hf_convert_test.cc.

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "layout/model_spec.h"

namespace mt::hf {

bool has(const Json& c, const char* key);

// A key's value, or what counts where there is none.   fails  Error{corrupt}: of another type
template <class T>
T get(const Json& c, const char* key, const T& otherwise) {
  return has(c, key) ? json_field<T>(c, key, "") : otherwise;
}

// Sizes and factors.   fails  Error{config}: not in 1 to 2^28, not above zero; Error{corrupt}: missing, of another type
int whole_number(const Json& c, const char* key);
int whole_number(const Json& c, const char* key, int otherwise);
double above_zero(const Json& c, const char* key, double otherwise);
std::int64_t vocab_size(const Json& c);

// A key that changes what is computed, at the only value that is represented.   fails  Error{config} naming it
template <class T>
void only(const Json& c, const char* key, const T& value, const T& otherwise) {
  if (const T found = get<T>(c, key, otherwise); found != value)
    throw Error(Code::config, fmt::format("{} {} is not represented, only {}", key, json_line(Json(found)), json_line(Json(value))));
}

template <class T>
void put(Json& c, const char* key, const T& value) {
  if (Json now = value; !c.contains(key) || c[key] != now) c[key] = std::move(now);
}
// The same, of a key that may be absent at `usual`.
template <class T>
void put_unless(Json& c, const char* key, const T& value, const T& usual) {
  if (has(c, key) || value != usual) put(c, key, value);
}

[[noreturn]] void not_of(const char* family, const std::string& why);

// The first row of a kind.   fails  not_of
const Row& first_of(const ModelSpec& m, RowKind kind, const char* family);

// Rotary positions by rope_theta and rope_scaling, or rope_parameters.   fails  Error{config}: another scaling than llama3
void read_rotary(const Json& c, ModelOptions& o, double base);
void write_rotary(const RotarySpec& r, Json& c);

// RMSNorm, gated SiLU, no biases but those asked for, rotary positions over whole heads.   base  rope_theta where there is none
ModelOptions llama_like(const Json& c, double base);
// network  the kind of row that intermediate_size is of
void write_llama_like(const ModelSpec& m, Json& c, const char* family, RowKind network);

// That sliding windows pass through.
void note_window(const Json& c, std::vector<std::string>& notices);

}  // namespace mt::hf
