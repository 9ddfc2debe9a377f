#pragma once
// From what a person names to files to read: a directory is the texts in it, a pattern is the files it matches.
//
// Code: data/input_list.cc. Tests: tests/data/input_list_test.cc.

#include <string>
#include <vector>

#include "data/text_source.h"

namespace mt::data {

// Files in the order they are read.
//   "-", a file    itself; a file that is there wins over a pattern it looks like
//   a directory    every file in it and below with an ending of `format` (by_name: of any format), packed or not, in
//                  byte order of their paths. Left out: hidden names, links to directories, other endings, the .json
//                  of a token file; how many and which is said in one message
//   a pattern      * ? [abc] as in a shell, hidden names only where the pattern says the dot: matching files of any
//                  ending in byte order of their paths; directories that match are left out
//   fails  Error{io}: a directory without texts, a pattern that matches no file, a directory that cannot be read. A
//          name that is nothing of all this is given back as it is, for TextSource to refuse
//   cost   one stat an entry
std::vector<std::string> expand_inputs(const std::vector<std::string>& given, InputFormat format);

}  // namespace mt::data
