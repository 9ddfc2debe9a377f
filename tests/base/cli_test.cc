#include "base/cli.h"

#include <cstdio>
#include <memory>
#include <new>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

namespace mt {
namespace {

struct Outcome {
  int code;
  std::string out, err;
};

std::function<std::function<int()>(OptionTable&, const cli::Shared&)> command(std::function<int(const cli::Shared&)> act) {
  return [act](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
    auto n = std::make_shared<int>(3);
    table.group("Main").add("number", *n, "N", "a number", "files");
    return [n, act, &shared] { return act(shared); };
  };
}

cli::Tool tool_of(std::function<int(const cli::Shared&)> act) {
  return {"mt-x", "Tries things.", {{"", "Tries a thing.", command(std::move(act))}}, "", {}, "mpi no, cuda no"};
}

cli::Tool tool_with_commands() {
  return {"mt-y", "Does two things.",
          {{"list", "List.", command([](const cli::Shared&) { cli::row({"listed"}); return 0; })},
           {"diff", "Compare.", command([](const cli::Shared&) { return 1; })}},
          "", {}, ""};
}

Outcome run(const cli::Tool& tool, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), tool.name);
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = cli::run(tool, static_cast<int>(argv.size()), argv.data());
  Outcome o{code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
  log::set_level(log::Level::normal);
  log::set_tool("");
  return o;
}

TEST(Cli, RunsTheCommandAndReturnsItsCode) {
  const Outcome o = run(tool_of([](const cli::Shared&) { cli::row({"a", "b\tc\nd"}); return 41; }), {});
  EXPECT_EQ(o.code, 41);
  EXPECT_EQ(o.out, "a\tb\\tc\\nd\n");
  EXPECT_EQ(o.err, "");
}

TEST(Cli, AnErrorIsOneLineAndItsCode) {
  for (const Code code : {Code::usage, Code::config, Code::data, Code::io, Code::corrupt, Code::device, Code::comm}) {
    const Outcome o = run(tool_of([code](const cli::Shared&) -> int { throw Error(code, "no", "here", "do"); }), {});
    EXPECT_EQ(o.code, static_cast<int>(code));
    EXPECT_EQ(o.err, "mt-x: no: here (do)\n");
  }
}

TEST(Cli, MemoryIsSevenAndAnythingElseSeventy) {
  EXPECT_EQ(run(tool_of([](const cli::Shared&) -> int { throw std::bad_alloc(); }), {}).code, 7);
  const Outcome o = run(tool_of([](const cli::Shared&) -> int { throw std::out_of_range("at"); }), {});
  EXPECT_EQ(o.code, 70);
  EXPECT_EQ(o.err, "mt-x: internal error: at\n");
}

TEST(Cli, HelpAndVersionGoToStdoutAndWinOverWrongFlags) {
  const cli::Tool tool = tool_of([](const cli::Shared&) { return 9; });
  const Outcome help = run(tool, {"--nonsense", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("--number N"), std::string::npos) << help.out;
  EXPECT_NE(help.out.find("--version"), std::string::npos) << help.out;
  const Outcome version = run(tool, {"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out, "mt-x " + cli::version() + "\nbackends: mpi no, cuda no\n");
  EXPECT_EQ(cli::version().substr(0, 5), "0.1.0");
}

TEST(Cli, UnknownFlagIsTwo) {
  const Outcome o = run(tool_of([](const cli::Shared&) { return 0; }), {"--numbr", "3"});
  EXPECT_EQ(o.code, 2);
  EXPECT_EQ(o.err, "mt-x: unknown flag: --numbr (did you mean --number?)\n");
}

TEST(Cli, ChoosesACommandByItsFirstArgument) {
  EXPECT_EQ(run(tool_with_commands(), {"list"}).out, "listed\n");
  EXPECT_EQ(run(tool_with_commands(), {"diff", "--number", "1"}).code, 1);
  const Outcome unknown = run(tool_with_commands(), {"lst"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err, "mt-y: unknown command 'lst' (did you mean list?)\n");
  EXPECT_EQ(run(tool_with_commands(), {}).code, 2);
  EXPECT_EQ(run(tool_with_commands(), {"--number", "3"}).code, 2);
}

TEST(Cli, DefaultCommandServesAFlagInFront) {
  cli::Tool tool = tool_with_commands();
  tool.default_command = "list";
  EXPECT_EQ(run(tool, {"--number", "3"}).out, "listed\n");
  EXPECT_EQ(run(tool, {}).out, "listed\n");
  const Outcome help = run(tool, {"--help"});
  EXPECT_NE(help.out.find("diff"), std::string::npos);
  EXPECT_NE(help.out.find("--number N"), std::string::npos);
}

TEST(Cli, SharedFlagsReachTheCommand) {
  const Outcome o = run(tool_of([](const cli::Shared& s) {
    if (s.json) cli::object(Json{{"level", log::level() == log::Level::quiet}});
    return 0;
  }), {"--json", "--quiet"});
  EXPECT_EQ(o.out, "{\"level\":true}\n");
}

TEST(Cli, DumpOptionsPrintsATableForTheManLint) {
  const Outcome o = run(tool_with_commands(), {"--dump-options"});
  EXPECT_EQ(o.code, 0);
  const Json first = parse_json(o.out.substr(0, o.out.find('\n')), "dump");
  EXPECT_EQ(first.at("tool"), "mt-y");
  EXPECT_EQ(first.at("command"), "list");
  EXPECT_EQ(first.at("name"), "number");
  EXPECT_EQ(first.at("default"), "3");
  EXPECT_TRUE(first.at("aliases").empty());
}

TEST(Cli, FatalHookSeesTheCodeOfAFailureOnly) {
  int seen = 0;
  cli::Tool tool = tool_of([](const cli::Shared&) { return 0; });
  tool.on_fatal = [&seen](int code) { seen = code; };
  run(tool, {});
  EXPECT_EQ(seen, 0);
  run(tool, {"--bad"});
  EXPECT_EQ(seen, 2);
}

int code_with_stdout(int fd) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDERR_FILENO);
    if (fd >= 0) ::dup2(fd, STDOUT_FILENO);
    else ::close(STDOUT_FILENO);
    std::string name = "mt-x";
    char* argv[] = {name.data()};
    ::_exit(cli::run(tool_of([](const cli::Shared&) { cli::row({"x"}); return 0; }), 1, argv));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Cli, ResultsThatDoNotArriveAreAnIoError) {
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  EXPECT_EQ(code_with_stdout(full), 5);
  EXPECT_EQ(code_with_stdout(-1), 5) << "stdout closed by the caller";
  ::close(full);
}

TEST(Cli, AWriteBeyondTheLimitOnFileSizeIsAnIoErrorAndNoSignal) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  struct rlimit old {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  struct rlimit none = old;
  none.rlim_cur = 0;
  ::setrlimit(RLIMIT_FSIZE, &none);
  EXPECT_EQ(code_with_stdout(::fileno(file)), 5);
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::fclose(file);
}

}  // namespace
}  // namespace mt
