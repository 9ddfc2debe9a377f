// Checkpoint write and read beside dd on the same disk with the same sync mode, interleaved pairs, medians.
//
//   bench_ckpt DIRECTORY [MiB] [PAIRS]
//
// write       write_rank (hash, header, O_DIRECT or buffered, fsync) against dd bs=4M oflag=direct conv=fsync or
//             conv=fsync
// read        Reader::read with every hash compared, into buffers as training has them, against dd bs=4M to /dev/null;
//             page cache dropped from the file first (cold) or left (warm)
// place       the same warm read against one thread that reads 4 MiB blocks into the same memory: dd uses one block over
//             and over, which stays in the core's cache, and never pays for putting bytes where they are wanted
// place fresh both into memory never touched before, as a starting run has it
// hash        verify_checkpoint, warm, against one thread that reads into one 4 MiB block
// reshard     reshard() of one file to four, every matrix cut by columns, against cp --reflink=never and fsync of that file
// pack        PlaneCodec over 4 MiB frames of normal bf16 weights, one thread, against memcpy of the same bytes
// unpack      the way back
// open        read_manifest of a checkpoint of 100,000 tensors, in milliseconds, against reading its text

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "bench/timing.h"
#include "ckpt/plane_codec.h"
#include "ckpt/reader.h"
#include "ckpt/reshard.h"
#include "ckpt/store.h"
#include "ckpt/verify.h"
#include "device/buffer.h"

namespace {

using namespace mt;
using test::median;
using test::seconds;

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

using Act = std::function<void()>;

// Both sides in turn, each after its own preparation; the first pair warms up.
void compare(const char* name, double mib, int pairs, const Act& prepare, const Act& ours, const Act& peer) {
  std::vector<double> a, b;
  for (int i = 0; i <= pairs; ++i) {
    prepare();
    const double t_ours = seconds(ours);
    prepare();
    const double t_peer = seconds(peer);
    if (i > 0) a.push_back(t_ours), b.push_back(t_peer);
  }
  const double rate_a = mib * 1.048576 / median(a), rate_b = mib * 1.048576 / median(b);
  std::printf("%s\t%.0f\t%.0f\t%.2f\n", name, rate_a, rate_b, rate_a / rate_b);
  std::fflush(stdout);
}

// The shards of a rank as a training run saves them: weight, master and two moments of eight matrices.
struct Sample {
  std::vector<float> memory;
  std::vector<TensorShard> shards;
  double mib = 0;

  explicit Sample(std::int64_t wanted_mib) {
    const std::int64_t rows = wanted_mib * (1 << 20) / 8 / 14 / 1024;
    memory.resize(static_cast<std::size_t>(rows * 1024));
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i % 1000003) * 0.001f;
    for (int m = 0; m < 8; ++m)
      for (const char* kind : {"weight", "master", "exp_avg", "exp_avg_sq"}) {
        const Dims shape{rows, 1024};
        const auto dtype = std::string(kind) == "weight" ? DType::bf16 : DType::f32;
        shards.push_back({{"matrix" + std::to_string(m), kind, dtype, shape, whole(shape)},
                          reinterpret_cast<const std::byte*>(memory.data())});
        mib += static_cast<double>(shards.back().what.bytes()) / (1 << 20);
      }
  }
};

// Where a load puts its bytes: a buffer a kind, as the parameter store and the optimizer have them.
struct Destination {
  std::vector<Buffer> buffers;
  std::vector<TensorRequest> requests;

  explicit Destination(const Sample& sample) {
    for (const auto& s : sample.shards) {
      buffers.emplace_back(Device(), static_cast<std::size_t>(s.what.bytes()));
      TensorRequest q;
      q.what = s.what;
      q.out = buffers.back().data();
      requests.push_back(q);
    }
  }
};

// What `cp` or a plain loader does: one thread, blocks of 4 MiB, to `to` or into one block when it is null.
void read_plainly(const fs::path& path, const Destination* to) {
  static std::vector<std::byte> block(4 << 20);
  const int fd = ::open(path.c_str(), O_RDONLY);
  if (to) ::lseek(fd, 4096, SEEK_SET);  // about the header
  for (std::size_t i = 0; !to || i < to->buffers.size(); ++i) {
    const std::size_t size = to ? to->buffers[i].size() : block.size();
    for (std::size_t at = 0; at < size;) {
      const auto n = ::read(fd, to ? to->buffers[i].data() + at : block.data(), std::min(size - at, block.size()));
      if (n <= 0) return void(::close(fd));
      at += static_cast<std::size_t>(n);
    }
  }
  ::close(fd);
}

void bench_writes(const fs::path& root, const Sample& sample, int pairs) {
  const auto blocks = std::to_string(static_cast<long>(sample.mib / 4) + 1);
  const auto dd_out = " of=" + (root / "dd").string() + " bs=4M count=" + blocks;
  for (const bool direct : {true, false}) {
    fs::path dir;
    compare(direct ? "write direct" : "write buffered", sample.mib, pairs,
            [&] {
              abort_save(root, 0);
              dir = begin_save(root, 0);
              fs::remove(root / "dd");
            },
            [&] { write_rank(dir, 0, sample.shards, {direct ? WriteMode::direct : WriteMode::buffered}); },
            [&] { run("dd if=/dev/zero" + dd_out + (direct ? " oflag=direct conv=fsync" : " conv=fsync")); });
  }
  abort_save(root, 0);
  fs::remove(root / "dd");
}

void bench_reads(const fs::path& root, const Sample& sample, int pairs) {
  write_rank(begin_save(root, 0), 0, sample.shards);
  const Reader reader(commit(root, CheckpointMeta()));
  const auto file = reader.dir() / data_file_name(0);
  Destination to(sample);
  const Act read = [&] { reader.read(to.requests); };
  read();
  for (const bool cold : {true, false})
    compare(cold ? "read cold" : "read warm", sample.mib, pairs, [&] { if (cold) drop_cache(file); }, read,
            [&] { run("dd if=" + file.string() + " of=/dev/null bs=4M"); });
  compare("place", sample.mib, pairs, [] {}, read, [&] { read_plainly(file, &to); });
  std::optional<Destination> fresh;
  compare("place fresh", sample.mib, pairs,
          [&] {
            fresh.reset();
            fresh.emplace(sample);
          },
          [&] { reader.read(fresh->requests); }, [&] { read_plainly(file, &*fresh); });
  compare("hash", sample.mib, pairs, [] {}, [&] { verify_checkpoint(reader.dir()); },
          [&] { read_plainly(file, nullptr); });
}

void bench_reshard(const fs::path& root, const Sample& sample, int pairs) {
  const fs::path from = root / iteration_name(0), to = root / "to", copy = root / "copy";
  ReaderOptions keeping;
  keeping.cached_chunks = kReshardChunks;
  const Reader reader(from, keeping);
  Resharding columns{std::vector<std::vector<TensorBox>>(4), Json::object()};
  for (const auto& s : sample.shards)
    for (int i = 0; i < 4; ++i) {
      TensorBox b = s.what;
      const auto last = b.box.extent.size() - 1;
      b.box.offset[last] = b.shape[last] * i / 4;
      b.box.extent[last] = b.shape[last] * (i + 1) / 4 - b.box.offset[last];
      columns.owned[static_cast<std::size_t>(i)].push_back(std::move(b));
    }
  const auto data = (from / data_file_name(0)).string();
  compare("reshard", sample.mib, pairs,
          [&] {
            fs::remove_all(to);
            fs::remove(copy);
          },
          [&] { reshard(reader, to, columns); },
          [&] { run("cp --reflink=never " + data + " " + copy.string() + " && sync " + copy.string()); });
}

void bench_codec(int pairs) {
  constexpr std::size_t kFrames = 32;
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<bf16> weights(kChunkBytes / 2);
  for (auto& w : weights) w = to_bf16(normal(rng));
  const std::span<const std::byte> raw(reinterpret_cast<const std::byte*>(weights.data()), kChunkBytes);
  std::vector<std::byte> out(kChunkBytes);
  PlaneCodec codec;
  std::vector<std::uint32_t> sizes;
  const auto packed = codec.pack(raw, 2, sizes);
  const std::vector<std::byte> stored(packed.begin(), packed.end());
  const auto many = [](const Act& act) {
    return [act] {
      for (std::size_t i = 0; i < kFrames; ++i) act();
    };
  };
  const double mib = static_cast<double>(kFrames * kChunkBytes) / (1 << 20);
  const Act copy = many([&] {
    std::memcpy(out.data(), raw.data(), kChunkBytes);
    asm volatile("" : : "r"(out.data()) : "memory");
  });
  compare("pack", mib, pairs, [] {}, many([&] { (void)codec.pack(raw, 2, sizes); }), copy);
  compare("unpack", mib, pairs, [] {}, many([&] { (void)codec.unpack(stored, sizes, out); }), copy);
  std::printf("packed size\t%.3f\t-\t-\n", static_cast<double>(stored.size()) / static_cast<double>(kChunkBytes));
}

void bench_open(const fs::path& root, int pairs) {
  std::vector<TensorShard> shards;
  static const float values[16] = {};
  for (int i = 0; i < 100000; ++i) {
    TensorShard s;
    s.what = {fmt::format("decoder.layers.{}.mlp.linear_fc1.weight", i), "weight", DType::f32, {4, 4}, whole({4, 4})};
    s.bytes = reinterpret_cast<const std::byte*>(values);
    shards.push_back(std::move(s));
  }
  write_rank(begin_save(root / "many", 0), 0, shards);
  const auto dir = commit(root / "many", CheckpointMeta());
  std::vector<double> a, b;
  for (int i = 0; i <= pairs; ++i) {
    a.push_back(seconds([&] { (void)read_manifest(dir); }));
    b.push_back(seconds([&] { (void)read_file(dir / kManifestName); }));
  }
  std::printf("open, ms\t%.1f\t%.1f\t%.2f\n", 1e3 * median(a), 1e3 * median(b), median(b) / median(a));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: bench_ckpt DIRECTORY [MiB] [PAIRS]\n"), 2;
  const fs::path root = fs::path(argv[1]) / "bench_ckpt.tmp";
  const std::int64_t mib = argc > 2 ? std::atoll(argv[2]) : 512;
  const int pairs = argc > 3 ? std::atoi(argv[3]) : 10;

  std::printf("what\tours_MB_s\tpeer_MB_s\tratio\n");
  const Sample sample(mib);
  bench_writes(root, sample, pairs);
  bench_reads(root, sample, pairs);
  bench_reshard(root, sample, pairs);
  bench_codec(pairs);
  bench_open(root, pairs);
  fs::remove_all(root);
  return 0;
}
