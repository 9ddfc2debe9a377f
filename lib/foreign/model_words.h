#pragma once
// Where two models differ, in words for people: a layer by its number instead of a path into a specification.
//
// Code: foreign/model_words.cc. Tests: tests/foreign/megatron_map_test.cc.

#include <string>

#include "layout/model_spec.h"

namespace mt {

// What model_difference(a, `model`) gave: "layer 0's qk_norm" of "towers[0].rows[0].qk_norm: only in one". What it does not know stays.
std::string difference_in_words(const std::string& difference, const ModelSpec& model);

}  // namespace mt
