#pragma once
// The version: the project's number and what git says of the tree it was built from.
//
// Code: base/version.cc.in, filled at build. Tests: tests/base/cli_test.cc.

namespace mt {

extern const char* const kVersion;          // "0.1.0"
extern const char* const kVersionDescribe;  // "v0.1.0-3-gabc1234-dirty"; empty outside a git checkout

}  // namespace mt
