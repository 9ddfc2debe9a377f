#pragma once
// Text that is nearly right made right: U+FFFD, the replacement character, in place of what no character is.
//
// Code: data/mend_text.cc. Tests: tests/data/mend_text_test.cc.

#include <cstdint>
#include <string>
#include <string_view>

namespace mt::data {

// Append `text` with a U+FFFD in place of each longest run of bytes that begins a character and does not complete it,
// and of each byte that begins none: Unicode's practice, Python's errors="replace".
//   gives  how many there were
std::int64_t replace_invalid_utf8(std::string_view text, std::string& out);

// Append a JSON record mended: as replace_invalid_utf8, U+FFFD also in place of each \uD800 to \uDFFF that is not half
// of a pair, and without byte order marks in front. Other faults of JSON stay.
//   gives  how many characters were replaced or dropped; 0: `out` ends with the record as it is
std::int64_t mend_json(std::string_view record, std::string& out);

// Append a JSON record with 0 in place of each number that Python's json reads and a reader of fixed width does not: NaN,
// Infinity, -Infinity, whole numbers of more than 18 digits, and those that no double holds. They may stand in fields that
// nobody asks for, and Megatron takes such records. What is no number in Python either stays.
//   gives  how many there were
std::int64_t take_python_numbers(std::string_view record, std::string& out);

}  // namespace mt::data
