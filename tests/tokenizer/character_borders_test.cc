#include "tokenizer/character_borders.h"

#include <array>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tokenizer/bpe.h"

namespace mt::tokenizer {
namespace {

std::vector<std::string> parts_of(const CharacterBorders& borders, std::string_view piece) {
  std::vector<std::string> parts;
  while (!piece.empty()) {
    const std::size_t size = borders.part(piece);
    parts.emplace_back(piece.substr(0, size));
    piece.remove_prefix(size);
  }
  return parts;
}

using Parts = std::vector<std::string>;

TEST(CharacterBorders, cuts_between_characters_that_no_token_holds_side_by_side) {
  CharacterBorders borders;
  for (const char* token : {"中文", "文字", "ab", "bя"}) borders.add(token);
  EXPECT_EQ(parts_of(borders, "中文字中字"), Parts({"中文字", "中", "字"}));
  EXPECT_EQ(parts_of(borders, "abяb中"), Parts({"abя", "b", "中"}));
  EXPECT_EQ(parts_of(borders, "я"), Parts({"я"}));
}

TEST(CharacterBorders, a_token_that_begins_or_ends_inside_a_character_joins_what_it_may_reach) {
  const std::string middle = "文";  // E6 96 87
  CharacterBorders borders;
  borders.add("中" + middle.substr(0, 1));
  EXPECT_EQ(parts_of(borders, "中文"), Parts({"中文"}));
  EXPECT_EQ(parts_of(borders, "文中"), Parts({"文", "中"}));
  CharacterBorders behind;
  behind.add(middle.substr(1) + "a");
  EXPECT_EQ(parts_of(behind, "文a文"), Parts({"文a", "文"}));
  CharacterBorders both;
  both.add(middle.substr(2) + "中"[0]);
  EXPECT_EQ(parts_of(both, "文中a"), Parts({"文中", "a"}));
}

// Random merges over the bytes of a few characters: merged part by part is merged as one.
TEST(CharacterBorders, parts_merged_for_themselves_are_the_piece_merged_as_one) {
  const std::vector<std::string> characters = {"a", "b", "é", "я", "中", "文", "丮", "😀", "😁"};
  std::mt19937 random(12);
  std::size_t cut = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> tokens;
    std::map<std::string, std::int32_t> ids;
    std::array<std::int32_t, 256> bytes{};
    for (int b = 0; b < 256; ++b) {
      bytes[static_cast<std::size_t>(b)] = b;
      tokens.emplace_back(1, static_cast<char>(b));
      ids[tokens.back()] = b;
    }
    const auto text = [&](int count) {
      std::string all;
      for (int i = 0; i < count; ++i) all += characters[random() % characters.size()];
      return all;
    };
    std::vector<Merge> merges;
    CharacterBorders borders;
    for (int i = 0; i < 30; ++i) {  // of what stands side by side in a text, as a trainer takes them
      const std::string sample = text(3);
      const std::size_t size = 2 + random() % 4, at = random() % sample.size();
      const std::string token = sample.substr(at, size);
      const std::size_t split = token.size() < 2 ? 0 : 1 + random() % (token.size() - 1);
      if (split == 0 || ids.count(token) > 0) continue;
      const auto left = ids.find(token.substr(0, split)), right = ids.find(token.substr(split));
      if (left == ids.end() || right == ids.end()) continue;
      ids[token] = static_cast<std::int32_t>(tokens.size());
      merges.push_back({left->second, right->second, ids[token]});
      tokens.push_back(token);
      borders.add(token);
    }
    MergeTable table(merges);
    table.set_bytes(bytes);
    for (int i = 0; i < 20; ++i) {
      std::string piece = text(20);
      if (i % 4 == 0) piece = piece.substr(random() % 3, piece.size() - random() % 4);  // cut off at its ends
      std::vector<std::int32_t> whole, joined, part;
      table.merge_bytes(piece, whole);
      for (const std::string& some : parts_of(borders, piece)) {
        table.merge_bytes(some, part);
        joined.insert(joined.end(), part.begin(), part.end());
        ++cut;
      }
      ASSERT_EQ(joined, whole) << "round " << round << " piece " << piece;
    }
  }
  EXPECT_GT(cut, 20000u);
}

}  // namespace
}  // namespace mt::tokenizer
