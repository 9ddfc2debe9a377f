// Pickles as Python writes them become plain data; what is damaged, or made to break a reader, is refused at its byte.

#include "foreign/pickle.h"

#include <fstream>
#include <sstream>

#include "foreign/golden_files.h"

namespace mt {
namespace {

using test::bytes_of_text;

std::string error_of(const std::string& pickle) {
  try {
    Pickle::parse(bytes_of_text(pickle), "x.pkl");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::corrupt) << e.what();
    return e.what();
  }
  return "no error";
}

TEST(Pickle, ValuesAreThoseThatPythonWroteInEveryProtocol) {
  std::ifstream file(test::golden("torch/pickles.tsv"));
  std::string line;
  int rows = 0;
  for (; std::getline(file, line); ++rows) {
    std::istringstream fields(line);
    std::string name, protocol, hex, json;
    std::getline(fields, name, '\t'), std::getline(fields, protocol, '\t'), std::getline(fields, hex, '\t'), std::getline(fields, json);
    SCOPED_TRACE(name + " of protocol " + protocol);
    const std::string text = test::unhex(hex);
    const Pickle p = Pickle::parse(bytes_of_text(text), name);
    EXPECT_EQ(p.size(), text.size());
    const PickleValue root = name == "namespace" ? *p.root().state() : p.root();
    EXPECT_EQ(plain_json(root), parse_json(json, name));
    // Every cut is an error, none a crash.
    for (std::size_t n = 0; n < text.size(); n += text.size() > 400 ? 97 : 1) EXPECT_THROW(Pickle::parse(bytes_of_text(text.substr(0, n)), name), Error);
  }
  EXPECT_EQ(rows, 32);
}

TEST(Pickle, NothingIsCalledAndItsNameStays) {
  const std::string evil = "\x80\x02" "cposix\nsystem\n" + std::string("X\x04\x00\x00\x00true\x85R.", 12);
  const Pickle p = Pickle::parse(bytes_of_text(evil), "x.pkl");
  EXPECT_EQ(p.root().kind(), PickleKind::object);
  EXPECT_EQ(p.root().name(), "posix.system");
  EXPECT_EQ(p.root().describe(), "an object of posix.system");
  EXPECT_EQ(plain_json(p.root()), Json("<posix.system>"));
  try {
    p.root().integer();
    FAIL();
  } catch (const Error& e) {
    EXPECT_CONTAINS(std::string(e.what()), "wanted a whole number of 64 bits, found an object of posix.system: x.pkl, byte 26");
  }
}

TEST(Pickle, WhatIsNoPickleOfTheseProtocolsIsRefusedAtItsByte) {
  EXPECT_CONTAINS(error_of(""), "no pickle");
  EXPECT_CONTAINS(error_of("(lp0\n."), "no pickle of protocol 2");
  EXPECT_CONTAINS(error_of("\x80\x01."), "protocol 1");
  EXPECT_CONTAINS(error_of("\x80\x06."), "protocol 6");
  EXPECT_CONTAINS(error_of("\x80\x02."), "ends with 0 values");
  EXPECT_CONTAINS(error_of("\x80\x02NN."), "ends with 2 values");
  EXPECT_CONTAINS(error_of("\x80\x02" "N"), "wants 1 bytes more, and 0 are left: x.pkl, byte 3");
  EXPECT_CONTAINS(error_of("\x80\x02" "h\x05."), "recalls 5");
  EXPECT_CONTAINS(error_of("\x80\x02" "a."), "empty stack");
  EXPECT_CONTAINS(error_of("\x80\x02" "Na."), "empty stack");
  EXPECT_CONTAINS(error_of("\x80\x02" "NNa."), "puts elements into what holds none");
  EXPECT_CONTAINS(error_of("\x80\x02" "NNb."), "gives a state to what has none");
  EXPECT_CONTAINS(error_of("\x80\x02" "t."), "no mark");
  EXPECT_CONTAINS(error_of("\x80\x02" "}(Nu."), "a key without a value");
  EXPECT_CONTAINS(error_of("\x80\x02" "X\xff\xff\xff\x7f" "a."), "wants 2147483647 bytes more");
  EXPECT_CONTAINS(error_of("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), "wants 18446744073709551615 bytes more");
  EXPECT_CONTAINS(error_of("\x80\x02" "ca\nb c\n."), "a name that is none");
  EXPECT_CONTAINS(error_of("\x80\x02" "c" + std::string(300, 'a') + "\nb\n."), "more than 256 letters");
  EXPECT_CONTAINS(error_of(std::string("\x80\x02") + "I5\n."), "instruction 0x49");
  EXPECT_CONTAINS(error_of(std::string("\x80\x02") + "\x82\x01."), "instruction 0x82");
}

// A list of ten of the same list, ten times over, and one that holds itself: small, and printed no larger.
TEST(Pickle, ValuesThatMultiplyWhenTheyAreWalkedStaySmall) {
  const auto number = [](int n) { return std::string(1, static_cast<char>(n)); };
  std::string text = "\x80\x02]q" + number(0) + "0";
  for (int level = 0; level < 30; ++level) {
    text += "](";
    for (int i = 0; i < 10; ++i) text += "h" + number(level);
    text += "eq" + number(level + 1) + "0";
  }
  text += "h" + number(30) + ".";
  const Pickle p = Pickle::parse(bytes_of_text(text), "bomb");
  EXPECT_LT(json_line(plain_json(p.root(), 100)).size(), 2u << 20);
  const std::string self = std::string("\x80\x02]q\x01h\x01") + "a.";
  const Pickle loop = Pickle::parse(bytes_of_text(self), "loop");
  EXPECT_EQ(json_line(plain_json(loop.root(), 2)), "[[[\"...\"]]]");
}

TEST(Pickle, TextThatIsNoUtf8BecomesJsonAllTheSame) {
  const Pickle p = Pickle::parse(bytes_of_text("\x80\x02U\x02\xff" "a."), "x");
  EXPECT_EQ(p.root().text(), "\xff" "a");
  EXPECT_EQ(plain_json(p.root()).dump(), "\"\xEF\xBF\xBD" "a\"");
}

TEST(Pickle, TextThatBecomesBytesAgainAndAgainIsRefused) {
  std::string text = "\x80\x02" "c_codecs\nencode\nq\x01" "0X";
  text += std::string("\x00\x04\x00\x00", 4) + std::string(1024, 'a') + "q\x02" "0X";
  text += std::string("\x06\x00\x00\x00", 4) + "latin1q\x03" "0";
  for (int i = 0; i < 50; ++i) text += "h\x01h\x02h\x03\x86R0";
  EXPECT_CONTAINS(error_of(text + "N."), "again and again");
}

}  // namespace
}  // namespace mt
