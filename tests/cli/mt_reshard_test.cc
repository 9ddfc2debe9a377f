#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include <fmt/format.h>

#include "cli/run_tool.h"

namespace mt {
namespace {

struct MtReshard : test::ToolTest {
  void SetUp() override {
    test::ToolTest::SetUp();
    if (IsSkipped()) return;
    good("mt-ckpt random --save a --iteration 20 --consumed-samples 160 --optimizer --bf16 --vocab-size 261 "
         "--num-attention-heads 8 --group-query-attention --num-query-groups 2 --swiglu --untie-embeddings-and-output-weights");
  }
  std::string to(const std::string& from, const std::string& into, int tp, int dp) {
    return fmt::format("mt-reshard --load {} --save {} --target-tensor-parallel-size {} --target-data-parallel-size {} "
                       "--registry none ", from, into, tp, dp);
  }
};

TEST_F(MtReshard, EveryLayoutHoldsTheSameStateBitwiseAndComesBack) {
  std::string previous = "a";
  int n = 0;
  for (const auto& [tp, dp] : std::vector<std::pair<int, int>>{{2, 1}, {4, 1}, {8, 1}, {1, 2}, {1, 4}, {2, 2}, {4, 3}, {1, 1}}) {
    const auto into = fmt::format("r{}", n++);
    const auto j = good(to(previous, into, tp, dp) + "--json").objects()[0];
    EXPECT_EQ(j["ranks"], tp * dp);
    EXPECT_EQ(j["iteration"], 20);
    good("mt-ckpt diff a " + into);
    EXPECT_EQ(good("mt-ckpt verify --json " + into).objects()[0]["result"], "sound");
    const auto info = good("mt-ckpt info --json " + into).objects()[0];
    EXPECT_EQ(info["specs"]["parallel"]["tp"], tp);
    EXPECT_EQ(info["specs"]["parallel"]["dp"], dp);
    EXPECT_EQ(info["consumed_samples"], 160);
    previous = into;
  }
}

TEST_F(MtReshard, PacksUnpacksAndNarrowsWeights) {
  good("mt-reshard --load a --save packed --ckpt-codec planes-zstd --registry none");
  EXPECT_EQ(good("mt-ckpt info --json packed").objects()[0]["codec"], "planes-zstd");
  EXPECT_EQ(good("mt-ckpt verify --json packed").objects()[0]["result"], "sound");
  good("mt-ckpt diff a packed");
  good("mt-reshard --load packed --save plain --ckpt-codec none --registry none");
  EXPECT_EQ(good("mt-ckpt info --json plain").objects()[0]["codec"], "none");
  good("mt-ckpt diff a plain");
  good("mt-reshard --load packed --save narrow --weights-only --save-dtype f16 --registry none");
  EXPECT_EQ(good("mt-ckpt info --json --tensors narrow").objects()[1]["dtype"], "f16");
  const auto refused = run("mt-reshard --load a --save none --save-dtype f16 --num-shards 2");
  EXPECT_EQ(refused.status, 2);
  EXPECT_CONTAINS(refused.err, "--weights-only");
}

// A layout after a layout, of a dense model and of one with experts: depths, chunks, stages, shards, and back.
TEST_F(MtReshard, EveryAxisOfALayoutHoldsTheSameStateAndComesBack) {
  good("mt-ckpt random --save dense --optimizer --bf16 --vocab-size 67 --num-layers 8 --hidden-size 32 --num-attention-heads 4");
  good("mt-ckpt random --save moe --optimizer --bf16 --vocab-size 67 --num-layers 4 --hidden-size 32 --num-attention-heads 4 "
       "--swiglu --disable-bias-linear --num-experts 4 --moe-ffn-hidden-size 48 --moe-shared-expert-intermediate-size 16 "
       "--untie-embeddings-and-output-weights");
  const std::vector<std::pair<const char*, int>> dense{
      {"pipeline-parallel-size 4", 4},
      {"pipeline-parallel-size 2 --target-num-virtual-stages-per-pipeline-rank 4 --target-data-parallel-size 2", 4},
      {"data-parallel-sharding-strategy optim --target-data-parallel-size 3", 6},
      {"pipeline-parallel-size 2 --target-v-shape --target-tensor-parallel-size 2", 12},
      {"pipeline-model-parallel-layout 'Et*3|tt|tttL' --target-pipeline-parallel-size 3 --target-num-virtual-stages-per-pipeline-rank 1", 18},
      {"data-parallel-sharding-strategy optim_grads_params --target-pipeline-parallel-size 1 --target-data-parallel-size 4", 8},
      {"tensor-parallel-size 1 --target-data-parallel-size 1 --target-data-parallel-sharding-strategy no_shard", 1}};
  const std::vector<std::pair<const char*, int>> moe{
      {"expert-parallel-size 2 --target-data-parallel-size 2", 2},
      {"tensor-parallel-size 2 --target-data-parallel-size 4 --target-expert-tensor-parallel-size 1", 8},
      {"data-parallel-sharding-strategy optim --target-expert-parallel-size 4 --target-pipeline-parallel-size 2", 16},
      {"expert-tensor-parallel-size 2 --target-expert-parallel-size 1", 16},
      {"expert-parallel-size 1 --target-tensor-parallel-size 1 --target-pipeline-parallel-size 1 --target-data-parallel-size 1", 1}};
  for (const auto& [model, layouts] : {std::pair{std::string("dense"), dense}, {std::string("moe"), moe}}) {
    std::string previous = model;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      SCOPED_TRACE(layouts[i].first);
      const auto into = model + std::to_string(i);
      const auto j = good("mt-reshard --load " + previous + " --save " + into + " --registry none --json --target-" + layouts[i].first);
      EXPECT_EQ(j.objects()[0]["ranks"], layouts[i].second);
      good("mt-ckpt diff " + model + " " + into);
      EXPECT_EQ(good("mt-ckpt verify --json " + into).objects()[0]["result"], "sound");
      previous = into;
    }
  }
  auto o = run("mt-reshard --load dense --save no --target-pipeline-parallel-size 3 --registry none");
  EXPECT_EQ(o.status, 3);
  EXPECT_CONTAINS(o.err, "num-layers 8");
  o = run("mt-reshard --load dense --save no --target-pipeline-parallel-size 2 --target-pipeline-model-parallel-layout 'Ettt|tttL' --registry none");
  EXPECT_EQ(o.status, 3);
  EXPECT_CONTAINS(o.err, "8");
  EXPECT_FALSE(fs::exists(*this / "no"));
}

TEST_F(MtReshard, WeightsAloneAreLeftByNameOnly) {
  good("mt-reshard --load a --save w --weights-only --registry none");
  const auto tensors = good("mt-ckpt info --json --tensors w").objects();
  ASSERT_GT(tensors.size(), 5u);
  for (const auto& t : tensors)
    if (t.contains("kind")) {
      EXPECT_EQ(t["kind"], "weight");
    }
  good("mt-ckpt diff --kind weight a w");
  EXPECT_EQ(run("mt-ckpt diff a w").status, 1);
  good("mt-reshard --load a --save w2 --weights-only --target-tensor-parallel-size 2 --registry none");
  good("mt-ckpt diff w w2");
}

TEST_F(MtReshard, AFileAboveTheLimitOnItsSizeIsAnIoErrorAndLeavesNoCheckpoint) {
  const auto o = run("ulimit -f 40 && " + to("a", "limited", 2, 1));
  EXPECT_EQ(o.status, 5) << o.err;
  EXPECT_CONTAINS(o.err, "ulimit -f");
  EXPECT_FALSE(fs::exists(*this / "limited/iter_0000020"));
}

TEST_F(MtReshard, RanksOwnAboutEqualBytesAndEachByteOnce) {
  good("mt-ckpt random --save even --optimizer --bf16 --vocab-size 2048 --hidden-size 256");
  const auto all = good("mt-ckpt info even --json").objects()[0]["tensor_bytes"].get<std::uint64_t>();
  for (const auto& [tp, dp] : std::vector<std::pair<int, int>>{{2, 1}, {1, 4}, {2, 4}}) {
    std::uint64_t sum = 0, most = 0;
    const auto ranks = good(to("even", "none", tp, dp) + "--dry-run --json").objects();
    ASSERT_EQ(ranks.size(), static_cast<std::size_t>(tp * dp));
    for (const auto& r : ranks) {
      sum += r["bytes"].get<std::uint64_t>();
      most = std::max(most, r["bytes"].get<std::uint64_t>());
    }
    EXPECT_EQ(sum, all);
    EXPECT_LE(static_cast<double>(most) * static_cast<double>(ranks.size()), 1.05 * static_cast<double>(all));
  }
  EXPECT_FALSE(fs::exists(*this / "none"));
}

TEST_F(MtReshard, ShardsByRowsNeedNoModel) {
  const auto manifest = *this / "a/iter_0000020/manifest.json";
  auto text = read_file(manifest);
  text.replace(text.find("\"parallel\""), 10, "\"previous\"");
  text.replace(text.rfind(",\n \"xxh3\""), std::string::npos, "}\n");  // the checksum is of the text before
  write_file_atomic(manifest, text);
  const auto o = run(to("a", "b", 2, 1));
  EXPECT_EQ(o.status, 3);
  EXPECT_CONTAINS(o.err, "--num-shards");
  EXPECT_EQ(good("mt-reshard --load a --save b --num-shards 3 --registry none").rows()[1][1], "3");
  good("mt-ckpt diff a b");
}

TEST_F(MtReshard, RefusesWhatCannotBeBeforeWriting) {
  EXPECT_EQ(run(to("a", "b", 3, 1)).status, 3);
  EXPECT_EQ(run("mt-reshard --load a --save b").status, 2);
  EXPECT_EQ(run("mt-reshard --save b --num-shards 2").status, 2);
  EXPECT_EQ(run("mt-reshard --load a --num-shards 2").status, 2);
  EXPECT_EQ(run("mt-reshard --load a --save b --num-shards 2 --target-tensor-parallel-size 2").status, 2);
  EXPECT_EQ(run(to("none", "b", 2, 1)).status, 5);
  EXPECT_EQ(run(to("a", "a", 2, 1)).status, 3);
  EXPECT_EQ(run(to("a", "b", 2, 1) + "--ckpt-step 5").status, 3);
  EXPECT_FALSE(fs::exists(*this / "b"));
}

TEST_F(MtReshard, WritesOverNothingAndMovesNoTrackerBack) {
  good("mt-ckpt random --save other --iteration 30 && cp -r other before");
  auto o = run(to("a", "other", 2, 1));
  EXPECT_EQ(o.status, 3);
  EXPECT_CONTAINS(o.err, "its tracker would go back to 20");
  EXPECT_EQ(run(to("a", "other", 2, 1) + "--force").status, 3);
  good("diff -r other before");
  good(to("a", "b", 2, 1));
  o = run(to("a", "b", 1, 2));
  EXPECT_EQ(o.status, 3);
  EXPECT_CONTAINS(o.err, "--force replaces it");
  good(to("a", "b", 1, 2) + "--force");
  o = run("mkdir held && flock held/.lock " + to("a", "held", 2, 1));
  EXPECT_EQ(o.status, 5);
  EXPECT_CONTAINS(o.err, "another run is saving there");
  o = run(to("a", "b/iter_0000020", 2, 1));
  EXPECT_EQ(o.status, 3);
  EXPECT_CONTAINS(o.err, "is an iteration, not a --save directory");
  EXPECT_EQ(good("mt-ckpt verify b --json").objects()[0]["result"], "sound");
}

TEST_F(MtReshard, MoreRanksThanAnybodyHasAreASlip) {
  for (const char* flag : {"--num-shards", "--target-tensor-parallel-size", "--target-data-parallel-size"}) {
    const auto o = run(std::string("mt-reshard --load a --save b --registry none ") + flag + " 1000000");
    EXPECT_EQ(o.status, 2) << flag;
    EXPECT_CONTAINS(o.err, flag);
  }
  EXPECT_EQ(run(to("a", "b", 65536, 65536)).status, 2);
}

TEST_F(MtReshard, IsNotedInTheRegistryWithItsOptions) {
  good("mt-reshard --load a --save b --num-shards 2 --registry r.db");
  const auto j = good("mt-runs show last --registry r.db --json").objects()[0];
  EXPECT_EQ(j["tool"], "mt-reshard");
  EXPECT_EQ(j["status"], "done");
  EXPECT_EQ(j["options"]["num-shards"], "2");
  EXPECT_EQ(j["checkpoint_events"][0]["iteration"], 20);
}

TEST_F(MtReshard, MemoryDoesNotGrowWithTheModel) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps freed memory";
#endif
  good("mt-ckpt random --save large --optimizer --vocab-size 16384 --hidden-size 512");
  const auto bytes = good("mt-ckpt info large --json").objects()[0]["tensor_bytes"].get<std::uint64_t>();
  const auto program = bin_ + "/mt-reshard", from = (*this / "large").string(), into = (*this / "cut").string();
  const auto pid = ::fork();
  if (pid == 0) {
    ::execl(program.c_str(), "mt-reshard", "--load", from.c_str(), "--save", into.c_str(), "--quiet", "--registry", "none",
            "--target-tensor-parallel-size", "4", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  struct rusage use {};
  ASSERT_EQ(::wait4(pid, &status, 0, &use), pid);
  EXPECT_EQ(status, 0);
  EXPECT_GT(bytes, std::uint64_t{150} << 20);
  EXPECT_LT(use.ru_maxrss, 140 << 10) << "KiB resident at most";
}

// A disk that fails, fills or a kill at the n-th file operation, for every n, onto a new iteration and onto an existing one: the
// destination's tracker names a complete checkpoint with the content of that iteration.
struct MtReshardFault : MtReshard {
  void SetUp() override {
    MtReshard::SetUp();
    if (IsSkipped()) return;
    const char* library = std::getenv("MT_TEST_FAULT_LIB");
    if (library == nullptr || *library == '\0') GTEST_SKIP() << "no fault shim in this build";
    library_ = library;
    good("mt-ckpt random --save small --iteration 20 --num-layers 1 --hidden-size 8 --num-attention-heads 2 --vocab-size 11");
    good("mt-ckpt random --save older --iteration 10 --num-layers 1 --hidden-size 8 --num-attention-heads 2 --vocab-size 11 --seed 7");
    good("mt-ckpt random --save again --iteration 20 --num-layers 1 --hidden-size 8 --num-attention-heads 2 --vocab-size 11 --seed 7");
  }
  std::string faulty(const std::string& fault) {
    return "MT_TEST_FAULT=" + fault + ":/dest/ MT_TEST_FAULT_LOG=operations LD_PRELOAD=" + library_ +
           " mt-reshard --load small --save dest --num-shards 2 --force --registry none";
  }
  void drill(const std::string& before, const std::string& action) {
    const auto prepare = "rm -rf dest operations && cp -r " + before + " dest && ";
    good(prepare + faulty("log:any:0"));
    const auto operations = std::stoi(good("wc -l < operations").out);
    ASSERT_GT(operations, 15);
    int failed = 0;
    for (int n = 1; n <= operations; ++n) {
      const auto o = run(prepare + faulty(fmt::format("{}:any:{}", action, n)));
      failed += o.status != 0;
      EXPECT_TRUE(o.status == (action == "kill" ? 137 : 5) || (action != "kill" && o.status == 0)) << n << o.err;
      const auto check = run("t=$(cat dest/latest_checkpointed_iteration.txt) && mt-ckpt verify --quiet dest/iter_00000$t && "
                             "mt-ckpt info --json dest");
      ASSERT_EQ(check.status, 0) << action << " at operation " << n << ": " << check.err;
      const auto iteration = Json::parse(check.out.substr(check.out.rfind('{', check.out.find("\"iteration\""))))["iteration"];
      const bool is_new = run("mt-ckpt diff --quiet small dest").status == 0;
      const bool is_old = run("mt-ckpt diff --quiet " + before + " dest").status == 0;
      EXPECT_TRUE(is_new != is_old) << n;
      EXPECT_TRUE(is_new || o.status != 0) << n;
      EXPECT_EQ(iteration, is_new || before == "again" ? 20 : 10) << n;
    }
    EXPECT_GT(failed, operations / 2);
    // The next attempt clears what was left and succeeds.
    good(faulty("log:any:0"));
    good("mt-ckpt diff small dest");
    EXPECT_EQ(good("ls -A dest | grep -c tmp || true").out, "0\n");
  }
  std::string library_;
};

TEST_F(MtReshardFault, KilledAtAnyFileOperationOfANewIteration) { drill("older", "kill"); }
TEST_F(MtReshardFault, KilledAtAnyFileOperationOverAnExistingIteration) { drill("again", "kill"); }
TEST_F(MtReshardFault, AFullDiskAtAnyFileOperation) { drill("older", "enospc"); }
TEST_F(MtReshardFault, ADiskErrorAtAnyFileOperationOverAnExistingIteration) { drill("again", "eio"); }

}  // namespace
}  // namespace mt
