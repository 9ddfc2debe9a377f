#include "base/json.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/temporary_directory.h"
#include "base/files.h"

namespace mt {
namespace {

template <class Body>
std::string message_of(Body body, Code wanted = Code::corrupt) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), wanted);
    return e.what();
  }
  return "no error";
}

TEST(Json, KeepsTheOrderOfKeys) {
  EXPECT_EQ(json_line(parse_json(R"({"z": 1, "a": [1, 2.5, null]})", "x")), R"({"z":1,"a":[1,2.5,null]})");
}

TEST(Json, SaysLineAndColumnOfASyntaxError) {
  const std::string text = message_of([] { parse_json("{\n  \"a\": 1,\n  oops\n}", "m.json"); });
  EXPECT_NE(text.find("m.json:3:3"), std::string::npos) << text;
  EXPECT_EQ(text.find("json.exception"), std::string::npos) << text;
}

TEST(Json, RefusesTextThatEndsEarly) {
  EXPECT_NE(message_of([] { parse_json("{\"a\": [1, 2", "m.json"); }), "no error");
  EXPECT_NE(message_of([] { parse_json("", "m.json"); }), "no error");
}

TEST(Json, ReadsAFileAndNamesIt) {
  const test::TemporaryDirectory dir;
  write_file_atomic(dir / "a.json", "[1,");
  EXPECT_NE(message_of([&] { read_json(dir / "a.json"); }).find("a.json:1:"), std::string::npos);
  EXPECT_NE(message_of([&] { read_json(dir / "none.json"); }, Code::io).find("none.json"), std::string::npos);
}

TEST(Json, WritesNonFiniteAsNullAndRepairsUtf8) {
  EXPECT_EQ(json_line(Json{{"a", std::nan("")}, {"b", HUGE_VAL}}), R"({"a":null,"b":null})");
  EXPECT_EQ(json_line(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

TEST(Json, TheReasonIsInPlainWordsForEveryKindOfRefusal) {
  for (const char* text : {"{\"a\": 1e999}", "{", "[1,", "\"\xff\""}) {
    const auto said = message_of([&] { parse_json(text, "m"); });
    EXPECT_NE(said.find("not JSON: "), std::string::npos) << said;
    EXPECT_EQ(said.find("json.exception"), std::string::npos) << said;
    EXPECT_EQ(said.find("parse error at"), std::string::npos) << said;
  }
}

TEST(JsonField, GivesValuesOfTheRightType) {
  const Json j = parse_json(R"({"n": 3, "x": 2, "s": "t", "v": [1, 2], "b": true, "big": 18446744073709551615})", "m");
  EXPECT_EQ(json_field<int>(j, "n", "m"), 3);
  EXPECT_EQ(json_field<double>(j, "x", "m"), 2.0);
  EXPECT_EQ(json_field<std::string>(j, "s", "m"), "t");
  EXPECT_EQ(json_field<std::vector<std::int64_t>>(j, "v", "m"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(json_field<bool>(j, "b", "m"));
  EXPECT_EQ(json_field<std::uint64_t>(j, "big", "m"), 18446744073709551615ull);
}

TEST(JsonField, NamesFieldWantedAndFound) {
  const Json j = parse_json(R"({"x": "s", "n": -1, "f": 1.5, "big": 3000000000, "v": [1, "a"]})", "m");
  EXPECT_EQ(message_of([&] { json_field<double>(j, "x", "m"); }), "field 'x': wanted a number, found string: m");
  EXPECT_EQ(message_of([&] { json_field<int>(j, "gone", "m"); }), "field 'gone' is missing: m");
  EXPECT_EQ(message_of([&] { json_field<std::uint64_t>(j, "n", "m"); }),
            "field 'n': wanted an integer of 0 or more, found -1: m");
  EXPECT_EQ(message_of([&] { json_field<int>(j, "f", "m"); }), "field 'f': wanted an integer, found 1.5: m");
  EXPECT_EQ(message_of([&] { json_field<int>(j, "big", "m"); }), "field 'big': wanted an integer, found 3000000000: m");
  EXPECT_EQ(message_of([&] { json_field<std::vector<std::int64_t>>(j, "v", "m"); }),
            "field 'v': wanted an array, found array: m");
  EXPECT_EQ(message_of([&] { json_field<int>(Json(3), "a", "m"); }), "wanted an object, found number: m");
}

}  // namespace
}  // namespace mt
