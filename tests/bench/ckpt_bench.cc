// Checkpoint write and read beside dd on the same disk with the same sync mode, interleaved pairs, medians.
//
//   bench_ckpt DIRECTORY [MiB] [PAIRS]
//
// write   write_rank (hash, header, O_DIRECT or buffered, fsync) against dd bs=4M oflag=direct conv=fsync or conv=fsync
// read    Reader::read with every hash compared, against dd bs=4M to /dev/null; page cache dropped from the file first
//         (cold) or left (warm)

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "ckpt/reader.h"
#include "ckpt/store.h"

namespace {

using namespace mt;

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

void drop_cache(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  if (fd < 0) return;
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

void run(const std::string& command) {
  if (std::system((command + " 2>/dev/null").c_str()) != 0) throw Error(Code::io, "failed: " + command);
}

struct Pair {
  std::vector<double> ours, dd;
  void print(const char* name, double mib) const {
    const double a = mib * 1.048576 / median(ours), b = mib * 1.048576 / median(dd);
    std::printf("%s\t%.0f\t%.0f\t%.2f\n", name, a, b, a / b);
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: bench_ckpt DIRECTORY [MiB] [PAIRS]\n"), 2;
  const fs::path root = fs::path(argv[1]) / "bench_ckpt.tmp";
  const std::int64_t mib = argc > 2 ? std::atoll(argv[2]) : 512;
  const int pairs = argc > 3 ? std::atoi(argv[3]) : 10;

  // Weight, master and two moments of eight matrices, as a training run saves them.
  std::vector<TensorShard> shards;
  const std::int64_t rows = mib * (1 << 20) / 8 / 14 / 1024;
  std::vector<float> memory(static_cast<std::size_t>(rows * 1024), 0.5f);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i % 1000003) * 0.001f;
  for (int m = 0; m < 8; ++m)
    for (const char* kind : {"weight", "master", "exp_avg", "exp_avg_sq"}) {
      const Dims shape{rows, 1024};
      const auto dtype = std::string(kind) == "weight" ? DType::bf16 : DType::f32;
      shards.push_back({{"matrix" + std::to_string(m), kind, dtype, shape, whole(shape)},
                        reinterpret_cast<const std::byte*>(memory.data())});
    }
  double total_mib = 0;
  for (const auto& s : shards) total_mib += static_cast<double>(s.what.bytes()) / (1 << 20);

  CheckpointMeta meta;
  std::printf("what\tours_MB_s\tdd_MB_s\tratio\n");
  const auto blocks = std::to_string(static_cast<long>(total_mib / 4) + 1);
  const auto dd_out = " of=" + (root / "dd").string() + " bs=4M count=" + blocks;
  for (const auto mode : {WriteMode::direct, WriteMode::buffered}) {
    Pair p;
    for (int i = 0; i <= pairs; ++i) {  // the first pair warms up
      const auto dir = begin_save(root, 0);
      const auto ours = seconds([&] { write_rank(dir, 0, shards, mode); });
      abort_save(root, 0);
      fs::remove(root / "dd");
      const auto dd = seconds([&] {
        run("dd if=/dev/zero" + dd_out + (mode == WriteMode::direct ? " oflag=direct conv=fsync" : " conv=fsync"));
      });
      if (i > 0) p.ours.push_back(ours), p.dd.push_back(dd);
    }
    p.print(mode == WriteMode::direct ? "write direct" : "write buffered", total_mib);
  }

  write_rank(begin_save(root, 0), 0, shards);
  const Reader reader(commit(root, meta));
  const auto file = reader.dir() / data_file_name(0);
  std::vector<std::vector<std::byte>> out;
  std::vector<TensorRequest> requests;
  for (const auto& s : shards) {
    out.emplace_back(s.what.bytes());
    TensorRequest q;
    q.what = s.what;
    q.out = out.back().data();
    requests.push_back(q);
  }
  for (const bool cold : {true, false}) {
    Pair p;
    for (int i = 0; i <= pairs; ++i) {
      if (cold) drop_cache(file);
      const auto ours = seconds([&] { reader.read(requests); });
      if (cold) drop_cache(file);
      const auto dd = seconds([&] { run("dd if=" + file.string() + " of=/dev/null bs=4M"); });
      if (i > 0) p.ours.push_back(ours), p.dd.push_back(dd);
    }
    p.print(cold ? "read cold" : "read warm", total_mib);
  }
  fs::remove_all(root);
  return 0;
}
