#pragma once
// What an input is: text by its ending, and by its first bytes what only looks like text, with the way to make text of it.
//
// Code: data/input_kind.cc. Tests: tests/data/input_list_test.cc, tests/data/input_reader_test.cc.

#include <optional>
#include <string>
#include <string_view>

#include "data/input_reader.h"
#include "data/text_source.h"

namespace mt::data {

// The format of an ending (.jsonl .json .ndjson, .txt .text), each also with .gz .zst .xz .bz2 behind it; nothing: another.
std::optional<InputFormat> format_by_ending(std::string_view name);
// True for a name that ends as packed files do.
bool named_as_packed(std::string_view name);
// ".jsonl, .json, .ndjson, .txt or .text", or those of one format.
std::string endings_text(InputFormat format);

// The command that makes JSON lines of a file with a known foreign ending (.parquet, .arrow, .zip, .tar); "": unknown.
std::string recipe_by_ending(const std::string& name);

// How many bytes refuse_foreign wants to see, if there are as many.
constexpr std::size_t kHeadBytes = 512;

// Look at the first bytes of a file as they are read (unpacked).
//   packing  how they were packed
//   fails    Error{data}: Parquet, Arrow, zip or tar, UTF-16, packed twice, a JSON array of objects where JSON lines are
//            wanted, each with the command that makes it readable; Error{corrupt}: less than a packed file in a file named
//            as one
void refuse_foreign(std::string_view head, const std::string& name, InputFormat format, Packing packing);

}  // namespace mt::data
