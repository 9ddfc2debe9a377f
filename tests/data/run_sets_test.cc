// Which sets a run has: paths out of files, numbers of samples, full passes, the plan.

#include "data/run_sets.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

using Words = std::vector<std::string>;

std::string write_file(const ScratchDirectory& dir, const std::string& name, int documents, std::int32_t id) {
  IndexedWriter writer(dir / name, TokenType::u16, false);
  for (int d = 0; d < documents; ++d) {
    writer.add_sequence(std::vector<std::int32_t>(20, id));
    writer.end_document();
  }
  writer.commit(std::nullopt);
  return dir / name;
}

std::string refusal(SetOptions o) {
  try {
    read_path_files(o);
  } catch (const Error& e) {
    return e.what();
  }
  return "taken";
}

TEST(PathFiles, stand_for_the_flags_they_name) {
  const ScratchDirectory dir;
  SetOptions o;
  o.data_args_path = dir.file("args", "0.3 a\n\t0.7 b\n");
  read_path_files(o);
  EXPECT_EQ(o.data_path, (Words{"0.3", "a", "0.7", "b"}));
  read_path_files(o);  // again is no clash
  EXPECT_EQ(parse_data_path(o.data_path).weights, (std::vector<double>{0.3, 0.7}));
  SetOptions split;
  split.per_split_data_args_path =
      dir.file("split", R"({"train": [0.3, "a", "0.7", "b"], "valid": "c d  e", "test": null})");
  read_path_files(split);
  read_path_files(split);
  EXPECT_EQ(split.train_path, (Words{"0.3", "a", "0.7", "b"}));
  EXPECT_EQ(split.valid_path, (Words{"c", "d", "e"}));
  EXPECT_TRUE(split.test_path.empty());
}

TEST(ValidationSets, have_a_name_each_and_no_weights) {
  EXPECT_EQ(names_of_sets({{"x/a", "y/b"}, {}}, {}), (Words{"a", "b"}));
  EXPECT_EQ(names_of_sets({{"x/a", "y/a"}, {}}, {}), (Words{"x/a", "y/a"}));
  EXPECT_EQ(names_of_sets({{"x/a", "y/b"}, {}}, {"one", "two"}), (Words{"one", "two"}));
  const auto refused = [](const DataPath& path) {
    try {
      names_of_sets(path, {});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::config);
      return std::string(e.what());
    }
    return std::string("taken");
  };
  EXPECT_NE(refused({{"b", "b"}, {}}).find("'b' is named twice"), std::string::npos);
  EXPECT_NE(refused({{"x/b", "./x/b"}, {}}).find("'./x/b' is named twice"), std::string::npos);
  EXPECT_NE(refused({{"a", "b"}, {0.5, 0.5}}).find("weights would not count"), std::string::npos);
}

TEST(ExpectedSets, are_those_that_are_built) {
  const ScratchDirectory dir;
  RunSetsRequest r;
  r.seq_length = 7;
  r.samples = {40, 12, 4};
  r.paths.split = "6,3,1";
  for (const std::vector<std::string>& path : {Words{write_file(dir, "a", 30, 1)}, Words{"0.7", dir / "a", "0.3", write_file(dir, "b", 50, 2)}}) {
    r.paths.data_path = path;
    IndexCache cache;
    const auto built = open_run_sets(r, cache);
    const ExpectedSets expected = expect_run_sets(r);
    ASSERT_EQ(expected.sets.size(), built->all().size());
    for (std::size_t i = 0; i < expected.sets.size(); ++i) {
      const RunSets::Set& set = *built->all()[i];
      EXPECT_EQ(expected.sets[i].name, set.name);
      ASSERT_EQ(expected.sets[i].members.size(), set.samples.plan().size());
      for (std::size_t m = 0; m < set.samples.plan().size(); ++m) {
        const MemberPlan& plan = set.samples.plan()[m];
        const ExpectedMember& member = expected.sets[i].members[m];
        EXPECT_EQ(member.prefix, plan.prefix);
        EXPECT_EQ(member.type, "uint16");
        EXPECT_EQ(member.documents, plan.sequences);
        EXPECT_EQ(member.tokens, plan.tokens);
        EXPECT_EQ(member.made, plan.made);
        EXPECT_NEAR(static_cast<double>(member.samples), static_cast<double>(plan.samples), 1);
      }
    }
  }
  r.paths.split = "1,0,0";  // what cannot be built is not expected either
  EXPECT_THROW(expect_run_sets(r), Error);
  r.paths.split = "6,3,1";
  r.paths.data_path = {dir / "a", dir / "b"};
  r.samples[0] = 1000;
  EXPECT_THROW(expect_run_sets(r), Error);
}

TEST(MixedEnds, of_documents_in_one_blend_are_said) {
  const ScratchDirectory dir;
  for (const bool ends : {false, true}) {
    IndexedWriter writer(dir / (ends ? "with" : "without"), TokenType::u16, false);
    for (int d = 0; d < 20; ++d) {
      writer.add_sequence(std::vector<std::int32_t>(20, 3));
      writer.end_document();
    }
    TokenFileOrigin origin;
    origin.vocab_size = 10;
    origin.eod = 9;
    origin.eod_appended = ends;
    writer.commit(origin);
  }
  RunSetsRequest r;
  r.seq_length = 7;
  r.samples = {10, 0, 0};
  r.paths.split = "1";
  r.paths.data_path = {"0.5", dir / "with", "0.5", dir / "without"};
  const auto notices = expect_run_sets(r).notices;
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find(dir / "with"), std::string::npos);
  IndexCache cache;
  EXPECT_EQ(open_run_sets(r, cache)->notices, notices);
  r.paths.data_path = {dir / "with"};
  EXPECT_TRUE(expect_run_sets(r).notices.empty());
}

TEST(PathFiles, that_clash_or_say_nothing_are_refused) {
  const ScratchDirectory dir;
  const std::string args = dir.file("args", "a"), split = dir.file("split", R"({"train": "a"})");
  SetOptions o;
  o.data_args_path = args;
  o.per_split_data_args_path = split;
  EXPECT_NE(refusal(o).find("exclude each other"), std::string::npos);
  SetOptions twice;
  twice.per_split_data_args_path = dir.file("twice", R"({"train": "a", "valid": {"train": 1}, "train": "b"})");
  EXPECT_NE(refusal(twice).find("the key 'train' is there twice"), std::string::npos) << refusal(twice);
  o.per_split_data_args_path.clear();
  o.data_path = {"b"};
  EXPECT_NE(refusal(o).find("beside other flags"), std::string::npos);
  o.data_path.clear();
  o.data_args_path = dir.file("empty", " \n");
  EXPECT_NE(refusal(o).find("no token file is named"), std::string::npos);
  o.data_args_path = dir / "absent";
  EXPECT_NE(refusal(o).find("absent"), std::string::npos);
  const auto json = [&](const std::string& text) {
    SetOptions p;
    p.per_split_data_args_path = dir.file("json", text);
    return refusal(p);
  };
  EXPECT_NE(json(R"({"trian": "a"})").find("'trian' is no key"), std::string::npos);
  EXPECT_NE(json(R"({"valid": "a"})").find("no token file is named for 'train'"), std::string::npos);
  EXPECT_NE(json(R"({"train": {"a": 1}})").find("'train' is neither"), std::string::npos);
  EXPECT_NE(json(R"([1])").find("wanted an object"), std::string::npos);
  EXPECT_NE(json(R"({"train": "a")").find("json"), std::string::npos);
}

TEST(RunSets, need_the_samples_megatron_counts) {
  using Three = std::array<std::int64_t, 3>;
  SetLength l;
  l.train_iters = 100;
  l.global_batch = 8;
  l.eval_iters = 3;
  EXPECT_EQ(samples_wanted(l), (Three{800, 0, 0}));
  l.eval_interval = 30;
  EXPECT_EQ(samples_wanted(l), (Three{800, (3 + 1) * 3 * 8, 24}));
  l.train_samples = 805;
  EXPECT_EQ(samples_wanted(l), (Three{805, 96, 24}));
}

RunSetsRequest request_of(const SetOptions& paths) {
  RunSetsRequest r;
  r.paths = paths;
  r.samples = {40, 6, 2};
  r.seq_length = 8;
  return r;
}

TEST(RunSets, of_one_path_are_its_parts) {
  const ScratchDirectory dir;
  SetOptions paths;
  paths.data_path = {write_file(dir, "a", 100, 1)};
  paths.split = "8,1,1";
  IndexCache cache(dir / "cache");
  const auto sets = open_run_sets(request_of(paths), cache);
  EXPECT_EQ(sets->all().size(), 3u);
  EXPECT_EQ(sets->train->samples.plan()[0].sequences, 80);
  EXPECT_EQ(sets->valid.at(0).samples.plan()[0].sequences, 10);
  EXPECT_EQ(cache.report().built, 3);
  paths.split = "98,1.9,0.1";  // no document for a test
  const auto two = open_run_sets(request_of(paths), cache);
  EXPECT_FALSE(two->test);
  ASSERT_EQ(two->notices.size(), 1u);
  EXPECT_NE(two->notices[0].find("there will be no test loss"), std::string::npos);
}

TEST(RunSets, of_full_passes_are_read_once_also_out_of_the_cache) {
  const ScratchDirectory dir;
  SetOptions paths;
  paths.train_path = {write_file(dir, "t", 100, 1)};
  paths.valid_path = {write_file(dir, "a", 10, 2), write_file(dir, "b", 30, 3)};
  RunSetsRequest r = request_of(paths);
  r.full_validation = true;
  for (const int hits : {0, 4}) {
    IndexCache cache(dir / "cache");
    const auto sets = open_run_sets(r, cache);
    ASSERT_EQ(sets->valid.size(), 1u);
    EXPECT_EQ(sets->valid[0].pass, 199 / 8 + 599 / 8);
    EXPECT_EQ(sets->valid[0].samples.size(), sets->valid[0].pass);
    EXPECT_EQ(cache.report().hits, hits);
  }
  r.multiple_validation_sets = true;
  r.validation_set_names = {"x", "y"};
  for (const int hits : {3, 3}) {  // the members of the blend are these sets
    IndexCache cache(dir / "cache");
    const auto sets = open_run_sets(r, cache);
    ASSERT_EQ(sets->valid.size(), 2u);
    EXPECT_EQ(sets->valid[1].name, "y");
    EXPECT_EQ(sets->valid[1].pass, 599 / 8);
    EXPECT_EQ(cache.report().hits, hits);
  }
  r.paths.valid_path = {"1", dir / "a", "2", dir / "b"};
  IndexCache none;
  EXPECT_THROW(open_run_sets(r, none), Error);
  r.multiple_validation_sets = false;
  EXPECT_THROW(open_run_sets(r, none), Error);
}

TEST(RunSets, tell_their_plan_shortly) {
  const ScratchDirectory dir;
  SetOptions paths;
  for (int i = 0; i < 20; ++i) {
    paths.data_path.push_back(std::to_string(1 + i % 5));
    paths.data_path.push_back(write_file(dir, "m" + std::to_string(i), 20, 1));
  }
  RunSetsRequest r = request_of(paths);
  r.samples = {100, 0, 0};
  IndexCache cache;
  const auto sets = open_run_sets(r, cache);
  const auto lines = sets->plan_lines(3);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_NE(lines[0].find("of 20 token files"), std::string::npos);
  EXPECT_NE(lines[1].find("m4: 8.33 % of the samples, 9 of 47, "), std::string::npos) << lines[1];
  EXPECT_EQ(lines[4], "  and 17 more");
  const Json plan = sets->plan();
  ASSERT_EQ(plan["training"]["members"].size(), 20u);
  std::int64_t samples = 0;
  for (const Json& m : plan["training"]["members"]) samples += m["samples"].get<std::int64_t>();
  EXPECT_EQ(plan["training"]["samples"], samples);
}

}  // namespace
}  // namespace mt::data
