#include "ckpt/safetensors.h"

#include <fstream>
#include <random>

#include "base/files.h"
#include "ckpt/sample_checkpoint.h"

namespace mt {
namespace {

std::string file_of(const std::string& json, std::size_t data_bytes) {
  std::string s(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) s[i] = static_cast<char>((json.size() >> (8 * i)) & 0xff);
  return s + json + std::string(data_bytes, 'x');
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file.data(), file.size())), file.size(), "t.safetensors");
}

std::string message(const std::string& file) {
  return test::error_of([&] { parse(file); }, Code::corrupt);
}

TEST(Safetensors, WhatIsWrittenReadsBackInTheSameOrder) {
  std::vector<SafetensorsEntry> entries(3);
  entries[0] = {"a", "", DType::f32, {2, 3}, 0, 0};
  entries[1] = {"b \"quoted\" \xC3\xA9", "", DType::bf16, {}, 0, 0};
  entries[2] = {"empty", "", DType::u8, {0, 5}, 0, 0};
  const auto head = make_safetensors_header(entries, {{"format", "mt"}});
  EXPECT_EQ(head.size() % 4096, 0u);
  const auto h = parse(head + std::string(26, 'x'));
  ASSERT_EQ(h.tensors.size(), 3u);
  EXPECT_EQ(h.data_start, head.size());
  EXPECT_EQ(h.metadata.at("format"), "mt");
  EXPECT_EQ(h.tensors[0].name, "a");
  EXPECT_EQ(h.tensors[0].shape, (Dims{2, 3}));
  EXPECT_EQ(h.tensors[0].dtype, DType::f32);
  EXPECT_EQ(h.tensors[1].name, "b \"quoted\" \xC3\xA9");
  EXPECT_EQ(h.tensors[1].begin, 24u);
  EXPECT_EQ(h.tensors[1].end, 26u);
  EXPECT_EQ(h.tensors[2].begin, h.tensors[2].end);
}

TEST(Safetensors, EveryDtypeNameGoesBothWays) {
  for (const auto d : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::e5m2, DType::i64, DType::i32,
                       DType::i16, DType::u16, DType::i8, DType::u8})
    EXPECT_EQ(parse_safetensors_dtype(safetensors_dtype_name(d)), d);
  EXPECT_FALSE(parse_safetensors_dtype("BOOL"));
  EXPECT_FALSE(parse_safetensors_dtype("f32"));
}

TEST(Safetensors, ReadsFourBitAndUnknownToUsTypes) {
  const auto h = parse(file_of(R"({"x":{"dtype":"F4","shape":[6],"data_offsets":[0,3]},)"
                               R"("y":{"dtype":"BOOL","shape":[2],"data_offsets":[3,5]}})",
                               5));
  EXPECT_EQ(h.tensors[0].dtype_text, "F4");
  EXPECT_FALSE(h.tensors[0].dtype);
  EXPECT_CONTAINS(message(file_of(R"({"x":{"dtype":"F4","shape":[5],"data_offsets":[0,3]}})", 3)), "whole bytes");
}

TEST(Safetensors, RefusesWhatDoesNotDescribeTheFile) {
  const std::string good = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(parse(file_of(good, 8)).tensors.size(), 1u);
  EXPECT_CONTAINS(message(file_of(good, 9)), "describes 8 bytes of data, the file has 9");
  EXPECT_CONTAINS(message(file_of(good, 7)), "describes 8 bytes of data, the file has 7");
  EXPECT_CONTAINS(message("abc"), "too few");
  EXPECT_CONTAINS(message(std::string(8, '\xff')), "header length");
  EXPECT_CONTAINS(message(file_of(good, 8).substr(0, 20)), "header length");
  EXPECT_CONTAINS(message(file_of("", 0)), "does not start");
  EXPECT_CONTAINS(message(file_of(" {}", 0)), "does not start");
  EXPECT_CONTAINS(message(file_of("{]", 0)), "not JSON");
  EXPECT_CONTAINS(message(file_of(R"({"x":3})", 0)), "not an object");
  EXPECT_CONTAINS(message(file_of(R"({"__metadata__":{"a":1}})", 0)), "not a string");
}

TEST(Safetensors, RefusesEntriesThatLie) {
  const auto one = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return message(file_of("{\"x\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}", 8));
  };
  EXPECT_CONTAINS(one("\"F32\"", "[3]", "[0,8]"), "needs 12 bytes");
  EXPECT_CONTAINS(one("\"F33\"", "[2]", "[0,8]"), "unknown dtype 'F33'");
  EXPECT_CONTAINS(one("7", "[2]", "[0,8]"), "dtype is not a string");
  EXPECT_CONTAINS(one("\"F32\"", "[-2]", "[0,8]"), "unsigned");
  EXPECT_CONTAINS(one("\"F32\"", "[2.5]", "[0,8]"), "unsigned");
  EXPECT_CONTAINS(one("\"F32\"", "[2]", "[0]"), "right length");
  EXPECT_CONTAINS(one("\"F32\"", "[2]", "[8,0]"), "data_offsets 8:0");
  EXPECT_CONTAINS(one("\"F32\"", "[4294967296,4294967296]", "[0,8]"), "too large");
  EXPECT_CONTAINS(one("\"F32\"", "[4611686018427387904,4]", "[0,8]"), "too large");
  EXPECT_CONTAINS(one("\"F32\"", "[9223372036854775807]", "[0,8]"), "too large");
}

TEST(Safetensors, RefusesHolesOverlapsAndDoubleNames) {
  const auto two = [&](const char* a, const char* b, const char* second = "y") {
    return message(file_of(fmt::format(R"({{"x":{{"dtype":"U8","shape":[4],"data_offsets":[{}]}},)"
                                       R"("{}":{{"dtype":"U8","shape":[4],"data_offsets":[{}]}}}})",
                                       a, second, b),
                           8));
  };
  EXPECT_EQ(two("0,4", "4,8"), "no error");
  EXPECT_EQ(two("4,8", "0,4"), "no error");
  EXPECT_CONTAINS(two("0,4", "3,7"), "starts at byte 3");
  EXPECT_CONTAINS(two("0,4", "5,9"), "starts at byte 5");
  EXPECT_CONTAINS(two("0,4", "0,4"), "starts at byte 0");
  EXPECT_CONTAINS(two("0,4", "4,8", "x"), "key 'x' appears twice");
}

TEST(Safetensors, AnyDamagedHeaderIsRefusedOrStaysInsideTheFile) {
  std::vector<SafetensorsEntry> entries(2);
  entries[0] = {"first.weight", "", DType::f32, {4, 4}, 0, 0};
  entries[1] = {"second.weight", "", DType::bf16, {8}, 0, 0};
  const auto good = make_safetensors_header(entries, {}) + std::string(80, 'x');
  std::mt19937 rng(7);
  for (int i = 0; i < 3000; ++i) {
    auto bad = good;
    bad[rng() % 220] = static_cast<char>(rng());
    if (i % 3 == 0) bad.resize(rng() % bad.size());
    try {
      for (const auto& t : parse(bad).tensors) EXPECT_LE(t.end, bad.size());
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::corrupt);
    }
  }
}

TEST(Safetensors, AMissingFileAndADirectoryAreIoErrors) {
  const test::TemporaryDirectory dir;
  EXPECT_CONTAINS(test::error_of([&] { read_safetensors_header(dir / "none"); }, Code::io), "none");
  EXPECT_NE(test::error_of([&] { read_safetensors_header(dir.path()); }, Code::io), "no error");
}

}  // namespace
}  // namespace mt
