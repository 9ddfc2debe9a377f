// TensorBoard files read back by a reader written here from the format's description.

#include "train/tensorboard.h"

#include <cstring>
#include <fstream>
#include <map>

#include "base/files.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

// Bit by bit, from the polynomial.
std::uint32_t crc_by_definition(std::string_view bytes) {
  std::uint32_t c = ~0u;
  for (const char b : bytes) {
    c ^= static_cast<unsigned char>(b);
    for (int i = 0; i < 8; ++i) c = c & 1 ? (c >> 1) ^ 0x82f63b78u : c >> 1;
  }
  return ~c;
}

std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8u;
  return rotated >> 17 | rotated << 15;
}

template <class T>
T take(std::string_view& in) {
  T v;
  EXPECT_GE(in.size(), sizeof v);
  std::memcpy(&v, in.data(), sizeof v);
  in.remove_prefix(sizeof v);
  return v;
}

std::uint64_t varint(std::string_view& in) {
  std::uint64_t v = 0;
  for (int shift = 0;; shift += 7) {
    const auto b = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    v |= static_cast<std::uint64_t>(b & 0x7f) << shift;
    if (b < 0x80) return v;
  }
}

struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version, tag;
  float value = 0;
};

void read_fields(std::string_view in, Event& e, int depth) {
  while (!in.empty()) {
    const auto key = varint(in);
    const auto field = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0: {
        const auto v = varint(in);
        if (depth == 0 && field == 2) e.step = static_cast<std::int64_t>(v);
        break;
      }
      case 1: e.wall_time = take<double>(in); break;
      case 2: {
        const auto size = varint(in);
        const auto bytes = in.substr(0, size);
        in.remove_prefix(size);
        if (depth == 0 && field == 3) e.version = bytes;
        else if (depth == 2 && field == 1) e.tag = bytes;
        else read_fields(bytes, e, depth + 1);
        break;
      }
      case 5: e.value = take<float>(in); break;
      default: FAIL() << "wire type " << (key & 7);
    }
  }
}

std::vector<Event> read_events(const fs::path& file) {
  const std::string all = read_file(file);
  std::string_view in = all;
  std::vector<Event> events;
  while (!in.empty()) {
    const std::string_view length_bytes = in.substr(0, 8);
    const auto length = take<std::uint64_t>(in);
    EXPECT_EQ(unmasked(take<std::uint32_t>(in)), crc_by_definition(length_bytes));
    const std::string_view body = in.substr(0, length);
    in.remove_prefix(length);
    EXPECT_EQ(unmasked(take<std::uint32_t>(in)), crc_by_definition(body));
    read_fields(body, events.emplace_back(), 0);
  }
  return events;
}

TEST(Tensorboard, TheChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c("the quick brown fox"), crc_by_definition("the quick brown fox"));
}

TEST(Tensorboard, ARunsCurvesReadBackAsItsRecordHasThem) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 6;
  o.eval_interval = 3;
  o.eval_iters = 1;
  o.tensorboard_dir = dir / "tb";
  o.tensorboard_log_interval = 2;
  const auto curve = test::run_tiny(o, 2);
  std::vector<fs::path> files;
  for (const auto& f : fs::directory_iterator(dir / "tb")) files.push_back(f.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].filename().string().rfind("events.out.tfevents.", 0), 0u);
  const auto events = read_events(files[0]);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].version, "brain.Event:2");
  std::map<std::string, std::map<std::int64_t, float>> curves;
  for (const auto& e : events) {
    EXPECT_GT(e.wall_time, 1e9);
    if (!e.tag.empty()) curves[e.tag][e.step] = e.value;
  }
  for (std::int64_t i : {2, 4, 6}) {
    EXPECT_EQ(curves["lm loss"][i], static_cast<float>(curve.loss[static_cast<std::size_t>(i - 1)]));
    EXPECT_EQ(curves["lm loss vs samples"][16 * i], curves["lm loss"][i]);
    EXPECT_EQ(curves["grad-norm"][i], static_cast<float>(curve.grad_norm[static_cast<std::size_t>(i - 1)]));
    EXPECT_EQ(curves["batch-size"][i], 16);
    EXPECT_EQ(curves["learning-rate"][i], 1e-3f);
  }
  EXPECT_EQ(curves["lm loss"].size(), 3u);
  EXPECT_EQ(curves["lm loss validation"].size(), 2u);
  EXPECT_EQ(curves["lm loss validation ppl"].count(6), 1u);
}

TEST(Tensorboard, ADirectoryThatCannotBeMadeIsAWarningAndTheRunGoesOn) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 3;
  std::ofstream(dir / "file") << "no directory";
  o.tensorboard_dir = dir / "file" / "tb";
  testing::internal::CaptureStderr();
  const auto curve = test::run_tiny(o, 1);
  const auto text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(curve.status, 0);
  EXPECT_EQ(curve.loss.size(), 3u);
  EXPECT_NE(text.find("no curves are written"), std::string::npos) << text;
}

}  // namespace
}  // namespace mt
