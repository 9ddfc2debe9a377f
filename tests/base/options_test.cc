#include "base/options.h"

#include <cstdlib>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/temporary_directory.h"

namespace mt {
namespace {

struct Environment {
  Environment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Environment() { ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  const char* name_;
};

struct OptionsTest : testing::Test {
  OptionsTest() : table("mt-x", "[options]", "Tries options.") {
    table.group("Training");
    table.add("save-interval", interval, "N", "save this often", "iterations");
    table.add("lr", lr, "LR", "learning rate");
    table.add("seed", seed, "N", "seed");
    table.add("big", big, "N", "a count");
    table.add("data-path", paths, "PREFIX", "token files");
    table.add("betas", betas, "B", "two numbers");
    table.add("limit", limit, "S", "time limit", "s");
    table.add("style", style, "NAME", "decay").choices = {"linear", "cosine", "constant"};
    table.group("Switches");
    table.add("bf16", bf16, "", "use bf16");
    table.add_off("no-bias", bias, "no biases");
    table.add("old-way", old_way, "", "old").hidden = true;
    table.add("config", config, "FILE", "read options from FILE");
    table.alias("save-every", "save-interval");
  }
  void parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "mt-x");
    table.parse(static_cast<int>(arguments.size()), arguments.data());
  }
  std::string error(std::vector<const char*> arguments) {
    try {
      parse(std::move(arguments));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::usage) << e.what();
      return e.what();
    }
    return "no error";
  }

  std::string range_error(std::vector<const char*> arguments) {
    OptionTable t("mt-y", "", "");
    int n = 1;
    double x = 1;
    std::optional<std::int64_t> maybe;
    std::vector<double> many;
    t.add("n", n, "N", "count").between(1, 8);
    t.add("x", x, "X", "number").above(0);
    t.add("maybe", maybe, "N", "count").at_least(0);
    t.add("many", many, "X", "numbers").at_least(1);
    t.add("threads", n, "N", "count").at_least(1).no_default();
    EXPECT_NE(t.help().find("(1 to 8; default 1)"), std::string::npos) << t.help();
    EXPECT_NE(t.help().find("(above 0; default 1)"), std::string::npos) << t.help();
    EXPECT_NE(t.help().find("(1 or more)"), std::string::npos) << t.help();
    arguments.insert(arguments.begin(), "mt-y");
    try {
      t.parse(static_cast<int>(arguments.size()), arguments.data());
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::usage) << e.what();
      return e.what();
    }
    return "";
  }

  OptionTable table;
  int interval = 100;
  double lr = 0.001;
  std::uint64_t seed = 1;
  std::int64_t big = 0;
  std::vector<std::string> paths, words;
  std::vector<double> betas{0.9, 0.95};
  std::optional<int> limit;
  std::string style = "linear", config;
  bool bf16 = false, bias = true, old_way = false;
};

TEST_F(OptionsTest, ANumberOutsideItsRowsRangeIsRefusedWithRangeAndValue) {
  EXPECT_EQ(range_error({"--n", "0"}), "wanted 1 to 8, found 0: --n");
  EXPECT_EQ(range_error({"--n", "9"}), "wanted 1 to 8, found 9: --n");
  EXPECT_EQ(range_error({"--n", "-4"}), "wanted 1 to 8, found -4: --n");
  EXPECT_EQ(range_error({"--x", "0"}), "wanted above 0, found 0: --x");
  EXPECT_EQ(range_error({"--x", "-1e-3"}), "wanted above 0, found -1e-3: --x");
  EXPECT_EQ(range_error({"--maybe", "-1"}), "wanted 0 or more, found -1: --maybe");
  EXPECT_EQ(range_error({"--many", "1", "2", "0.5"}), "wanted 1 or more, found 0.5: --many");
  EXPECT_EQ(range_error({"--n", "8", "--x", "1e-9", "--maybe", "0", "--many", "1"}), "");
  ::setenv("MT_N", "0", 1);
  EXPECT_EQ(range_error({}), "wanted 1 to 8, found 0: --n from MT_N");
  ::unsetenv("MT_N");
}

TEST_F(OptionsTest, KeepsDefaultsWhenNothingIsGiven) {
  parse({});
  EXPECT_EQ(interval, 100);
  EXPECT_FALSE(limit);
  EXPECT_FALSE(table.given("save-interval"));
}

TEST_F(OptionsTest, TakesValuesAfterABlankOrAnEqualsSign) {
  parse({"--save-interval", "5", "--lr=1e-4", "--style=cosine", "--limit", "9"});
  EXPECT_EQ(interval, 5);
  EXPECT_EQ(lr, 1e-4);
  EXPECT_EQ(style, "cosine");
  EXPECT_EQ(limit, 9);
  EXPECT_TRUE(table.given("lr"));
  EXPECT_FALSE(table.given("seed"));
}

TEST_F(OptionsTest, TakesTheLastOfAFlagGivenTwice) {
  parse({"--lr", "1", "--data-path", "a", "b", "--lr", "2", "--data-path", "c"});
  EXPECT_EQ(lr, 2.0);
  EXPECT_EQ(paths, std::vector<std::string>{"c"});
}

TEST_F(OptionsTest, TakesSeveralValuesUpToTheNextFlag) {
  parse({"--data-path", "0.3", "a", "0.7", "b", "--betas", "0.8", "0.99", "--bf16"});
  EXPECT_EQ(paths, (std::vector<std::string>{"0.3", "a", "0.7", "b"}));
  EXPECT_EQ(betas, (std::vector<double>{0.8, 0.99}));
  EXPECT_TRUE(bf16);
}

TEST_F(OptionsTest, TakesNegativeNumbersAsValues) {
  parse({"--save-interval", "-1", "--lr", "-.5e-3", "--betas", "-1", "-2"});
  EXPECT_EQ(interval, -1);
  EXPECT_EQ(lr, -.5e-3);
  EXPECT_EQ(betas, (std::vector<double>{-1, -2}));
}

TEST_F(OptionsTest, OffSwitchClearsItsVariable) {
  parse({"--no-bias"});
  EXPECT_FALSE(bias);
}

TEST_F(OptionsTest, AliasSetsTheRow) {
  parse({"--save-every", "7"});
  EXPECT_EQ(interval, 7);
  EXPECT_TRUE(table.given("save-interval"));
  EXPECT_TRUE(table.given("save-every"));
}

TEST_F(OptionsTest, LastWinsAcrossNameAndAlias) {
  parse({"--save-interval", "1", "--save-every", "2"});
  EXPECT_EQ(interval, 2);
}

TEST_F(OptionsTest, FlagBeatsEnvironmentBeatsConfigBeatsDefault) {
  const test::TemporaryDirectory dir;
  const std::string path = (dir / "run.conf").string();
  write_file_atomic(path, "save-interval = 1\nlr = 1\nseed = 1 # all three\n");
  const Environment e1("MT_SAVE_INTERVAL", "2"), e2("MT_LR", "2");
  parse({"--config", path.c_str(), "--save-interval", "3"});
  EXPECT_EQ(interval, 3);
  EXPECT_EQ(lr, 2.0);
  EXPECT_EQ(seed, 1u);
  EXPECT_EQ(big, 0);
  EXPECT_TRUE(table.given("seed"));
}

TEST_F(OptionsTest, ConfigFileMayComeFromTheEnvironment) {
  const test::TemporaryDirectory dir;
  write_file_atomic(dir / "run.conf", "lr = 4");
  const Environment e("MT_CONFIG", (dir / "run.conf").c_str());
  parse({});
  EXPECT_EQ(lr, 4.0);
}

TEST_F(OptionsTest, ConfigFileTakesCommentsListsQuotesAndSwitches) {
  const test::TemporaryDirectory dir;
  const std::string path = (dir / "run.conf").string();
  write_file_atomic(path,
                    "# a comment\n\n  bf16\nno-bias = true\n"
                    "data-path = a \"b c\" d#1 # not me\nlr=3\r\nstyle = \"cosine\"\n");
  parse({"--config", path.c_str()});
  EXPECT_TRUE(bf16);
  EXPECT_FALSE(bias);
  EXPECT_EQ(paths, (std::vector<std::string>{"a", "b c", "d#1"}));
  EXPECT_EQ(lr, 3.0);
  EXPECT_EQ(style, "cosine");
}

TEST_F(OptionsTest, ConfigErrorsNameFileAndLine) {
  const test::TemporaryDirectory dir;
  const std::string path = (dir / "run.conf").string();
  const auto with = [&](const char* text) {
    write_file_atomic(path, text);
    return error({"--config", path.c_str()});
  };
  EXPECT_EQ(with("\nsave-intervall = 3"),
            "unknown option 'save-intervall': " + path + ":2 (did you mean --save-interval?)");
  EXPECT_EQ(with("lr ="), "'lr': a value is missing: " + path + ":1 (write lr = LR)");
  EXPECT_EQ(with("lr = x"), "wanted a number, found 'x': --lr from " + path + ":1");
  EXPECT_NE(with("config = b"), "no error");
}

TEST_F(OptionsTest, MissingConfigFileIsAnIoError) {
  try {
    parse({"--config", "/nonexistent/run.conf"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::io);
  }
}

TEST_F(OptionsTest, EnvironmentSetsSwitchesAndLists) {
  const Environment e1("MT_BF16", "1"), e2("MT_DATA_PATH", "a b"), e3("MT_SEED", "");
  parse({});
  EXPECT_TRUE(bf16);
  EXPECT_EQ(paths, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(seed, 1u) << "empty counts as not set";
}

TEST_F(OptionsTest, WrongEnvironmentValueNamesTheVariableUnlessAFlagReplacesIt) {
  const Environment e("MT_LR", "quick");
  EXPECT_EQ(error({}), "wanted a number, found 'quick': --lr from MT_LR");
  parse({"--lr", "1"});
  EXPECT_EQ(lr, 1.0);
}

TEST_F(OptionsTest, UnknownVariableIsAWarningButNotThoseOfOthers) {
  const Environment e1("MT_LRR", "1"), e2("MT_TEST_DATA", "x"), e3("MT_RANK_HOST", "x");
  testing::internal::CaptureStderr();
  parse({});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("warning: MT_LRR"), std::string::npos) << said;
  EXPECT_EQ(said.find("MT_TEST_DATA"), std::string::npos) << said;
  EXPECT_EQ(said.find("MT_RANK_HOST"), std::string::npos) << said;
}

TEST_F(OptionsTest, FlagOfOneRowBeatsTheFileOfAnotherOnTheSameVariable) {
  OptionTable t("mt-y", "", "");
  bool save = false;
  std::string file;
  t.add("keep", save, "", "keep");
  t.add_off("no-keep", save, "do not keep");
  t.add("config", file, "FILE", "options");
  const test::TemporaryDirectory dir;
  const std::string path = (dir / "c").string();
  write_file_atomic(path, "no-keep = true");
  const char* argv[] = {"mt-y", "--config", path.c_str(), "--keep"};
  t.parse(4, argv);
  EXPECT_TRUE(save);
}

TEST_F(OptionsTest, UnknownFlagsGetTheNearestNameAsHint) {
  EXPECT_EQ(error({"--save-intervl", "3"}), "unknown flag: --save-intervl (did you mean --save-interval?)");
  EXPECT_EQ(error({"--save", "3"}), "unknown flag: --save (did you mean --save-interval?)") << "no abbreviation";
  EXPECT_EQ(error({"--zzzzzzzz"}), "unknown flag: --zzzzzzzz (see mt-x --help)");
  EXPECT_EQ(error({"--zzzzzzzz=3"}), "unknown flag: --zzzzzzzz (see mt-x --help)");
  EXPECT_EQ(error({"-x"}), "unknown flag: -x (see mt-x --help)");
}

TEST_F(OptionsTest, WrongValuesNameFlagWantedAndFound) {
  EXPECT_EQ(error({"--save-interval", "3x"}), "wanted an integer, found '3x': --save-interval");
  EXPECT_EQ(error({"--save-interval", "1.5"}), "wanted an integer, found '1.5': --save-interval");
  EXPECT_EQ(error({"--save-interval", "99999999999"}),
            "wanted an integer, found '99999999999', which is out of range: --save-interval");
  EXPECT_EQ(error({"--seed", "-1"}), "wanted an integer of 0 or more, found '-1': --seed");
  for (const std::string value : {"nan", "inf", "-inf"})
    EXPECT_EQ(error({"--lr", value.c_str()}), "wanted a finite number, found '" + value + "': --lr");
  EXPECT_EQ(error({"--lr="}), "a value is missing: --lr (write --lr LR)");
  EXPECT_EQ(error({"--lr", ""}), "wanted a number, found '': --lr");
  EXPECT_EQ(error({"--betas", "1", "b"}), "wanted a number, found 'b': --betas");
  EXPECT_EQ(error({"--style", "cosin"}),
            "wanted one of linear, cosine, constant, found 'cosin': --style (did you mean cosine?)");
}

TEST_F(OptionsTest, MissingAndSurplusValuesAreErrors) {
  EXPECT_EQ(error({"--lr"}), "a value is missing: --lr (write --lr LR)");
  EXPECT_EQ(error({"--data-path"}), "a value is missing: --data-path (write --data-path PREFIX)");
  EXPECT_EQ(error({"--bf16=1"}), "takes no value: --bf16");
  EXPECT_EQ(error({"--lr", "--bf16"}), "wanted LR, found '--bf16': --lr (write --lr=--bf16 if that is the value)");
  EXPECT_EQ(error({"file"}), "unexpected argument 'file' (flags start with --)");
}

TEST_F(OptionsTest, ASwitchIsTakenBackByALaterFalse) {
  parse({"--bf16", "--no-bias", "--bf16=false"});
  EXPECT_TRUE(table.taken_back("bf16"));
  EXPECT_FALSE(table.taken_back("no-bias"));
  EXPECT_FALSE(table.taken_back("lr"));
  EXPECT_FALSE(bf16);
  EXPECT_FALSE(table.given("bf16"));
  EXPECT_FALSE(bias);
  parse({"--no-bias=false", "--bf16=false", "--bf16=true"});
  EXPECT_TRUE(bias);
  EXPECT_FALSE(table.given("no-bias"));
  EXPECT_TRUE(bf16);
  EXPECT_TRUE(table.given("bf16"));
  EXPECT_EQ(error({"--bf17=false"}), "unknown flag: --bf17 (did you mean --bf16?)");
  EXPECT_EQ(error({"--lr", "--bf16=false"}),
            "wanted LR, found '--bf16=false': --lr (write --lr=--bf16=false if that is the value)");
}

TEST_F(OptionsTest, CollectsPositionalArguments) {
  table.positional(words, "FILE...", "inputs");
  parse({"a", "--lr", "2", "-", "--", "-b", "--c"});
  EXPECT_EQ(words, (std::vector<std::string>{"a", "-", "-b", "--c"}));
}

TEST_F(OptionsTest, DoubleDashEndsAList) {
  table.positional(words, "FILE...", "inputs");
  parse({"--data-path", "a", "--", "b"});
  EXPECT_EQ(paths, std::vector<std::string>{"a"});
  EXPECT_EQ(words, std::vector<std::string>{"b"});
}

TEST_F(OptionsTest, TakesTheWholeRangeOfItsTypes) {
  parse({"--seed", "18446744073709551615", "--big", "-9223372036854775808"});
  EXPECT_EQ(seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(big, std::numeric_limits<std::int64_t>::min());
}

TEST_F(OptionsTest, HelpShowsGroupsUnitsDefaultsAndChoicesInEightyColumns) {
  const std::string help = table.help();
  EXPECT_EQ(help.substr(0, help.find('\n')), "usage: mt-x [options]");
  EXPECT_NE(help.find("\nTraining:\n"), std::string::npos) << help;
  EXPECT_NE(help.find("  --save-interval N             save this often (iterations; default 100; also\n"
                      "                                --save-every)\n"), std::string::npos) << help;
  EXPECT_NE(help.find("--data-path PREFIX..."), std::string::npos) << help;
  EXPECT_NE(help.find("one of linear, cosine,"), std::string::npos) << help;
  EXPECT_EQ(help.find("old-way"), std::string::npos) << help;
  std::size_t from = 0;
  for (std::size_t end; (end = help.find('\n', from)) != std::string::npos; from = end + 1)
    EXPECT_LE(end - from, 80u) << help.substr(from, end - from);
}

TEST_F(OptionsTest, ResolvedHoldsEveryValueAsText) {
  parse({"--lr", "0.25", "--no-bias", "--data-path", "a", "b"});
  const Json r = table.resolved();
  EXPECT_EQ(r.at("lr"), "0.25");
  EXPECT_EQ(r.at("save-interval"), "100");
  EXPECT_EQ(r.at("no-bias"), "true");
  EXPECT_EQ(r.at("data-path"), "a b");
  EXPECT_EQ(r.at("limit"), "");
}

TEST_F(OptionsTest, HiddenOptionsWork) {
  parse({"--old-way"});
  EXPECT_TRUE(old_way);
}

// Another program's flags: accepted by their own setter, hinted at, shown nowhere.
TEST_F(OptionsTest, ForeignRowsAreHintedAtAndShownNowhere) {
  std::vector<std::string> said;
  OptionRow row;
  row.name = "transformer-impl";
  row.argument = "X";
  row.hidden = row.foreign = true;
  row.set = [&said](const std::vector<std::string>& values) { said = values; };
  table.add_foreign(row);
  table.also_known("old-spelling");
  parse({"--transformer-impl", "local"});
  EXPECT_EQ(said, std::vector<std::string>{"local"});
  EXPECT_NE(error({"--transformer-imp", "x"}).find("did you mean --transformer-impl?"), std::string::npos);
  EXPECT_EQ(nearest_name("tensor-parallel", {"tensor-model-parallel-size", "tensor-parallel-num-weight-shards"}),
            "tensor-model-parallel-size");
  EXPECT_EQ(nearest_name("parallel-tensor", {"tensor-model-parallel-size"}), "") << "words in another order";
  EXPECT_NE(error({"--old-speling"}).find("did you mean --old-spelling?"), std::string::npos);
  EXPECT_EQ(table.help().find("transformer-impl"), std::string::npos);
  EXPECT_FALSE(table.resolved().contains("transformer-impl"));
}

TEST_F(OptionsTest, ARewrittenCommandLineIsWhatIsParsed) {
  table.rewrite([](const std::vector<std::string>& arguments) {
    std::vector<std::string> out;
    for (const auto& a : arguments)
      if (a == "--twice") out.insert(out.end(), {"--seed", "7", "--lr", "0.5"});
      else out.push_back(a);
    return out;
  });
  parse({"--seed", "1", "--twice", "--lr", "0.25"});
  EXPECT_EQ(seed, 7u);
  EXPECT_EQ(lr, 0.25);
}

TEST_F(OptionsTest, AnEmptyValueWhereANameIsWantedIsRefusedFromEverySource) {
  const auto said = [&](std::vector<const char*> arguments) {
    try {
      parse(std::move(arguments));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::usage);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(said({"--config", ""}).find("wanted FILE, found '': --config"), std::string::npos);
  EXPECT_NE(said({"--data-path", "a", ""}).find("wanted PREFIX, found '': --data-path"), std::string::npos);
  EXPECT_NE(said({"--data-path="}).find("--data-path"), std::string::npos);
  const Environment e("MT_DATA_PATH", "");
  EXPECT_EQ(said({}), "") << "an empty variable counts as not set";
}

}  // namespace
}  // namespace mt
