// Losses of a blend by member: their mean is the loss of the line, and they are the same in every layout.

#include <cmath>

#include "data/indexed_dataset.h"
#include "registry/event_log.h"
#include "train/run_record.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

void write_tokens(const std::string& prefix, int documents, std::int32_t first) {
  data::IndexedWriter writer(prefix, data::TokenType::u16, false);
  for (int d = 0; d < documents; ++d) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 20 + d % 11; ++i) ids.push_back((first + d * 7 + i * i * first) % 61);
    writer.add_sequence(ids);
    writer.end_document();
  }
  writer.commit(std::nullopt);
}

using Sources = std::map<std::int64_t, Json>;  // by iteration

TEST(SourceLoss, IsTheSameInEveryLayoutAndItsMeanIsTheLoss) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.data.mock_data = false;
  write_tokens(dir / "a", 60, 1);
  write_tokens(dir / "b", 40, 3);
  write_tokens(dir / "c", 50, 5);
  o.data.data_path = {"0.5", dir / "a", "0.3", dir / "b", "0.2", dir / "c"};
  o.data.cache_path = (dir / "cache").string();
  o.train_iters = 6;
  o.log_interval = 3;
  const struct { int ranks, tp, pp; } layouts[] = {{1, 1, 1}, {2, 1, 1}, {2, 2, 1}, {2, 1, 2}, {4, 1, 2}};
  Sources first;
  for (const auto& l : layouts) {
    auto mine = o;
    mine.parallel.tp = l.tp;
    mine.parallel.pp = l.pp;
    const auto curve = test::run_tiny(mine, l.ranks);
    const auto record = read_event_log(o.metrics_file);
    EXPECT_EQ(record.runs.back()["data"]["training"]["members"].size(), 3u);
    EXPECT_FALSE(record.steps.at(2).contains("sources"));
    std::int64_t from = 0;
    for (const std::int64_t i : {1, 3, 6}) {
      const Json sources = record.steps.at(i)["sources"];
      double loss = 0, tokens = 0, samples = 0;
      for (const Json& s : sources) {
        loss += s["loss"].get<double>() * s["tokens"].get<double>();
        tokens += s["tokens"].get<double>();
        samples += s["samples"].get<double>();
      }
      double mean = 0;
      for (std::int64_t k = from; k < i; ++k) mean += curve.loss[static_cast<std::size_t>(k)] / static_cast<double>(i - from);
      EXPECT_EQ(samples, static_cast<double>(16 * (i - from)));
      EXPECT_NEAR(loss / tokens, mean, 1e-9 * mean);
      from = i;
      if (first.count(i) == 0) first[i] = sources;
      ASSERT_EQ(sources.size(), first[i].size());
      for (std::size_t s = 0; s < sources.size(); ++s) {
        EXPECT_EQ(sources[s]["member"], first[i][s]["member"]);
        EXPECT_EQ(sources[s]["samples"], first[i][s]["samples"]);
        const double want = first[i][s]["loss"];
        EXPECT_NEAR(sources[s]["loss"].get<double>(), want, test::kLossBound * want);
      }
    }
  }
  ASSERT_EQ(first[6].size(), 3u);
  EXPECT_NE(first[6][0]["loss"], first[6][1]["loss"]);
}

TEST(SourceLoss, HasALineForFewMembersAndIsLeftOutForOneFile) {
  const std::vector<std::string> names = {"x/a", "x/b"};
  EXPECT_EQ(source_line({{0, 24, 1, 3.25}, {1, 8, 1, 2}}, names),
            " loss by source | a: 3.250000E+00 (24 samples) | b: 2.000000E+00 (8 samples) |");
  EXPECT_EQ(source_line(std::vector<SourceLoss>(9), std::vector<std::string>(20, "x")),
            " loss by source | 9 of 20 had samples |");
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.data.mock_data = false;
  write_tokens(dir / "a", 60, 1);
  o.data.data_path = {(dir / "a").string()};
  o.train_iters = 1;
  test::run_tiny(o, 1);
  EXPECT_FALSE(read_event_log(o.metrics_file).steps.at(1).contains("sources"));
}

}  // namespace
}  // namespace mt
