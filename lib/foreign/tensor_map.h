#pragma once
// Where the elements of another program's tensors are among ours, as a table of boxes, and the copying it asks for.
//
// One table serves both ways. A foreign tensor is made of parts, each a box of one of our logical tensors
// (layout/param_spec.h), as it lies or transposed: q, k and v one after the other, interleaved by head, the columns of a
// [in, out] matrix, one expert of a stack.
// Code: foreign/tensor_map.cc. Tests: tests/foreign/tensor_map_test.cc.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "layout/box.h"

namespace mt {

// The same elements in both. Extents are equal, the last two swapped when transposed; leading dimensions of extent 1 may
// stand on one side alone (an expert of a stack).
struct MappedPart {
  std::string ours;
  Box our_box, their_box;
  bool transposed = false;
};

//   padding  boxes of theirs that stand for nothing: passed over when read, zeros when written
struct MappedTensor {
  std::string name;
  Dims shape;
  std::vector<MappedPart> parts;
  std::vector<Box> padding = {};
};

// What is named, and its shape.
struct NamedShape {
  std::string name;
  Dims shape;
};

// Every element of every foreign tensor and of every one of ours is in exactly one part, or in padding.
//   gives  what is not so, a sentence each, naming the tensor; empty when all is
std::vector<std::string> mapping_problems(std::span<const MappedTensor> map, std::span<const NamedShape> ours);

// A part seen from the tensor that is being written.
struct SourcePart {
  Box target;          // of the tensor written
  std::string source;  // tensor read; empty: zeros
  Box box;             // of it
  bool transposed = false;
};
std::vector<SourcePart> sources_of(const MappedTensor& theirs);
// Of each of `ours`, by its place there.
std::vector<std::vector<SourcePart>> sources_of(std::span<const MappedTensor> map, std::span<const NamedShape> ours);

// Elements of a box, row-major, into `out`.
using ReadBox = std::function<void(const std::string& name, const Box& box, std::byte* out)>;

// Make elements [begin, end), flat, of a tensor from its parts.
//   needs  parts that cover the tensor; both sides of one element size
//   cost   reads each touched part of a source once; scratch of as many bytes as are made
void fill_range(const Dims& shape, std::int64_t begin, std::int64_t end, std::span<const SourcePart> parts,
                std::size_t element_bytes, const ReadBox& read, std::byte* out);

// The same of a box of it, row-major.
void fill_box(const Box& box, std::span<const SourcePart> parts, std::size_t element_bytes, const ReadBox& read, std::byte* out);

// `text` with the number of a layer in place of {L}, if that is in it.
std::string of_layer(std::string text, int layer);

}  // namespace mt
