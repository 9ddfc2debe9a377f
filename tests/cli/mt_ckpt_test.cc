#include <cstring>
#include <fstream>

#include "cli/run_tool.h"

namespace mt {
namespace {

struct MtCkpt : test::ToolTest {
  fs::path data() { return *this / "a/iter_0000020/data_00000.safetensors"; }
  void flip(std::uint64_t byte) {
    std::fstream f(data(), std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(static_cast<std::streamoff>(byte));
    const auto c = static_cast<char>(f.get() ^ 1);
    f.seekp(static_cast<std::streamoff>(byte));
    f.put(c);
  }
};

TEST_F(MtCkpt, ListsIterationsAndWhichOneIsTracked) {
  good("mt-ckpt random --save a --iteration 10 --consumed-samples 80 && mt-ckpt random --save a --iteration 20");
  fs::create_directory(*this / "a/iter_0000015");
  fs::create_directory(*this / "a/.iter_0000030.tmp");
  const auto rows = good("mt-ckpt list a").rows();
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[1][0] + rows[1][1] + rows[1][2] + rows[1][3], "10completeno80");
  EXPECT_EQ(rows[2][1], "incomplete");
  EXPECT_EQ(rows[2][6], "no manifest.json");
  EXPECT_EQ(rows[3][1] + rows[3][2], "completeyes");
  EXPECT_EQ(rows[4][1], "unfinished");
  const auto objects = good("mt-ckpt list --json a").objects();
  ASSERT_EQ(objects.size(), 4u);
  EXPECT_EQ(objects[2]["iteration"], 20);
  EXPECT_EQ(objects[2]["tracked"], true);
}

TEST_F(MtCkpt, InfoReadsTheManifestAlone) {
  good("mt-ckpt random --save a --iteration 20 --optimizer --bf16 --vocab-size 257");
  fs::remove(data());
  EXPECT_EQ(run("mt-ckpt info a").status, 6);  // the only checkpoint is not complete
  good("mt-ckpt random --save a --iteration 20 --force --optimizer --bf16 --vocab-size 257");
  const auto objects = good("mt-ckpt info a --tensors --json").objects();
  EXPECT_EQ(objects[0]["iteration"], 20);
  EXPECT_EQ(objects[0]["format"], "mt-checkpoint");
  EXPECT_EQ(objects[0]["specs"]["model"]["vocab_size"], 257);
  EXPECT_EQ(objects.size(), 1 + objects[0]["tensors"].get<std::size_t>());
  EXPECT_EQ(objects[1]["shape"], Json({257, 64}));
  EXPECT_EQ(objects[1]["dtype"], "bf16");
  std::size_t masters = 0;
  for (const auto& o : objects) masters += o.value("kind", "") == "master";
  EXPECT_EQ(masters * 4, objects.size() - 1);
}

TEST_F(MtCkpt, PrintsValuesInDigitsThatReadBack) {
  good("mt-ckpt random --save a --iteration 20 --optimizer --bf16 --vocab-size 257 --hidden-size 32");
  const auto whole = good("mt-ckpt cat a embedding.word_embeddings.weight").rows();
  ASSERT_EQ(whole.size(), 257u);
  ASSERT_EQ(whole[3].size(), 32u);
  const auto part = good("mt-ckpt cat a embedding.word_embeddings.weight --range 3:5,7:9").rows();
  ASSERT_EQ(part.size(), 2u);
  EXPECT_EQ(part[1], (std::vector<std::string>{whole[4][7], whole[4][8]}));
  // The npy file holds the masters that the text says, bit for bit.
  const auto masters = good("mt-ckpt cat a embedding.word_embeddings.weight --kind master --range :2").rows();
  const auto npy = good("mt-ckpt cat a embedding.word_embeddings.weight --kind master --range :2 --format npy").out;
  ASSERT_EQ(npy.size() % 64, (2 * 32 * 4) % 64) << "the head fills whole lines";
  EXPECT_EQ(npy.substr(0, 8), std::string("\x93NUMPY\x01\0", 8));
  EXPECT_CONTAINS(npy, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 32, ), }");
  for (std::size_t i = 0; i < 64; ++i) {
    float v = 0;
    std::memcpy(&v, npy.data() + npy.size() - 256 + 4 * i, 4);
    EXPECT_EQ(std::strtof(masters[i / 32][i % 32].c_str(), nullptr), v);
  }
  const auto json = good("mt-ckpt cat a decoder.final_layernorm.weight --json --range 1:3").objects();
  EXPECT_EQ(json[0]["values"], Json({1.0, 1.0}));
  EXPECT_EQ(run("mt-ckpt cat a embedding.word_embeddings.weight --range 3:300").status, 2);
  EXPECT_EQ(run("mt-ckpt cat a embedding.word_embeddings.weight --range 1:2,1:2,1:2").status, 2);
  auto o = run("mt-ckpt cat a embedding.word_embedding.weight");
  EXPECT_EQ(o.status, 3);
  EXPECT_CONTAINS(o.err, "did you mean embedding.word_embeddings.weight?");
  const auto stats = good("mt-ckpt stats a --kind weight").rows();
  for (const auto& row : stats)
    if (row[0] == "decoder.final_layernorm.weight") {
      EXPECT_EQ(row[5] + row[6] + row[7] + row[8], "1110");
    }
}

TEST_F(MtCkpt, AveragesCheckpointsOfOneModel) {
  for (const char* seed : {"1", "2"})
    good(std::string("mt-ckpt random --bf16 --optimizer --save s") + seed + " --seed " + seed + " --iteration 2" + seed);
  EXPECT_EQ(good("mt-ckpt average --save mean s1 s2").rows()[1][1], "22");
  const auto value = [&](const char* dir) {
    return std::stod(good(std::string("mt-ckpt cat --kind master --range 5:6,5:6 ") + dir + " embedding.word_embeddings.weight").rows()[0][0]);
  };
  EXPECT_FLOAT_EQ(static_cast<float>(value("mean")), static_cast<float>((value("s1") + value("s2")) / 2));
  good("mt-ckpt verify mean");
  EXPECT_EQ(run("mt-ckpt average --save mean s1 s2").status, 3) << "it is there";
  EXPECT_EQ(run("mt-ckpt average --save s2 s1 s2 --force").status, 3) << "a source";
  EXPECT_EQ(run("mt-ckpt average --save x s1").status, 2);
  good("mt-ckpt random --save other --hidden-size 32");
  EXPECT_EQ(run("mt-ckpt average --save x s1 other").status, 3);
  EXPECT_FALSE(fs::exists(*this / "x/latest_checkpointed_iteration.txt"));
}

TEST_F(MtCkpt, VerifyOfADirectoryWhoseNewestIsBrokenFailsAndSaysWhichOneALoadTakes) {
  good("mt-ckpt random --save a --iteration 10 && mt-ckpt random --save a --iteration 20");
  fs::resize_file(data(), 100);
  auto o = run("mt-ckpt verify a");
  EXPECT_EQ(o.status, 6);
  EXPECT_CONTAINS(o.out, "sound\t");  // of iteration 10
  EXPECT_CONTAINS(o.out, "broken\t");
  EXPECT_CONTAINS(o.err, "the newest checkpoint is broken: ");
  EXPECT_CONTAINS(o.err, "iter_0000020: data_00000.safetensors: wanted");
  EXPECT_CONTAINS(o.err, "a load takes iteration 10, which is sound");
  EXPECT_EQ(run("mt-ckpt verify a --json").objects()[0]["broken"].size(), 1u);
  good("mt-ckpt verify a --ckpt-step 10");
  good("mt-ckpt verify a/iter_0000010");
  fs::remove_all(*this / "a/iter_0000020");
  fs::create_directory(*this / "a/.iter_0000020.tmp");  // a save that was killed is no checkpoint
  std::ofstream(*this / "a/latest_checkpointed_iteration.txt") << "10";
  good("mt-ckpt verify a");
}

TEST_F(MtCkpt, GcKeepsACompleteIterationThatHoldsSomebodysFile) {
  good("mt-ckpt random --save a --iteration 10 && mt-ckpt random --save a --iteration 20");
  std::ofstream(*this / "a/iter_0000010/notes.txt") << "mine";
  const auto o = run("mt-ckpt gc --keep-newest 1 a");
  EXPECT_EQ(o.status, 0);
  EXPECT_CONTAINS(o.err, "iter_0000010 stays: notes.txt in it is not written by a save");
  EXPECT_EQ(o.out.find("not retained"), std::string::npos) << o.out;
  EXPECT_TRUE(fs::exists(*this / "a/iter_0000010/notes.txt"));
  fs::remove(*this / "a/iter_0000010/notes.txt");
  EXPECT_CONTAINS(good("mt-ckpt gc --keep-newest 1 a").out, "not retained");
}

TEST_F(MtCkpt, InfoIsARowAFactWithTheNamesOfTheFlags) {
  good("mt-ckpt random --save a --iteration 20 --num-layers 3 --hidden-size 32 --group-query-attention --num-query-groups 2");
  const auto o = good("mt-ckpt info a");
  for (const char* row : {"format\tmt-checkpoint", "num_layers\t3", "hidden_size\t32", "num_attention_heads\t4", "num_query_groups\t2",
                          "ffn_hidden_size\t128", "vocab_size\t256", "tp\t1", "pp\t1", "tokenizer\t-"})
    EXPECT_CONTAINS("\n" + o.out, std::string("\n") + row + "\n");
  EXPECT_EQ(o.out.find('{'), std::string::npos) << o.out;
  EXPECT_EQ(good("mt-ckpt random --save b").rows()[0], (std::vector<std::string>{"path", "parameters", "tensors", "bytes"}));
}

TEST_F(MtCkpt, VerifyIsSilentAboutNothing) {
  good("mt-ckpt random --save a --iteration 20");
  EXPECT_EQ(good("mt-ckpt verify a --json").objects()[0]["result"], "sound");
  flip(9000);
  auto o = run("mt-ckpt verify a");
  EXPECT_EQ(o.status, 6);
  EXPECT_CONTAINS(o.out, "problem\t");
  EXPECT_CONTAINS(o.out, "data_00000.safetensors");
  o = run("mt-ckpt verify a --json");
  EXPECT_EQ(o.status, 6);
  EXPECT_EQ(o.objects()[0]["problems"].size(), 1u);
}

TEST_F(MtCkpt, DiffExitsOneAndNamesTheFirstTensorAndTheLargestDifference) {
  good("mt-ckpt random --save a --iteration 20 && mt-ckpt random --save same --iteration 7 && mt-ckpt random --save b --seed 2");
  const auto equal = good("mt-ckpt diff a same").rows();
  EXPECT_EQ(equal.back()[0] + equal.back()[2] + equal.back()[3], "allequal0");
  auto o = run("mt-ckpt diff a/iter_0000020 b");
  EXPECT_EQ(o.status, 1);
  ASSERT_EQ(o.rows().size(), 3u);
  EXPECT_EQ(o.rows()[1][0], "embedding.word_embeddings.weight");
  EXPECT_EQ(o.rows()[2][2], "differs");
  EXPECT_EQ(o.rows()[2].size(), o.rows()[0].size());
  EXPECT_CONTAINS(o.err, " tensors differ, first embedding.word_embeddings.weight");
  o = run("mt-ckpt diff a b --json --all");
  EXPECT_EQ(o.status, 1);
  const auto objects = o.objects();
  const auto& total = objects.back();
  EXPECT_EQ(total["equal"], false);
  EXPECT_EQ(objects.size(), 1 + total["tensors"].get<std::size_t>());
  double largest = 0;
  std::size_t differ = 0;
  for (std::size_t i = 0; i + 1 < objects.size(); ++i) {
    largest = std::max(largest, objects[i]["largest"].get<double>());
    differ += objects[i]["difference"] != "same";
  }
  EXPECT_EQ(total["largest"], largest);
  EXPECT_EQ(total["tensors_differ"], differ);
  EXPECT_EQ(run("mt-ckpt diff a b --kind nonsense").status, 3);
}

TEST_F(MtCkpt, ADamagedFileIsDamageNotADifference) {
  good("mt-ckpt random --save a --iteration 20 && mt-ckpt random --save b --iteration 20");
  flip(9000);
  EXPECT_EQ(run("mt-ckpt diff a b").status, 6);
}

TEST_F(MtCkpt, EveryWayToNameNothingHasItsExitStatus) {
  EXPECT_EQ(run("mt-ckpt info none").status, 5);
  EXPECT_EQ(run("mt-ckpt list none").status, 5);
  fs::create_directory(*this / "empty");
  EXPECT_EQ(run("mt-ckpt info empty").status, 3);
  good("mt-ckpt random --save a --iteration 20");
  EXPECT_EQ(run("mt-ckpt info a --ckpt-step 30").status, 3);
  EXPECT_EQ(good("mt-ckpt info a --ckpt-step 20 --json").objects()[0]["iteration"], 20);
  for (const char* tracker : {"", "abc", "-1", "30"}) {
    std::ofstream(*this / "a/latest_checkpointed_iteration.txt") << tracker;
    const auto o = run("mt-ckpt info a");
    EXPECT_EQ(o.status, 6) << tracker;
    EXPECT_CONTAINS(o.err, "latest_checkpointed_iteration.txt");
  }
  EXPECT_EQ(run("mt-ckpt info").status, 2);
  EXPECT_EQ(run("mt-ckpt info a b").status, 2);
  EXPECT_EQ(run("mt-ckpt diff a").status, 2);
  EXPECT_EQ(run("mt-ckpt random").status, 2);
  EXPECT_EQ(run("mt-ckpt random --save x --num-attention-heads 5").status, 3);
  EXPECT_EQ(run("mt-ckpt").status, 2);
}

TEST_F(MtCkpt, RandomRefusesNegativeNumbersAndAnIterationThatIsThere) {
  EXPECT_CONTAINS(run("mt-ckpt random --save a --iteration -1").err, "--iteration");
  EXPECT_EQ(run("mt-ckpt random --save a --iteration -1").status, 2);
  EXPECT_EQ(run("mt-ckpt random --save a --consumed-samples -1").status, 2);
  EXPECT_FALSE(fs::exists(*this / "a"));
  good("mt-ckpt random --save a --iteration 20");
  const auto before = read_file(*this / "a/iter_0000020/manifest.json");
  const auto o = run("mt-ckpt random --save a --iteration 20 --seed 5");
  EXPECT_EQ(o.status, 3);
  EXPECT_CONTAINS(o.err, "--force");
  EXPECT_EQ(read_file(*this / "a/iter_0000020/manifest.json"), before);
  good("mt-ckpt random --save a --iteration 20 --seed 5 --force");
  EXPECT_NE(read_file(*this / "a/iter_0000020/manifest.json"), before);
}

TEST_F(MtCkpt, RandomMovesNoTrackerBackAndWaitsForNobodysSave) {
  good("mt-ckpt random --save a --iteration 20");
  for (const char* more : {"", " --force"}) EXPECT_EQ(run(std::string("mt-ckpt random --save a --iteration 6") + more).status, 3);
  EXPECT_EQ(run("mt-ckpt random --save a/iter_0000020 --iteration 6").status, 3);
  EXPECT_EQ(run("flock a/.lock mt-ckpt random --save a --iteration 30").status, 5);
  EXPECT_EQ(good("mt-ckpt list a").rows().size(), 2u);
}

// A manifest that leads to itself can be read by nobody, root included.
TEST_F(MtCkpt, WhatCannotBeReadIsNeitherGarbageNorDamage) {
  for (const char* i : {"10", "20"}) good(std::string("mt-ckpt random --save a --iteration ") + i);
  good("mv a/iter_0000020/manifest.json aside && ln -s manifest.json a/iter_0000020/manifest.json");
  for (const char* command : {"verify a", "info a", "diff a a", "verify a/iter_0000020", "gc a"}) {
    const auto o = run(std::string("mt-ckpt ") + command);
    EXPECT_EQ(o.status, 5) << command << o.err;
    EXPECT_CONTAINS(o.err, "iter_0000020/manifest.json");
  }
  EXPECT_EQ(run("mt-reshard --load a --save b --num-shards 2 --registry none").status, 5);
  EXPECT_EQ(good("mt-ckpt list a").rows()[2][1], "unreadable");
  good("mv aside a/iter_0000020/manifest.json && mt-ckpt verify a");
  good("mv a/iter_0000020/data_00000.safetensors aside && ln -s /dev/null/x a/iter_0000020/data_00000.safetensors");
  EXPECT_EQ(run("mt-ckpt gc a").status, 5);
  good("rm a/iter_0000020/data_00000.safetensors && mv aside a/iter_0000020/data_00000.safetensors && mt-ckpt verify a");
  good("cp -r a/iter_0000010 a/iter_0000030");
  auto o = run("mt-ckpt verify a/iter_0000030");
  EXPECT_EQ(o.status, 6);
  EXPECT_CONTAINS(o.err, "its manifest is that of iteration 10");
  EXPECT_EQ(run("mt-ckpt gc a").status, 6);
  EXPECT_EQ(good("mt-ckpt list a").rows()[3][1], "incomplete");
  std::ofstream(*this / "a/latest_checkpointed_iteration.txt") << "6\n4\n";
  EXPECT_CONTAINS(run("mt-ckpt info a").err, "found '6\\n4'");
}

// A limit on the size of files stands for a full disk.
TEST_F(MtCkpt, RandomThatCannotWriteLeavesNothing) {
  EXPECT_EQ(run("trap '' XFSZ; ulimit -f 64; mt-ckpt random --save full --hidden-size 256").status, 5);
  ASSERT_TRUE(fs::is_directory(*this / "full"));
  EXPECT_TRUE(fs::is_empty(*this / "full"));
}

TEST_F(MtCkpt, VerifyTakesANumberOfThreadsThatMakesSense) {
  good("mt-ckpt random --save a --iteration 20");
  for (const char* n : {"0", "1", "256"}) good(std::string("mt-ckpt verify a --num-threads ") + n);
  for (const char* n : {"-1", "257", "100000"}) {
    const auto o = run(std::string("mt-ckpt verify a --num-threads ") + n);
    EXPECT_EQ(o.status, 2) << n;
    EXPECT_CONTAINS(o.err, "--num-threads");
  }
}

TEST_F(MtCkpt, DamageHasOneStatusHoweverTheCheckpointIsNamed) {
  const std::vector<std::pair<const char*, const char*>> damages = {
      {"no data", "rm a/iter_0000020/data_00000.safetensors"},
      {"short data", "truncate -s -1 a/iter_0000020/data_00000.safetensors"},
      {"cut manifest", "truncate -s -100 a/iter_0000020/manifest.json"},
      {"empty manifest", "truncate -s 0 a/iter_0000020/manifest.json"},
      {"no manifest", "rm a/iter_0000020/manifest.json"},
      {"no tracker either", "rm a/iter_0000020/manifest.json a/latest_checkpointed_iteration.txt"}};
  for (const auto& [name, damage] : damages) {
    good("mt-ckpt random --save a --iteration 20 --force");
    good(damage);
    for (const char* path : {"a", "a/iter_0000020", "a --ckpt-step 20"}) {
      EXPECT_EQ(run(std::string("mt-ckpt verify ") + path).status, 6) << name << ": " << path;
      EXPECT_EQ(run(std::string("mt-ckpt info ") + path).status, 6) << name << ": " << path;
    }
  }
}

TEST_F(MtCkpt, AnEditedManifestIsDamageAndOneOfAnOlderProgramIsNoted) {
  const auto edit = [&](const std::string& expression) {
    good("mt-ckpt random --save a --iteration 20 --force");
    good("sed -i '" + expression + "' a/iter_0000020/manifest.json");
    return run("mt-ckpt verify a");
  };
  EXPECT_EQ(edit("s/\"iteration\": 20/\"iteration\": 21/").status, 6);
  EXPECT_EQ(edit("s/\"consumed_samples\": 0/\"consumed_samples\": 8/").status, 6);
  EXPECT_EQ(edit("s/\"hidden\": 64/\"hidden\": 65/").status, 6);
  EXPECT_EQ(edit("s/\"training\": {}/\"training\": { }/").status, 6);
  const auto older = edit("s/^ \"xxh3\": .*/ \"other\": 1}/");
  EXPECT_EQ(older.status, 0) << older.err;
  EXPECT_CONTAINS(older.out, "note\tthe manifest has no checksum");
  EXPECT_EQ(good("mt-ckpt verify a --json").objects()[0]["manifest_checksum"], false);
  good("mt-ckpt random --save a --iteration 20 --force");
  EXPECT_EQ(good("mt-ckpt verify a --json").objects()[0]["manifest_checksum"], true);
}

TEST_F(MtCkpt, GcRemovesWhatDidNotEndAndWhatIsNotRetainedButFirstOnlySaysSo) {
  for (const char* i : {"10", "20", "30", "40"}) good(std::string("mt-ckpt random --save a --iteration ") + i);
  fs::create_directory(*this / "a/.iter_0000050.tmp");
  fs::create_directory(*this / "a/iter_0000045");
  std::ofstream(*this / "a/latest_checkpointed_iteration.txt") << "30\n";
  const auto dry = good("mt-ckpt gc a --dry-run --save-retain-interval 20").rows();
  ASSERT_EQ(dry.size(), 4u);
  EXPECT_EQ(dry[1][0] + dry[1][1] + dry[1][2], "would removeunfinisheda/iter_0000045");
  EXPECT_EQ(dry[2][2], "a/.iter_0000050.tmp");
  EXPECT_EQ(dry[3][1] + dry[3][2], "not retaineda/iter_0000010");
  EXPECT_EQ(good("mt-ckpt list a").rows().size(), 7u);

  EXPECT_EQ(good("mt-ckpt gc a").rows().size(), 3u) << "complete ones stay unless asked";
  EXPECT_EQ(good("mt-ckpt list a").rows().size(), 5u);
  const auto gone = good("mt-ckpt gc a --keep-newest 1 --json").objects();
  ASSERT_EQ(gone.size(), 2u);
  EXPECT_EQ(gone[0]["act"], "removed");
  EXPECT_EQ(gone[0]["path"], "a/iter_0000010");
  EXPECT_EQ(gone[1]["path"], "a/iter_0000020") << "30 is the tracker's, 40 the newest";
  EXPECT_EQ(good("mt-ckpt info a --json").objects()[0]["iteration"], 30);
  EXPECT_EQ(good("mt-ckpt gc a --keep-newest 1").rows().size(), 1u);
}

TEST_F(MtCkpt, GcRefusesWhatIsNotThereAndWhatARunIsSavingTo) {
  EXPECT_EQ(run("mt-ckpt gc nowhere").status, 5);
  EXPECT_FALSE(fs::exists(*this / "nowhere"));
  good("mt-ckpt random --save a");
  EXPECT_EQ(run("mt-ckpt gc a --keep-newest -1").status, 2);
  EXPECT_EQ(run("mt-ckpt gc a --save-retain-interval -1").status, 2);
  const auto o = run("flock a/.lock mt-ckpt gc a");
  EXPECT_EQ(o.status, 5);
  EXPECT_CONTAINS(o.err, "another run is saving there");
}

TEST_F(MtCkpt, GcLeavesNoLockWhereItHasNothingToDo) {
  good("mt-ckpt random --save a --iteration 1 && rm -f a/.lock && mkdir other && touch other/file");
  auto o = run("mt-ckpt gc a/iter_0000001");
  EXPECT_EQ(o.status, 3);
  EXPECT_CONTAINS(o.err, "is an iteration, not a --save directory");
  EXPECT_CONTAINS(o.err, (fs::canonical(*this / "a").string() + ")"));
  EXPECT_EQ(run("cd a/iter_0000001 && mt-ckpt gc .").status, 3);
  EXPECT_EQ(good("mt-ckpt verify a --json").objects()[0]["result"], "sound");
  o = run("mt-ckpt gc other");
  EXPECT_EQ(o.status, 3);
  EXPECT_CONTAINS(o.err, "is no --save directory");
  EXPECT_FALSE(fs::exists(*this / "other/.lock"));
  EXPECT_EQ(good("mt-ckpt gc a --keep-newest 1").rows().size(), 1u);
  good("mkdir a/iter_0000005 && touch a/iter_0000005/notes.txt");
  o = good("mt-ckpt gc a");
  EXPECT_EQ(o.rows().size(), 1u);
  EXPECT_CONTAINS(o.err, "iter_0000005 stays: notes.txt");
  good("mkdir a/iter_0000006");
  EXPECT_EQ(good("mt-ckpt gc a --dry-run").rows().size(), 2u);
  EXPECT_FALSE(fs::exists(*this / "a/.lock"));
  EXPECT_EQ(good("mt-ckpt gc a").rows().size(), 2u);
  EXPECT_TRUE(fs::exists(*this / "a/iter_0000005/notes.txt"));
  EXPECT_FALSE(fs::exists(*this / "a/iter_0000006"));
}

TEST_F(MtCkpt, AFileAboveTheLimitOnItsSizeIsAnIoError) {
  const auto o = run("ulimit -f 40 && mt-ckpt random --save a");
  EXPECT_EQ(o.status, 5);
  EXPECT_CONTAINS(o.err, "ulimit -f");
  EXPECT_FALSE(fs::exists(*this / "a/iter_0000000"));
}

TEST_F(MtCkpt, WhatCannotBeSubtractedHasNoLargestDifference) {
  good("mt-ckpt random --save a && mt-ckpt random --save wide --hidden-size 128");
  const auto o = run("mt-ckpt diff a wide");
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(o.rows()[1][3] + o.rows()[1][5], "--");
  EXPECT_EQ(o.rows().back()[5], "-");
  const auto objects = run("mt-ckpt diff --json a wide").objects();
  EXPECT_TRUE(objects[0]["largest"].is_null());
  EXPECT_TRUE(objects.back()["largest"].is_null());
}

TEST_F(MtCkpt, AnotherDtypeIsADifferenceAndComparedByValue) {
  good("mt-ckpt random --save a && mt-ckpt random --save half --bf16");
  const auto o = run("mt-ckpt diff a half");
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(o.rows()[1][2], "dtype");
  const double largest = std::stod(o.rows()[1][5]);
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, 0.01) << "the half of a step of bf16";
}

TEST_F(MtCkpt, WhatWasPassedOverIsSaid) {
  good("mt-ckpt random --save a --iteration 10 && mt-ckpt random --save a --iteration 20");
  fs::resize_file(data(), 5000);
  const auto o = good("mt-ckpt info a --json");
  EXPECT_EQ(o.objects()[0]["iteration"], 10);
  EXPECT_CONTAINS(o.err, "ignored a/iter_0000020: data_00000.safetensors: wanted");
}

}  // namespace
}  // namespace mt
