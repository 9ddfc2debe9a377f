#pragma once
// A flag whose value is one of a few names. Code: train/flag_choice.cc. Tests: tests/train/.

#include <initializer_list>
#include <string>

namespace mt {

//   fails  Error{usage} naming the flag, the value and the names
void require_choice(const char* flag, const std::string& value, std::initializer_list<const char*> names);

}  // namespace mt
