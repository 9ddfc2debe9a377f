// What people name as input, and files that are no text: directories, patterns, arrays, Parquet, damaged and doubly packed.

#include "data/input_list.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <gtest/gtest.h>
#include <zlib.h>

#include "base/error.h"
#include "data/input_kind.h"
#include "data/input_reader.h"
#include "base/refusal.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

std::string gzipped(const std::string& text) {
  std::string out(text.size() + 100, '\0');
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

TEST(InputList, a_directory_is_the_texts_below_it_by_name) {
  const ScratchDirectory dir;
  for (const char* name : {"b.jsonl", "a.txt.gz", "README.md", ".hidden.jsonl", "table.parquet", "tokens.json", "tokens.idx",
                           "tokens.bin", "plain.json"})
    dir.file(name, "x");
  fs::create_directories(dir / "sub/deeper");
  fs::create_directories(dir / ".git");
  dir.file("sub/deeper/c.ndjson", "x");
  dir.file(".git/d.jsonl", "x");
  fs::create_directory_symlink(dir / "sub", dir / "link");
  const auto below = [&](const std::string& name) { return dir / name; };
  EXPECT_EQ(expand_inputs({dir.path().string()}, InputFormat::by_name),
            (std::vector<std::string>{below("a.txt.gz"), below("b.jsonl"), below("plain.json"), below("sub/deeper/c.ndjson")}));
  EXPECT_EQ(expand_inputs({dir.path().string()}, InputFormat::text), (std::vector<std::string>{below("a.txt.gz")}));
  EXPECT_EQ(expand_inputs({below("link")}, InputFormat::by_name), (std::vector<std::string>{below("link/deeper/c.ndjson")}));
}

TEST(InputList, a_pattern_leaves_out_what_is_no_file) {
  const ScratchDirectory dir;
  dir.file("a.jsonl", "x");
  ASSERT_EQ(::mkfifo((dir / "b.jsonl").c_str(), 0600), 0);
  fs::create_symlink(dir / "a.jsonl", dir / "c.jsonl");
  EXPECT_EQ(expand_inputs({dir / "*.jsonl"}, InputFormat::by_name), (std::vector<std::string>{dir / "a.jsonl", dir / "c.jsonl"}));
  fs::remove(dir / "a.jsonl");
  fs::remove(dir / "c.jsonl");
  try {
    expand_inputs({dir / "*.jsonl"}, InputFormat::by_name);
    ADD_FAILURE() << "a pipe was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("what is none: " + (dir / "b.jsonl")), std::string::npos) << e.what();
  }
  EXPECT_EQ(expand_inputs({dir / "b.jsonl"}, InputFormat::by_name), std::vector<std::string>{dir / "b.jsonl"});  // by its name
}

TEST(InputList, a_pattern_is_what_it_matches_unless_a_file_has_its_name) {
  const ScratchDirectory dir;
  for (const char* name : {"p2.md", "p1.md", "p10.md", "q.md", "[x].md", ".p3.md"}) dir.file(name, "x");
  fs::create_directory(dir / "p.dir.md");
  const auto found = [&](const std::string& pattern) { return expand_inputs({dir / pattern}, InputFormat::by_name); };
  EXPECT_EQ(found("p*.md"), (std::vector<std::string>{dir / "p1.md", dir / "p10.md", dir / "p2.md"}));
  EXPECT_EQ(found("[pq]?.md"), (std::vector<std::string>{dir / "p1.md", dir / "p2.md"}));
  EXPECT_EQ(found("[x].md"), (std::vector<std::string>{dir / "[x].md"}));
  EXPECT_EQ(expand_inputs({"-", dir / "absent.md", dir / "q.md"}, InputFormat::by_name),
            (std::vector<std::string>{"-", dir / "absent.md", dir / "q.md"}));
}

TEST(InputList, nothing_found_is_an_error_that_says_what_is_there) {
  const ScratchDirectory dir;
  fs::create_directory(dir / "empty");
  fs::create_directory(dir / "tables");
  dir.file("tables/a.parquet", "x");
  const auto expand = [&](const std::string& name) {
    return refusal([&] { expand_inputs({dir / name}, InputFormat::by_name); }, Code::io);
  };
  EXPECT_NE(expand("empty").find("no file in it ends as .jsonl"), std::string::npos) << expand("empty");
  EXPECT_NE(expand("tables").find("a.parquet"), std::string::npos) << expand("tables");
  EXPECT_NE(expand("tables").find("duckdb"), std::string::npos) << expand("tables");
  EXPECT_NE(expand("*.jsonl").find("no file matches the pattern"), std::string::npos) << expand("*.jsonl");
  EXPECT_NE(expand("emp*").find("directories alone"), std::string::npos) << expand("emp*");
}

TEST(InputKind, what_is_no_text_is_told_with_the_way_to_make_it_text) {
  const ScratchDirectory dir;
  struct Row {
    std::string name, content, words, recipe;
    Code code = Code::data;
  };
  const std::string lines = "{\"text\":\"a\"}\n", tar(257, '\0');
  const Row rows[] = {
      {"a.json", "[{\"text\":\"a\"},\n{\"text\":\"b\"}]\n", "one JSON array", "jq -c"},
      {"b.jsonl", "\xEF\xBB\xBF \n[\n  {\"text\":\"a\"}\n]\n", "one JSON array", "jq -c"},
      {"c.json.gz", gzipped("[{\"text\":\"a\"}]"), "one JSON array", "gzip -dc"},
      {"d.parquet", "PAR1\x15\x04", "Parquet", "duckdb"},
      {"e.jsonl", "PAR1\x15\x04", "Parquet", "duckdb"},
      {"f.txt", std::string("ARROW1\0\0x", 9), "Arrow", "pyarrow"},
      {"g.jsonl", "PK\x03\x04zip", "zip", "unzip -p"},
      {"h.jsonl.gz", gzipped(tar + "ustar"), "tar", "tar -xOf"},
      {"i.jsonl.gz", gzipped(gzipped(lines)), "packed twice", "gzip -dc"},
      {"j.txt", "\xFF\xFE" "a", "UTF-16", "iconv"},
      {"k.jsonl.gz", "\x1F\x8B", "cut off: 2 bytes", "", Code::corrupt},
      {"l.jsonl", "\xFD" "7zX", "cut off: 4 bytes", "", Code::corrupt},
      {"m.jsonl", "\x28\xB5\x2F", "cut off: 3 bytes", "", Code::corrupt},
      {"n.jsonl.bz2", "BZh9", "cut off: 4 bytes", "ending", Code::corrupt},
      {"o.jsonl.gz", "", "cut off: 0 bytes", "ending", Code::corrupt},
  };
  for (const Row& row : rows) {
    TextSourceOptions options;
    options.inputs = {dir.file(row.name, row.content)};
    const bool by_name = row.name == "d.parquet";
    const std::string said = refusal([&] { TextSource source(options); }, by_name ? Code::usage : row.code);
    EXPECT_NE(said.find(by_name ? "unknown ending" : row.words), std::string::npos) << said;
    EXPECT_NE(said.find(row.recipe), std::string::npos) << said;
    EXPECT_NE(said.find(row.name), std::string::npos) << said;
    EXPECT_EQ(said.find("--input-format text"), std::string::npos) << said;
  }
  // What is text stays text.
  for (const auto& [name, content] : {std::pair<std::string, std::string>{"p.txt", "BZh9"}, {"q.txt", "PAR1 is a magic word"},
                                      {"r.txt", "[{"}, {"s.jsonl", "[1]\n" + lines}, {"t.jsonl.gz", lines}}) {
    TextSourceOptions options;
    options.inputs = {dir.file(name, content)};
    EXPECT_EQ(TextSource(options).next()->text(), content);
  }
}

TEST(InputReader, skips_in_plain_and_packed_files_alike) {
  const ScratchDirectory dir;
  std::string text;
  for (int i = 0; i < 100000; ++i) text += std::to_string(i) + "\n";
  for (const std::string& path : {dir.file("plain", text), dir.file("packed", gzipped(text))}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{300000}, text.size()}) {
      InputReader reader(::open(path.c_str(), O_RDONLY), path);
      ASSERT_TRUE(reader.skip(at));
      std::string rest(1000, '\0');
      rest.resize(reader.read(rest.data(), rest.size()));
      EXPECT_EQ(rest, text.substr(at, rest.size())) << at;
      EXPECT_EQ(rest.empty(), at == text.size());
    }
    InputReader reader(::open(path.c_str(), O_RDONLY), path);
    EXPECT_FALSE(reader.skip(text.size() + 1));
  }
}

}  // namespace
}  // namespace mt::data
