// How long the orders of samples take to make, and in how much memory; no token file is needed.
//
//   bench_sample_order [DOCUMENTS=100000000] [TOKENS_A_DOCUMENT=600] [SEQ_LENGTH=4096] [MEMBERS=1000]
// Rows: what, processor seconds of its one thread (waiting for a disk is not in them), nanoseconds an element, bytes of the
// arrays, and the peak of resident bytes over those before it as a share of these. The lengths, 4 bytes a document, stand in
// for the mapped .idx and are before it. 10^9 documents want 10 GB.

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <string>

#include "base/files.h"
#include "data/blend.h"
#include "data/index_cache.h"
#include "data/sample_order.h"

namespace {

using namespace mt;
using namespace mt::data;

// "VmHWM" or "VmRSS" of this process, in bytes.
double memory(const char* what) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.compare(0, 5, what) == 0) return 1024.0 * std::atof(line.c_str() + 6);
  return 0;
}

double cpu_seconds(const std::function<void()>& body) {
  const auto now = [] {
    std::timespec t {};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  body();
  return now() - start;
}

void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

void row(const char* what, double s, double elements, double bytes, double peak) {
  std::printf("%-22s %9.2f s %8.2f ns %14.0f bytes, peak %.3f of them\n", what, s, 1e9 * s / elements, bytes,
              bytes > 0 ? peak / bytes : 0);
  std::fflush(stdout);
}

void orders(std::int64_t documents, std::int32_t tokens, std::int64_t seq) {
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(documents));
  std::uint32_t x = 1;
  for (auto& n : lengths) n = 1 + static_cast<std::int32_t>((x = x * 1664525u + 1013904223u) >> 8) % (2 * tokens);
  const SequenceLengths view{std::span<const std::int32_t>(lengths)};
  GptDatasetOptions options;
  options.seq_length = seq;
  options.num_samples = 0;
  const SequenceRange range{0, documents};
  SampleCounts counts;
  const double n = static_cast<double>(documents);
  row("count", cpu_seconds([&] { counts = count_samples(view, range, options, ""); }), n, 0, 0);
  const auto bytes = static_cast<double>(counts.bytes());
  forget_peak();
  const double before = memory("VmRSS");
  IndexArrays made;
  const double s = cpu_seconds([&] { made = make_sample_order(view, range, options, counts); });
  row("make", s, n, bytes, memory("VmHWM") - before);
}

void cached(std::int64_t documents, const std::string& directory) {
  IndexKey key;
  key.name = "bench";
  key.text = std::to_string(documents);
  key.array_bytes = {4 * static_cast<std::uint64_t>(documents)};
  const auto build = [&] {
    std::vector<IndexMemory> memory;
    memory.emplace_back(static_cast<std::size_t>(key.array_bytes[0]));
    const auto a = memory[0].as<std::uint32_t>();
    std::iota(a.begin(), a.end(), 0u);
    return IndexArrays(std::move(memory));
  };
  const auto bytes = static_cast<double>(key.array_bytes[0]);
  for (const char* what : {"cache: build, write", "cache: hit"}) {
    IndexCache cache(directory);
    row(what, cpu_seconds([&] { cache.get(key, build); }), static_cast<double>(documents), bytes, 0);
  }
  fs::remove_all(directory);
}

void blend(int members, std::int64_t samples) {
  std::mt19937 random(1);
  std::vector<double> weights;
  for (int i = 0; i < members; ++i) weights.push_back(1 + static_cast<double>(random() % 1000));
  std::vector<std::int16_t> member(static_cast<std::size_t>(samples));
  std::vector<std::int64_t> ordinal(member.size());
  const auto w = normalised(weights);
  const double s = cpu_seconds([&] { fill_blend_order(w, {member, ordinal}); });
  row("blend", s, static_cast<double>(samples), 10 * static_cast<double>(samples), 0);
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::int64_t fallback) { return argc > i ? std::atoll(argv[i]) : fallback; };
  const std::int64_t documents = argument(1, 100000000);
  orders(documents, static_cast<std::int32_t>(argument(2, 600)), argument(3, 4096));
  cached(std::min<std::int64_t>(documents, 250000000), fs::temp_directory_path() / "bench-sample-order");
  blend(static_cast<int>(argument(4, 1000)), 1000000);
}
