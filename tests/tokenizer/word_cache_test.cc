#include "tokenizer/word_cache.h"
#include "tokenizer/long_word_cache.h"

#include <random>
#include <string>
#include <unordered_map>

#include <gtest/gtest.h>

namespace mt::tokenizer {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(WordCache, finds_what_was_inserted_through_growth) {
  WordCache cache;
  std::unordered_map<std::string, Ids> reference;
  std::mt19937 random(3);
  for (int i = 0; i < 50000; ++i) {
    std::string word(1 + random() % WordCache::kMaxKeyBytes, 'a');
    for (char& c : word) c = static_cast<char>(random() % 4 == 0 ? 0 : 'a' + random() % 3);  // zero bytes and prefixes
    const WordCache::Key key = WordCache::key_of(word.data(), word.size());
    const std::uint64_t hash = WordCache::hash_of(key);
    const WordCache::Entry* entry = cache.find(key, hash);
    const auto known = reference.find(word);
    ASSERT_EQ(entry != nullptr, known != reference.end()) << word;
    if (entry != nullptr) {
      const auto ids = cache.ids(*entry);
      ASSERT_EQ(Ids(ids.begin(), ids.end()), known->second);
      continue;
    }
    Ids ids(random() % 8);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 100000);
    cache.insert(key, hash, ids);
    reference.emplace(word, ids);
  }
  EXPECT_EQ(cache.size(), reference.size());
}

TEST(WordCache, a_word_that_waits_gets_its_ids_or_is_forgotten) {
  WordCache cache;
  const auto key_of = [](int i) {
    const std::string word = "w" + std::to_string(i);
    return WordCache::key_of(word.data(), word.size());
  };
  const auto find = [&](int i) { return cache.find(key_of(i), WordCache::hash_of(key_of(i))); };
  for (int i = 0; i < 5000; ++i) cache.insert_pending(key_of(i), WordCache::hash_of(key_of(i)), i);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(find(i) != nullptr && find(i)->pending()) << i;
    ASSERT_EQ(find(i)->ids[0], i);
    if (i % 3 == 0) {
      cache.forget(key_of(i), WordCache::hash_of(key_of(i)));
    } else {
      cache.settle(key_of(i), WordCache::hash_of(key_of(i)), Ids(static_cast<std::size_t>(i % 7), i));
    }
  }
  for (int i = 5000; i < 20000; ++i) cache.insert(key_of(i), WordCache::hash_of(key_of(i)), Ids{i});  // it grows
  for (int i = 0; i < 20000; ++i) {
    if (i < 5000 && i % 3 == 0) {
      ASSERT_EQ(find(i), nullptr) << i;
      continue;
    }
    ASSERT_NE(find(i), nullptr) << i;
    const auto ids = cache.ids(*find(i));
    ASSERT_EQ(Ids(ids.begin(), ids.end()), i < 5000 ? Ids(static_cast<std::size_t>(i % 7), i) : Ids{i});
  }
}

TEST(WordCache, stops_growing_at_its_limit) {
  WordCache cache(100);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const std::string word = std::to_string(i);
    const WordCache::Key key = WordCache::key_of(word.data(), word.size());
    cache.insert(key, WordCache::hash_of(key), Ids{1});
  }
  EXPECT_EQ(cache.size(), 100u);
}

TEST(WordCache, keys_are_the_same_whichever_way_they_are_read) {
  std::string text(64, '\xEE');
  std::mt19937 random(4);
  for (char& c : text) c = static_cast<char>(random());
  for (std::size_t at = 0; at < 48; ++at) {
    for (std::size_t size = 1; size <= WordCache::kMaxKeyBytes; ++size) {
      EXPECT_EQ(WordCache::key_of(text.data() + at, size), WordCache::key_of_readable(text.data() + at, size)) << size;
    }
  }
}

TEST(LongWordCache, finds_what_was_inserted_through_growth_and_stops_at_its_limit) {
  LongWordCache cache(20000);
  std::unordered_map<std::string, Ids> reference;
  std::mt19937 random(6);
  for (int i = 0; i < 40000; ++i) {
    std::string word(16 + random() % 113, 'a');
    for (char& c : word) c = static_cast<char>(random() % 40 == 0 ? 0 : 'a');  // long equal stretches
    const std::uint64_t hash = LongWordCache::hash_of(word);
    const LongWordCache::Entry* entry = cache.find(word, hash);
    const auto known = reference.find(word);
    ASSERT_EQ(entry != nullptr, known != reference.end()) << i;
    if (entry != nullptr) {
      const auto ids = cache.ids(*entry);
      ASSERT_EQ(Ids(ids.begin(), ids.end()), known->second);
      continue;
    }
    Ids ids(random() % 8);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 100000);
    cache.insert(word, hash, ids);
    if (reference.size() < 20000) reference.emplace(word, ids);
  }
  EXPECT_EQ(cache.size(), 20000u);
}

}  // namespace
}  // namespace mt::tokenizer
