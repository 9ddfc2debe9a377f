// Scripts as people keep them, and what is told about those that would have to be run.

#include "base/args_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/temporary_directory.h"

namespace mt {
namespace {

class ArgsFiles : public ::testing::Test {
 protected:
  ArgsFile read(const std::string& text) {
    write_file_atomic((dir_.path() / "run.sh").string(), text);
    return read_args_file((dir_.path() / "run.sh").string());
  }
  std::string flags(const std::string& text) {
    std::string all;
    for (const auto& f : read(text).flags) all += (all.empty() ? "" : "|") + f;
    return all;
  }
  std::string fault(const std::string& text) {
    try {
      return "read: " + flags(text);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::usage);
      return e.what();
    }
  }
  test::TemporaryDirectory dir_;
};

TEST_F(ArgsFiles, BlocksThatOnlyAShellCanWalkArePassedOver) {
  const std::string guard = R"sh(
if [ ! -f pretrain_gpt.py ]; then
  echo "not here (yet)"
  exit 1
fi
for i in 1 2; do mkdir -p "run$i"; done
case "$HOST_OF_TEST" in
  a) X=1 ;;
esac
say() { echo "$1"; }
function other {
  Y=2
}
[[ -n "$DEBUG_OF_TEST" ]] && EXTRA=(--more
  --and) && Z=3
[ -d out ] || mkdir out
ARGS=(--num-layers 2 "--fp8-format hybrid")
python train.py ${ARGS[@]} "$@"
)sh";
  EXPECT_EQ(flags(guard), "--num-layers|2|--fp8-format|hybrid");
  EXPECT_EQ(flags("ARGS=(--num-layers 2 \"--fp8-format hybrid\" --name 'two words')\n"), "--num-layers|2|--fp8-format|hybrid|--name|two words");
  EXPECT_EQ(flags("A=(--name 'two words')\npython t.py \"${A[@]}\"\n"), "--name|two words");
  EXPECT_NE(fault("A=(--x)\nif true; then\n  A+=(--y)\nfi\npython t.py ${A[@]}\n").find("line 3: A is set where 'if' would have to be run"), std::string::npos);
  EXPECT_NE(fault("if true; then\n  python t.py --x\nfi\n").find("run.sh:1"), std::string::npos);
  EXPECT_NE(fault("--x 1\nif true; then\n  A=1\n").find("'if' would have to be run"), std::string::npos) << "it has no end";
}

TEST_F(ArgsFiles, WhatMayOrMayNotBeSetHasNoValue) {
  const std::string run = "python t.py --x $TP\n";
  EXPECT_EQ(flags("TP=2\nTP=4 echo hi\n" + run), "--x|2") << "the command's alone";
  EXPECT_EQ(flags("TP=2\nunset TP\npython t.py --x ${TP:-4}\n"), "--x|4");
  EXPECT_EQ(flags("TP=$((010))\n" + run), "--x|8");
  EXPECT_EQ(flags("mkdir -p a && cd a || exit 1\nTP=2\n" + run), "--x|2");
  EXPECT_EQ(flags("\xEF\xBB\xBF--x 2\nexit 0\n--y 3\n"), "--x|2");
  for (const char* maybe : {"false && TP=4\n", "[ -f /nofile ] && TP=4\n", "true || TP=4\n", "read TP < f\n", "eval \"TP=4\"\n", "let TP=4\n"}) {
    const auto said = fault(std::string("TP=2\n") + maybe + run);
    EXPECT_NE(said.find("line 2: TP is set where"), std::string::npos) << maybe << said;
  }
}

TEST_F(ArgsFiles, AParametersDefaultStandsInQuotesAndGivesWayToTheEnvironment) {
  const std::string script = "PLACE=${1:-\"checkpoints/x\"}\npython t.py --save \"$PLACE\"\n";
  EXPECT_EQ(flags(script), "--save|checkpoints/x");
  ::setenv("PLACE", "mine", 1);
  EXPECT_EQ(flags(script), "--save|mine");
  ::unsetenv("PLACE");
}

TEST_F(ArgsFiles, AListOfFlagsWithContinuedLinesAndComments) {
  EXPECT_EQ(flags("# a model\n--num-layers 4 \\\n  --swiglu   # gated\n--data-path a b\n\n--split '9,1' \\\n"),
            "--num-layers|4|--swiglu|--data-path|a|b|--split|9,1");
  EXPECT_EQ(flags("--a \"x y\"'z' --b=1\r\n--c \\$d\n"), "--a|x yz|--b=1|--c|$d");
}

TEST_F(ArgsFiles, AScriptWithArraysGivesTheWordsBehindTheProgram) {
  const ArgsFile f = read(R"(#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS=8
NODES=${NODES_OF_TEST:-16}
DIST=(
    --nproc_per_node $GPUS   # each
    --nnodes $NODES
    --master_addr $MASTER_ADDR_OF_TEST
)
MODEL=( --num-layers 32 --hidden-size $((GPUS * 512 - (2 + 2)))
        --lr 1e-4 )
MODEL+=(--swiglu)
DATA="--data-path 0.5 my_set \
    --split 99,1,0"
mkdir -p logs && cd logs
torchrun ${DIST[@]} pretrain_gpt.py \
    ${MODEL[@]} "${MODEL[@]}" $DATA \
    --save "dir with blanks" 2>&1 | tee log.txt
)");
  std::string all;
  for (const auto& w : f.flags) all += w + "|";
  EXPECT_EQ(all,
            "--num-layers|32|--hidden-size|4092|--lr|1e-4|--swiglu|--num-layers|32|--hidden-size|4092|--lr|1e-4|--swiglu|"
            "--data-path|0.5|my_set|--split|99,1,0|--save|dir with blanks|");
  EXPECT_EQ(f.ranks, 128);
}

TEST_F(ArgsFiles, LaunchersOfOtherKindsSayTheirRanks) {
  EXPECT_EQ(read("srun --ntasks=64 python train.py --lr 1\n").ranks, 64);
  EXPECT_EQ(read("mpirun -np 4 mt-train --lr 1\n").ranks, 4);
  EXPECT_EQ(read("A=1 python -m torch.distributed.launch --nproc-per-node=2 train.py --lr 1 &\n").ranks, 2);
  EXPECT_EQ(read("python train.py --lr 1\n").ranks, std::nullopt);
}

TEST_F(ArgsFiles, ArraysAloneAreTheFlags) {
  const ArgsFile f = read("OTHER=(a b)\nA=( --num-layers 2 )\nB='--lr 1'\nD=( --nproc_per_node 4 --nnodes 2 )\n");
  EXPECT_EQ(f.flags, (std::vector<std::string>{"--num-layers", "2", "--lr", "1"}));
  EXPECT_EQ(f.ranks, 8);
}

TEST_F(ArgsFiles, NamesWithoutAValueComeFromTheEnvironment) {
  const std::string script = "CKPT_OF_TEST=$1\npython train.py --save $CKPT_OF_TEST\n";
  EXPECT_NE(fault(script).find("line 1: $1 is a parameter of the script"), std::string::npos) << fault(script);
  ::setenv("CKPT_OF_TEST", "/there", 1);
  EXPECT_EQ(flags(script), "--save|/there");
  ::unsetenv("CKPT_OF_TEST");
  EXPECT_EQ(flags("python train.py --lr ${NONE_OF_TEST:-2}\n"), "--lr|2");
}

TEST_F(ArgsFiles, WhatWouldHaveToBeRunIsAnErrorWhereItIsWanted) {
  EXPECT_EQ(flags("NOW=$(date)\necho `pwd`\npython train.py --lr 1\n"), "--lr|1");  // not wanted
  for (const auto& [text, words] :
       {std::pair{"D=$(date)\npython train.py --save $D\n", "line 1: '$(date)' would have to be run"},
        {"python train.py \\\n  --save `pwd`\n", "line 2: '`pwd`' would have to be run"},
        {"python train.py --save $NO_SUCH_NAME\n", "line 1: $NO_SUCH_NAME has no value"},
        {"\nif [ 1 ]; then\n--lr 1\nfi\n", "'if' would have to be run, and no shell is: "},
        {"--save \"open\n", "a quote \" is not closed"},
        {"A=( --lr 1\n", "'A=(' is not closed"},
        {"--lr $((1/0))\n", "division by 0"},
        {"python a.py --lr 1\npython b.py --lr 2\n", "a second command that trains"},
        {"echo hello\n", "no flag is in the file"},
        {"--lr ${X%%.*}\n", "'${X%%.*}' is not understood"}})
    EXPECT_NE(fault(text).find(words), std::string::npos) << text << fault(text);
}

TEST_F(ArgsFiles, WhatIsNoScriptOrGrowsWithoutEndIsRefusedInOneLine) {
  std::string doubling = "A0=" + std::string(16, 'x') + "\n";
  for (int i = 1; i <= 40; ++i) doubling += fmt::format("A{}=$A{}$A{}\n", i, i - 1, i - 1);
  std::string arrays = "A=(1 2)\n";
  for (int i = 0; i < 40; ++i) arrays += "A+=( ${A[@]} )\n";
  const std::string open(200000, '('), close(200000, ')');
  using namespace std::string_literals;
  for (const auto& [text, words] :
       {std::pair{"--lr 1\n\0--seed 2\n"s, "a binary file is no file of flags"},
        {doubling + "--lr $A40\n", "the values of names come to more than 4194304 bytes"},
        {arrays + "--lr ${A[@]}\n", "the values of names come to more than 4194304 bytes"},
        {"--lr $((" + open + "1" + close + "))\n", "more than 100 brackets in one another"},
        {"--lr $((" + open + "\n", "'$((' is not closed"},
        {"--lr $((" + std::string(1000, 'x') + "))\n", "is no sum of integers"},
        {"--lr $((9223372036854775807 + 1))\n", "leaves the range of 64 bits"},
        {"A=-9223372036854775808\nB=-1\n--lr $((A / B))\n", "leaves the range of 64 bits"},
        {std::string((1 << 20) + 1, '#'), "1048577 bytes are more than a file of flags has"}}) {
    const std::string said = fault(text);
    EXPECT_NE(said.find(words), std::string::npos) << said;
    EXPECT_LT(said.size(), 400u);
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
  EXPECT_THROW(read_args_file("/dev/zero"), Error);
}

TEST_F(ArgsFiles, SumsAndNamesWithinTheLimitsKeepTheirValues) {
  const std::string open(100, '('), close(100, ')');
  EXPECT_EQ(flags("--a $((" + open + "7" + close + "))\n--b $((" + open + "8" + close + "))\n"), "--a|7|--b|8");
  EXPECT_EQ(flags("A=-9223372036854775808\nB=-1\n--a $((A % B)) --b $((7 / B)) --c $((A + 9223372036854775807))\n"),
            "--a|0|--b|-7|--c|-1");
  EXPECT_EQ(flags("A=ab\nB=$A$A\nC=$B$B\n--a $C\n"), "--a|abababab");
}

}  // namespace
}  // namespace mt
