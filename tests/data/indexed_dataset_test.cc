// Byte layout of .bin and .idx, and what the reader refuses.

#include "data/indexed_dataset.h"

#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/merge_files.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

using Ids = std::vector<std::int32_t>;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The index written out by hand from the format's description.
std::string index_bytes(std::uint8_t code, const std::vector<std::int32_t>& lengths, std::int64_t width,
                        const std::vector<std::int64_t>& documents) {
  std::string out("MMIDIDX\0\0", 9);
  put(out, std::uint64_t{1});
  put(out, code);
  put(out, static_cast<std::uint64_t>(lengths.size()));
  put(out, static_cast<std::uint64_t>(documents.size()));
  for (const std::int32_t n : lengths) put(out, n);
  std::int64_t pointer = 0;
  for (const std::int32_t n : lengths) {
    put(out, pointer);
    pointer += n * width;
  }
  for (const std::int64_t d : documents) put(out, d);
  return out;
}

std::string write_sets(const ScratchDirectory& dir, const std::string& name,
                       const std::vector<std::vector<Ids>>& documents, TokenType type,
                       const std::optional<TokenFileOrigin>& origin = std::nullopt) {
  IndexedWriter writer(dir / name, type, false);
  for (const auto& document : documents) {
    for (const Ids& ids : document) writer.add_sequence(ids);
    writer.end_document();
  }
  writer.commit(origin);
  return dir / name;
}

std::vector<std::int64_t> boundaries(const IndexedDataset& file) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 0; d <= file.num_documents(); ++d) all.push_back(file.document_begin(d));
  return all;
}

TEST(IndexedWriter, writes_the_format_byte_for_byte) {
  const ScratchDirectory dir;
  const auto prefix = write_sets(dir, "a", {{}, {{1, 2}, {65535}}, {}, {{7, 8, 9}}}, TokenType::u16);
  EXPECT_EQ(read_file(prefix + ".idx"), index_bytes(8, {2, 1, 3}, 2, {0, 0, 2, 2, 3}));
  EXPECT_EQ(read_file(prefix + ".bin"), std::string("\1\0\2\0\xff\xff\7\0\x8\0\x9\0", 12));
  const auto wide = write_sets(dir, "b", {{{70000}}}, TokenType::i32);
  EXPECT_EQ(read_file(wide + ".idx"), index_bytes(4, {1}, 4, {0, 1}));
  EXPECT_EQ(read_file(wide + ".bin"), std::string("\x70\x11\1\0", 4));
  EXPECT_EQ(dir.names(), (std::vector<std::string>{"a.bin", "a.idx", "b.bin", "b.idx"}));
}

TEST(IndexedWriter, width_follows_the_vocabulary) {
  EXPECT_EQ(token_type_for(65499), TokenType::u16);
  EXPECT_EQ(token_type_for(65500), TokenType::i32);
  EXPECT_EQ(token_type_for(128256), TokenType::i32);
}

TEST(IndexedWriter, leaves_nothing_without_commit_and_refuses_what_exists) {
  const ScratchDirectory dir;
  {
    IndexedWriter writer(dir / "a", TokenType::u16, false);
    writer.add_sequence(Ids{1});
    EXPECT_THROW(writer.add_sequence(Ids{65536}), Error);
    EXPECT_THROW(writer.add_sequence(Ids{}), Error);
  }
  EXPECT_TRUE(dir.names().empty());
  write_sets(dir, "a", {{{1}}}, TokenType::u16);
  EXPECT_THROW(IndexedWriter(dir / "a", TokenType::u16, false), Error);
  IndexedWriter writer(dir / "a", TokenType::u16, true);
  writer.add_sequence(Ids{5, 6});
  writer.end_document();
  EXPECT_EQ(IndexedDataset(dir / "a").num_tokens(), 1);
  writer.commit(std::nullopt);
  EXPECT_EQ(IndexedDataset(dir / "a").num_tokens(), 2);
  EXPECT_THROW(IndexedWriter(dir / "no/a", TokenType::u16, false), Error);
}

TEST(IndexedDataset, reads_back_what_was_written_with_its_origin) {
  const ScratchDirectory dir;
  TokenFileOrigin origin{"ByteTokenizer", "0123456789abcdef", 257, 256, true};
  const IndexedDataset file(write_sets(dir, "a", {{{1, 2, 3}}, {}, {{4}, {5, 6}}}, TokenType::u16, origin));
  EXPECT_EQ(file.num_documents(), 3);
  EXPECT_EQ(file.num_sequences(), 3);
  EXPECT_EQ(file.num_tokens(), 6);
  EXPECT_EQ(boundaries(file), (std::vector<std::int64_t>{0, 1, 1, 3}));
  Ids ids(2);
  file.read(0, 1, ids);
  EXPECT_EQ(ids, (Ids{2, 3}));
  ASSERT_TRUE(file.origin());
  EXPECT_EQ(file.origin()->fingerprint, origin.fingerprint);
  EXPECT_EQ(file.origin()->eod, 256);
  EXPECT_TRUE(file.origin()->eod_appended);
}

TEST(IndexedDataset, reads_every_integer_width_and_ignores_modes) {
  const ScratchDirectory dir;
  const struct {
    std::uint8_t code;
    std::int64_t width;
    std::string bin;
  } rows[] = {{1, 1, "\7\x8"},
              {2, 1, "\7\x8"},
              {3, 2, std::string("\7\0\x8\0", 4)},
              {8, 2, std::string("\7\0\x8\0", 4)},
              {4, 4, std::string("\7\0\0\0\x8\0\0\0", 8)},
              {5, 8, std::string("\7\0\0\0\0\0\0\0\x8\0\0\0\0\0\0\0", 16)}};
  for (const auto& row : rows) {
    dir.file("a.bin", row.bin);
    dir.file("a.idx", index_bytes(row.code, {2}, row.width, {0, 1}) + std::string(1, '\0'));
    Ids ids(2);
    IndexedDataset(dir / "a").read(0, 0, ids);
    EXPECT_EQ(ids, (Ids{7, 8})) << int{row.code};
  }
}

std::string refusal(const ScratchDirectory& dir) {
  try {
    IndexedDataset file(dir / "a");
    return "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::corrupt);
    return e.message();
  }
}

TEST(IndexedDataset, refuses_damage_with_the_value_it_found) {
  const ScratchDirectory dir;
  const std::string good = index_bytes(8, {2, 1}, 2, {0, 1, 2}), bin(6, '\1');
  dir.file("a.bin", bin);
  const auto with = [&](std::size_t at, char byte) {
    std::string bad = good;
    bad[at] = byte;
    dir.file("a.idx", bad);
    return refusal(dir);
  };
  dir.file("a.idx", good);
  EXPECT_EQ(refusal(dir), "accepted");
  EXPECT_NE(with(0, 'X').find("MMIDIDX"), std::string::npos);
  EXPECT_NE(with(9, 2).find("version 2"), std::string::npos);
  EXPECT_NE(with(17, 7).find("type code 7"), std::string::npos);
  EXPECT_NE(with(18, 3).find("3 sequences"), std::string::npos);
  // Counts near 2^64 are told as they stand, without a sum that wrapped.
  EXPECT_NE(with(25, '\x80').find("9223372036854775810 sequences"), std::string::npos);
  EXPECT_EQ(with(25, '\x80').find("wanted"), std::string::npos);
  EXPECT_NE(with(26, 0).find("0 document boundaries"), std::string::npos);
  EXPECT_NE(with(34, 9).find("sequence 0 is 9 tokens"), std::string::npos);
  EXPECT_NE(with(58, 1).find("boundary 0 is 1"), std::string::npos);
  EXPECT_NE(with(66, 3).find("boundary 1 is 3"), std::string::npos);
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    dir.file("a.idx", good.substr(0, cut));
    EXPECT_NE(refusal(dir), "accepted") << cut;
  }
  dir.file("a.idx", good);
  dir.file("a.bin", bin.substr(0, 5));
  EXPECT_NE(refusal(dir), "accepted");
}

TEST(IndexedDataset, opens_by_the_name_of_either_file) {
  const ScratchDirectory dir;
  const auto a = write_sets(dir, "a", {{{1}, {2}}}, TokenType::u16);
  for (const char* ending : {"", ".bin", ".idx"}) EXPECT_EQ(IndexedDataset(a + ending).prefix(), a) << ending;
  EXPECT_THROW(IndexedDataset(a + ".json"), Error);
  write_sets(dir, "a.bin", {{{1}, {2}, {3}}}, TokenType::u16);  // a prefix that ends so itself
  EXPECT_EQ(IndexedDataset(a + ".bin").num_tokens(), 3);
  EXPECT_EQ(IndexedDataset(a + ".idx").num_tokens(), 2);
}

TEST(IndexedDataset, a_sidecar_with_an_impossible_vocabulary_is_damage) {
  const ScratchDirectory dir;
  for (const auto& [vocabulary, eod] :
       std::vector<std::pair<std::int64_t, std::int32_t>>{{0, 0}, {-1, 0}, {9, 9}, {9, -1}}) {
    const std::string name = fmt::format("v{}_{}", vocabulary, eod);
    const auto a =
        write_sets(dir, name, {{{1}}}, TokenType::u16, TokenFileOrigin{"ByteTokenizer", "1", vocabulary, eod, true});
    try {
      IndexedDataset(a).origin();
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::corrupt);
    }
  }
}

TEST(Merge, shifts_the_boundaries_of_the_second_file) {
  const ScratchDirectory dir;
  const auto a = write_sets(dir, "a", {{{1}, {2}}, {{3}}}, TokenType::u16);
  const auto b = write_sets(dir, "b", {{{4}}, {}, {{5}, {6}, {7}}}, TokenType::u16);
  EXPECT_EQ(boundaries(IndexedDataset(a)), (std::vector<std::int64_t>{0, 2, 3}));
  EXPECT_EQ(boundaries(IndexedDataset(b)), (std::vector<std::int64_t>{0, 1, 1, 4}));
  const MergeReport report = merge_files({a, b}, dir / "c", false);
  const IndexedDataset c(dir / "c");
  EXPECT_EQ(boundaries(c), (std::vector<std::int64_t>{0, 2, 3, 4, 4, 7}));
  EXPECT_EQ(report.tokens, 7);
  for (std::int32_t i = 0; i < 7; ++i) {
    Ids id(1);
    c.read(i, 0, id);
    EXPECT_EQ(id[0], i + 1);
  }
}

TEST(Merge, refuses_other_widths_and_other_tokenizers) {
  const ScratchDirectory dir;
  const TokenFileOrigin one{"ByteTokenizer", "0000000000000001", 257, 256, false},
      two{"ByteTokenizer", "0000000000000002", 257, 256, false};
  const auto a = write_sets(dir, "a", {{{1}}}, TokenType::u16, one);
  const auto b = write_sets(dir, "b", {{{1}}}, TokenType::i32, one);
  const auto c = write_sets(dir, "c", {{{1}}}, TokenType::u16, two);
  EXPECT_THROW(merge_files({a, b}, dir / "x", false), Error);
  EXPECT_THROW(merge_files({a, c}, dir / "x", false), Error);
  EXPECT_FALSE(std::filesystem::exists(dir / "x.bin"));
}

}  // namespace
}  // namespace mt::data
