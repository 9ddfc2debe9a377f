// How fast JSON lines become ids, beside what the machine could do at most: memcpy and bare simdjson over the same
// bytes.
//
//   bench_encode FILE.jsonl TOKENIZER [REPEATS [ROW]]
// TOKENIZER is a tokenizer.json, a .model of SentencePiece, or a .tiktoken that is cut as o200k.
// One thread; ROW: that row alone, for a profiler. A row a measurement: name, bytes, processor seconds (median of the repeats), MB/s, share of memcpy.
// `encode cold` starts every repeat with an empty word cache, as a worker starts; `encode warm` keeps it.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <simdjson.h>

#include "base/error.h"
#include "base/files.h"
#include "tokenizer/split_pattern.h"
#include "data/text_source.h"
#include "tokenizer/tokenizer.h"

namespace {

using namespace mt;
using namespace mt::tokenizer;
using data::RecordReader;
using data::TextChunk;
using data::TextSource;
using data::TextSourceOptions;

std::vector<TextChunk> read_all(const std::string& path) {
  TextSourceOptions options;
  options.inputs = {path};
  TextSource source(options);
  std::vector<TextChunk> chunks;
  while (std::optional<TextChunk> chunk = source.next()) chunks.push_back(std::move(*chunk));
  return chunks;
}

// Processor time of this process, so that neighbours on a busy machine count less.
double cpu_s() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double median_s(int repeats, const std::function<void()>& body) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const double start = cpu_s();
    body();
    times.push_back(cpu_s() - start);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Work {
  std::vector<TextChunk> chunks;
  std::unique_ptr<Tokenizer> tokenizer;
  std::size_t bytes = 0;

  std::int64_t parse() const {
    RecordReader reader({"text"});
    std::int64_t texts = 0;
    for (const TextChunk& chunk : chunks) {
      reader.start(chunk);
      while (reader.next() == RecordReader::Step::record)
        texts += static_cast<std::int64_t>(reader.values()[0][0].size());
    }
    return texts;
  }
  std::int64_t bare_simdjson() const {
    simdjson::dom::parser parser;
    std::int64_t texts = 0;
    for (const TextChunk& chunk : chunks) {
      const std::string_view text = chunk.text();
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string_view value;
        if (parser.parse(text.data() + at, end - at, false)["text"].get(value) == simdjson::SUCCESS) {
          texts += static_cast<std::int64_t>(value.size());
        }
        at = end + 1;
      }
    }
    return texts;
  }
  std::int64_t split() const {
    RecordReader reader({"text"});
    const SplitPattern pattern = SplitPattern::from_regex(std::string(kGpt2Pattern));
    std::uint32_t lengths[256];
    std::int64_t pieces = 0;
    for (const TextChunk& chunk : chunks) {
      reader.start(chunk);
      while (reader.next() == RecordReader::Step::record) {
        std::size_t at = 0;
        while (const std::size_t n = pattern.next(reader.values()[0][0], at, lengths))
          pieces += static_cast<std::int64_t>(n);
      }
    }
    return pieces;
  }
  std::int64_t encode(EncodeScratch& scratch) const {
    RecordReader reader({"text"});
    std::vector<Id> ids;
    std::int64_t tokens = 0;
    for (const TextChunk& chunk : chunks) {
      reader.start(chunk);
      ids.clear();
      while (reader.next() == RecordReader::Step::record) tokenizer->encode(reader.values()[0][0], scratch, ids);
      tokens += static_cast<std::int64_t>(ids.size());
    }
    return tokens;
  }
};

int bench(const std::string& file, const std::string& tokenizer, int repeats, const std::string& only) {
  Work work;
  work.chunks = read_all(file);
  for (const TextChunk& chunk : work.chunks) work.bytes += chunk.size;
  TokenizerSpec spec;
  spec.model = tokenizer;
  if (tokenizer.ends_with(".model")) spec.type = "SentencePieceTokenizer";
  if (tokenizer.ends_with(".tiktoken")) {
    spec.type = "TikTokenizer";
    spec.tiktoken_pattern = "o200k";
  }
  work.tokenizer = make_tokenizer(spec);
  std::vector<char> copy(work.bytes);
  std::int64_t keep = 0;
  EncodeScratch warm;
  keep += work.encode(warm);
  const auto memcpy_all = [&] {
    std::size_t at = 0;
    for (const TextChunk& chunk : work.chunks) {
      std::memcpy(copy.data() + at, chunk.storage.data(), chunk.size);
      at += chunk.size;
    }
    keep += copy[work.bytes / 2];
  };
  memcpy_all();
  struct Row {
    const char* name;
    std::function<void()> body;
  };
  const Row rows[] = {{"memcpy", memcpy_all},
                      {"simdjson", [&] { keep += work.bare_simdjson(); }},
                      {"parse", [&] { keep += work.parse(); }},
                      {"parse+split", [&] { keep += work.split(); }},
                      {"encode cold",
                       [&] {
                         EncodeScratch cold;
                         keep += work.encode(cold);
                       }},
                      {"encode warm", [&] { keep += work.encode(warm); }}};
  std::printf("what\tbytes\tseconds\tMB_per_s\tof_memcpy\n");
  double limit = 0;
  for (const Row& row : rows) {
    if (!only.empty() && row.name != only) continue;
    const double s = median_s(repeats, row.body), rate = static_cast<double>(work.bytes) / 1e6 / s;
    if (limit == 0) limit = rate;
    std::printf("%s\t%zu\t%.4f\t%.1f\t%.4f\n", row.name, work.bytes, s, rate, rate / limit);
  }
  std::fprintf(stderr, "checksum %lld\n", static_cast<long long>(keep));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench_encode FILE.jsonl TOKENIZER [REPEATS [ROW]]\n");
    return 2;
  }
  try {
    return bench(argv[1], argv[2], argc > 3 ? std::max(1, std::atoi(argv[3])) : 5, argc > 4 ? argv[4] : "");
  } catch (const Error& error) {
    std::fprintf(stderr, "bench_encode: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
