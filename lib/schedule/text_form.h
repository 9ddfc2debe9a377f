#pragma once
// A schedule as tab-separated text, to be written by hand or by another program and read back: mt-schedule(5).
//
// Code: schedule/text_form.cc. Tests: tests/schedule/text_form_test.cc.

#include <string>
#include <string_view>

#include "schedule/schedule.h"

namespace mt {

// gives  text that read_schedule turns into an equal schedule
std::string write_schedule(const Schedule& schedule);

// True where a --schedule value names a file: it has a slash, or no generator is called so and a file is.
bool names_schedule_file(const std::string& value);

// `where` names the source in messages.
//   gives  numbers in range (those that faults_of calls structure), but not a sound schedule: ask faults_of
//   fails  Error{corrupt} with the line and what would be right there
Schedule read_schedule(std::string_view text, const std::string& where);

}  // namespace mt
