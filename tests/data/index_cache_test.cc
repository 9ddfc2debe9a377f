// The index cache among many processes, on full, read-only and damaged places.

#include "data/index_cache.h"

#include <csignal>
#include <fstream>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <fcntl.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "data/blend.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

IndexKey key_of(const std::string& text, std::uint64_t words = 1000) {
  IndexKey key;
  key.name = "set";
  key.text = text;
  key.array_bytes = {4 * words, 12};
  return key;
}

IndexArrays numbers(const IndexKey& key, std::uint32_t first) {
  std::vector<IndexMemory> memory;
  for (const std::uint64_t bytes : key.array_bytes) memory.emplace_back(bytes);
  const auto a = memory[0].as<std::uint32_t>();
  std::iota(a.begin(), a.end(), first);
  return IndexArrays(std::move(memory));
}

std::string the_file(const ScratchDirectory& dir) {
  std::string found;
  for (const std::string& name : dir.names())
    if (name.size() > 6 && name.compare(name.size() - 6, 6, ".order") == 0) found = dir / name;
  return found;
}

IndexArrays get(IndexCache& cache, const IndexKey& key, std::uint32_t first = 5) {
  return cache.get(key, [&] { return numbers(key, first); });
}

void expect_numbers(const IndexArrays& arrays, std::uint32_t first) {
  const auto a = arrays.array<std::uint32_t>(0);
  ASSERT_GE(a.size(), 2u);
  EXPECT_EQ(a.front(), first);
  EXPECT_EQ(a.back(), first + a.size() - 1);
  EXPECT_EQ(arrays.array<std::uint32_t>(1).size(), 3u);
}

TEST(IndexCache, builds_once_and_maps_afterwards) {
  const ScratchDirectory dir;
  for (const std::uint64_t words : {10u, 100000u}) {
    IndexCache first(dir.path().string()), second(dir.path().string());
    const IndexKey key = key_of(std::to_string(words), words);
    expect_numbers(get(first, key), 5);
    EXPECT_EQ(first.report().built, 1);
    const IndexArrays again = second.get(key, []() -> IndexArrays { throw std::logic_error("built again"); });
    expect_numbers(again, 5);
    EXPECT_TRUE(again.mapped());
    EXPECT_EQ(second.report().text(), "index cache: hit (1 of 1) in " + dir.path().string());
    get(second, key_of("another " + std::to_string(words), words), 9);
    EXPECT_EQ(second.report().built, 1);
  }
  for (const auto& name : dir.names()) EXPECT_NE(name.find(".order"), name.size()) << name;
  EXPECT_EQ(dir.names().size(), 4u);  // no locks, no temporaries
}

TEST(IndexCache, makes_a_damaged_file_again) {
  const ScratchDirectory dir;
  const IndexKey key = key_of("a");
  IndexCache cache(dir.path().string());
  get(cache, key);
  const std::string path = the_file(dir), good = read_file(path);
  const auto spoil = [&](const std::string& content, const char* words) {
    std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    IndexCache again(dir.path().string());
    expect_numbers(get(again, key), 5);
    EXPECT_EQ(again.report().built, 1) << words;
    ASSERT_EQ(again.report().notices.size(), 1u) << words;
    EXPECT_NE(again.report().notices[0].find(words), std::string::npos) << again.report().notices[0];
    EXPECT_EQ(read_file(path), good);
  };
  for (const std::size_t size : {good.size() - 1, good.size() / 2, std::size_t{64}}) spoil(good.substr(0, size), "bytes of");
  spoil(good.substr(0, 20), "no header");
  spoil("", "no header");
  for (std::size_t at = 64; at < good.size(); at += 509) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    spoil(bad, "it");  // of another key, or not what was written
  }
  spoil("x" + good.substr(1), "does not begin as an index");
}

TEST(IndexCache, that_cannot_be_written_stays_in_memory_with_one_notice) {
  const ScratchDirectory dir;
  dir.file("file", "");
  IndexCache cache(dir / "file" + "/below");  // no directory can be made there, also not by root
  expect_numbers(get(cache, key_of("a")), 5);
  expect_numbers(get(cache, key_of("b"), 7), 7);
  EXPECT_EQ(cache.report().in_memory, 2);
  ASSERT_EQ(cache.report().notices.size(), 1u);
  EXPECT_NE(cache.report().notices[0].find("kept in memory"), std::string::npos);
}

// A child of this process; it may do as it likes with limits and users.
int in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(IndexCache, is_read_where_it_cannot_be_written) {
  const ScratchDirectory dir;
  IndexCache cache(dir.path().string());
  get(cache, key_of("a"));
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0555));
  const int code = in_child([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) return 10;
    IndexCache reader(dir.path().string());
    get(reader, key_of("a"));
    if (reader.report().hits != 1 || !reader.report().notices.empty()) return 11;
    get(reader, key_of("b"));
    return reader.report().in_memory == 1 && reader.report().notices.size() == 1 ? 0 : 12;
  });
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0755));
  EXPECT_EQ(code, 0);
  EXPECT_EQ(dir.names().size(), 1u);
}

TEST(IndexCache, leaves_nothing_on_a_full_disk) {
  const ScratchDirectory dir;
  const int code = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small { 4096, 4096 };
    ::setrlimit(RLIMIT_FSIZE, &small);
    IndexCache cache(dir.path().string());
    const IndexArrays made = get(cache, key_of("a", 100000));
    if (made.array<std::uint32_t>(0).back() != 5 + 99999) return 10;
    return cache.report().in_memory == 1 && cache.report().notices.size() == 1 ? 0 : 11;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(dir.names(), std::vector<std::string>{});
}

TEST(IndexCache, is_built_by_one_of_many_that_race) {
  for (int round = 0; round < 3; ++round) {
    const ScratchDirectory dir;
    const IndexKey key = key_of("a", 50000);
    std::vector<pid_t> children;
    for (int i = 0; i < 64; ++i) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        IndexCache cache(dir.path().string());
        const IndexArrays a = cache.get(key, [&] {
          const int fd = ::open((dir / "built").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
          (void)!::write(fd, "x", 1);
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          return numbers(key, 5);
        });
        const bool good = a.array<std::uint32_t>(0).back() == 5 + 49999 && cache.report().notices.empty();
        ::_exit(good ? 0 : 1);
      }
      children.push_back(pid);
    }
    for (const pid_t pid : children) {
      int status = 0;
      ::waitpid(pid, &status, 0);
      EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(read_file(dir / "built"), "x");
    EXPECT_EQ(dir.names().size(), 2u);
  }
}

TEST(IndexCache, threads_of_a_process_keep_one_another_out_too) {
  const ScratchDirectory dir;
  const IndexKey key = key_of("a", 50000);
  std::atomic<int> built = 0, good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      IndexCache cache(dir.path().string());
      const IndexArrays a = cache.get(key, [&] {
        ++built;
        return numbers(key, 5);
      });
      good += a.array<std::uint32_t>(0).back() == 5 + 49999 ? 1 : 0;
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(built, 1);
  EXPECT_EQ(good, 8);
}

TEST(IndexCache, a_killed_builder_blocks_nobody) {
  const ScratchDirectory dir;
  const IndexKey key = key_of("a");
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    IndexCache cache(dir.path().string());
    get(cache, key);  // its name
    std::filesystem::rename(the_file(dir), the_file(dir) + ".tmp." + std::to_string(::getpid()));
    cache.get(key, [&]() -> IndexArrays {
      (void)!::write(ready[1], "x", 1);
      for (;;) ::pause();
    });
  }
  char x;
  ASSERT_EQ(::read(ready[0], &x, 1), 1);
  EXPECT_EQ(dir.names().size(), 2u);  // a temporary and the lock
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  EXPECT_EQ(dir.names().size(), 2u);
  IndexCache cache(dir.path().string());
  expect_numbers(get(cache, key), 5);
  EXPECT_EQ(cache.report().built, 1);
  EXPECT_EQ(dir.names().size(), 1u);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(IndexCache, by_default_stands_beside_the_file_and_holds_large_ones_alone) {
  const ScratchDirectory dir;
  IndexKey small = key_of("a"), large = key_of("b", IndexCache::kWorthStoring / 4);
  small.beside = large.beside = dir.path();
  IndexCache cache("");
  get(cache, small);
  EXPECT_EQ(dir.names().size(), 0u);
  EXPECT_EQ(cache.report().text(), "");
  expect_numbers(get(cache, large), 5);
  EXPECT_EQ(dir.names(), std::vector<std::string>{"cache"});
  IndexCache off("none");
  expect_numbers(get(off, large), 5);
  EXPECT_EQ(off.report().in_memory, 1);
}

std::string write_tokens(const ScratchDirectory& dir, const std::string& name, std::int32_t id) {
  const std::string prefix = dir / name;
  IndexedWriter writer(prefix, TokenType::u16, true);
  for (int d = 0; d < 30; ++d) {
    writer.add_sequence(std::vector<std::int32_t>(static_cast<std::size_t>(5 + d % 4), id));
    writer.end_document();
  }
  writer.commit(std::nullopt);
  return prefix;
}

TEST(IndexCache, of_another_token_file_or_request_is_not_taken) {
  const ScratchDirectory dir, cached;
  const auto built = [&](const std::function<void(SetRequest&)>& change) {
    TokenFiles files;
    IndexCache cache(cached.path().string());
    SetRequest r;
    r.path.prefixes = {dir / "a"};
    r.num_samples = 20;
    r.seq_length = 8;
    change(r);
    build_set(r, files, cache);
    EXPECT_EQ(cache.report().built + cache.report().hits, 1);
    return cache.report().built;
  };
  write_tokens(dir, "a", 1);
  const auto nothing = [](SetRequest&) {};
  EXPECT_EQ(built(nothing), 1);
  EXPECT_EQ(built(nothing), 0);
  EXPECT_EQ(built([](SetRequest& r) { r.num_samples = 21; }), 1);
  EXPECT_EQ(built([](SetRequest& r) { r.seq_length = 9; }), 1);
  EXPECT_EQ(built([](SetRequest& r) { r.seed = 9; }), 1);
  EXPECT_EQ(built([](SetRequest& r) { r.split = "9,1"; }), 1);
  EXPECT_EQ(built(nothing), 0);
  write_tokens(dir, "a", 2);  // .bin of the same size, .idx of the same bytes
  EXPECT_EQ(built(nothing), 1);
  EXPECT_EQ(built(nothing), 0);
}

TEST(IndexCache, of_two_hundred_sets_works_with_64_descriptors) {
  const ScratchDirectory dir, cached;
  std::vector<std::string> words;
  const std::string one = write_tokens(dir, "one", 1);
  for (int i = 0; i < 200; ++i) {
    const std::string name = dir / std::to_string(i);
    std::filesystem::create_hard_link(bin_path(one), bin_path(name));
    std::filesystem::create_hard_link(idx_path(one), idx_path(name));
    words.push_back(std::to_string(100 + i));  // so that each gives another number of samples
    words.push_back(name);
  }
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const struct rlimit few { 64, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  for (const int hits : {0, 201}) {
    TokenFiles files;
    IndexCache cache(cached.path().string());
    SetRequest r;
    r.path = parse_data_path(words);
    r.num_samples = 100000;
    r.seq_length = 8;
    build_set(r, files, cache);
    EXPECT_EQ(cache.report().hits, hits);
    EXPECT_EQ(cache.report().notices.size(), 0u);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace mt::data
