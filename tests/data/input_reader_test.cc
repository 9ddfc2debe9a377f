// Packed input: what the programs pack comes out again, and damage is told.

#include "data/input_reader.h"

#include <fcntl.h>

#include <random>

#include <bzlib.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "base/error.h"
#include "data/text_source.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

std::string packed(const std::string& text, Packing packing) {
  std::string out(text.size() + 4096, '\0');
  std::size_t size = 0;
  switch (packing) {
    case Packing::gzip: {
      z_stream z{};
      deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
      z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
      z.avail_in = static_cast<uInt>(text.size());
      z.next_out = reinterpret_cast<Bytef*>(out.data());
      z.avail_out = static_cast<uInt>(out.size());
      EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
      size = out.size() - z.avail_out;
      deflateEnd(&z);
      break;
    }
    case Packing::zstd: size = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3); break;
    case Packing::xz:
      EXPECT_EQ(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()),
                                        text.size(), reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size()),
                LZMA_OK);
      break;
    case Packing::bzip2: {
      auto n = static_cast<unsigned>(out.size());
      EXPECT_EQ(BZ2_bzBuffToBuffCompress(out.data(), &n, const_cast<char*>(text.data()),
                                         static_cast<unsigned>(text.size()), 1, 0, 0),
                BZ_OK);
      size = n;
      break;
    }
    case Packing::none: return text;
  }
  out.resize(size);
  return out;
}

std::string read_all(const std::string& path, std::size_t step = 1000) {
  InputReader reader(::open(path.c_str(), O_RDONLY), path);
  std::string all;
  std::vector<char> some(step);
  while (const std::size_t n = reader.read(some.data(), step)) all.append(some.data(), n);
  return all;
}

std::string sample(std::size_t size) {
  std::mt19937 random(4);
  std::string text;
  while (text.size() < size) text += "line " + std::to_string(random() % 1000) + (random() % 7 == 0 ? "\n" : " ");
  return text;
}

constexpr Packing kAll[] = {Packing::gzip, Packing::zstd, Packing::xz, Packing::bzip2};

TEST(InputReader, unpacks_whole_files_and_parts_behind_each_other) {
  const ScratchDirectory dir;
  const std::string text = sample(1 << 20), more = sample(5000);
  for (const Packing packing : kAll) {
    const std::string one = packed(text, packing);
    EXPECT_EQ(read_all(dir.file("one", one)), text);
    EXPECT_EQ(read_all(dir.file("three", one + packed("", packing) + packed(more, packing)), 1 << 16), text + more);
    EXPECT_EQ(read_all(dir.file("padded", one + std::string(512, '\0'))), text);
    EXPECT_EQ(InputReader(::open((dir / "one").c_str(), O_RDONLY), "one").packing(), packing);
  }
  EXPECT_EQ(read_all(dir.file("plain", text)), text);
  EXPECT_EQ(read_all(dir.file("empty", "")), "");
  EXPECT_EQ(read_all(dir.file("short", "BZh9")), "BZh9");
}

TEST(InputReader, damage_and_a_missing_end_are_errors_that_name_the_file) {
  const ScratchDirectory dir;
  const std::string text = sample(200000);
  for (const Packing packing : kAll) {
    const std::string whole = packed(text, packing);
    std::string flipped = whole;
    for (std::size_t i = whole.size() / 3; i < whole.size() / 2; ++i) flipped[i] = static_cast<char>(~flipped[i]);
    for (const std::string& bad : {whole.substr(0, whole.size() / 2), whole.substr(0, whole.size() - 1), flipped,
                                   whole + "text that is not packed at all"}) {
      const std::string path = dir.file("bad", bad);
      try {
        read_all(path);
        FAIL() << static_cast<int>(packing);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::corrupt);
        EXPECT_EQ(e.where(), path);
      }
    }
  }
}

TEST(TextSource, packed_lines_are_the_lines_themselves) {
  const ScratchDirectory dir;
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  const char* names[] = {"a.jsonl.gz", "a.jsonl.zst", "a.json.xz", "a.ndjson.bz2"};
  TextSourceOptions options;
  for (std::size_t i = 0; i < 4; ++i) options.inputs.push_back(dir.file(names[i], packed(lines, kAll[i])));
  options.inputs.push_back(dir.file("named.jsonl", packed(lines, Packing::zstd)));  // told by its bytes
  TextSource source(options);
  int chunks = 0;
  while (const auto chunk = source.next()) {
    EXPECT_EQ(chunk->text(), lines);
    ++chunks;
  }
  EXPECT_EQ(chunks, 5);
}

}  // namespace
}  // namespace mt::data
