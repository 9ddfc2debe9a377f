#include "base/cli.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include <unistd.h>

#include "base/error.h"
#include "base/json_reason.h"
#include "base/log.h"
#include "base/version.h"

namespace mt::cli {

namespace {

constexpr unsigned kTurnToSpeak_us = 2000000;

struct Switches {
  bool help = false, version = false, quiet = false, verbose = false;
  std::string config;
};

void add_shared(OptionTable& table, Switches& switches, Shared& shared) {
  table.group("General");
  table.add("help", switches.help, "", "print this help and leave");
  table.add("version", switches.version, "", "print the version and the backends built in, and leave");
  table.add("quiet", switches.quiet, "", "no messages but errors and warnings");
  table.add("verbose", switches.verbose, "", "more messages");
  table.add("json", shared.json, "", "results as one JSON object a line");
  table.add("config", switches.config, "FILE", "read options from FILE, one 'name = value' a line");
  table.group("");
}

// One command made ready: its table filled and the closure that runs it.
struct Prepared {
  Prepared(const Tool& tool, const Command& command)
      : table(command.name.empty() ? tool.name : tool.name + " " + command.name, "[options]",
              command.name.empty() ? tool.summary : command.summary) {
    run = command.build(table, shared);
    add_shared(table, switches, shared);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  Shared shared;
  Switches switches;
  OptionTable table;
  std::function<int()> run;
};

void say(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

const Command* find(const Tool& tool, const std::string& name) {
  for (const Command& c : tool.commands)
    if (c.name == name) return &c;
  return nullptr;
}

std::string tool_help(const Tool& tool) {
  std::string text = fmt::format("usage: {} COMMAND [options]\n{}\n\nCommands:\n", tool.name, tool.summary);
  for (const Command& c : tool.commands)
    text += fmt::format("  {:<22}{}{}\n", c.name, c.summary, c.name == tool.default_command ? " (default)" : "");
  return text + fmt::format("\n'{} COMMAND --help' prints a command's options.\n", tool.name);
}

std::string version_text(const Tool& tool) {
  std::string text = tool.name + " " + version() + "\n";
  if (!tool.backends.empty()) text += "backends: " + tool.backends + "\n";
  return text;
}

bool has_flag(int argc, char** argv, const char* flag) {
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i)
    if (std::strcmp(argv[i], flag) == 0) return true;
  return false;
}

void dump_options(const Tool& tool) {
  for (const Command& c : tool.commands) {
    const Prepared p(tool, c);
    for (const OptionRow& row : p.table.rows()) {
      const Json j = {{"tool", tool.name}, {"command", c.name}, {"name", row.name}, {"argument", row.argument},
                      {"unit", row.unit}, {"default", row.fallback}, {"help", row.help}, {"group", row.group},
                      {"multiple", row.multiple}, {"hidden", row.hidden}, {"choices", row.choices},
                      {"aliases", p.table.aliases_of(row.name)}};
      object(j);
    }
  }
}

int run_command(const Tool& tool, const Command& command, int argc, char** argv) {
  Prepared p(tool, command);
  if (has_flag(argc, argv, "--help")) {
    say(p.table.help());
    return 0;
  }
  if (has_flag(argc, argv, "--version")) {
    say(version_text(tool));
    return 0;
  }
  try {
    p.table.parse(argc, argv);
  } catch (const Error&) {
    if (!tool.speaks) ::usleep(kTurnToSpeak_us);
    throw;
  }
  if (p.switches.verbose && p.switches.quiet && tool.speaks) log::warn("--quiet does nothing beside --verbose");
  if (p.switches.verbose) log::set_level(log::Level::verbose);
  else if (p.switches.quiet) log::set_level(log::Level::quiet);
  return p.run();
}

int dispatch(const Tool& tool, int argc, char** argv) {
  const bool has_word = argc > 1 && argv[1][0] != '-';
  if (const Command* only = find(tool, "")) {
    if (argc > 1 && std::strcmp(argv[1], "--dump-options") == 0) {
      dump_options(tool);
      return 0;
    }
    return run_command(tool, *only, argc, argv);
  }
  if (has_word) {
    if (const Command* c = find(tool, argv[1])) return run_command(tool, *c, argc - 1, argv + 1);
    std::vector<std::string> names;
    for (const Command& c : tool.commands) names.push_back(c.name);
    const std::string nearest = nearest_name(argv[1], names);
    throw Error(Code::usage, fmt::format("unknown command '{}'", argv[1]), "",
                nearest.empty() ? "see " + tool.name + " --help" : "did you mean " + nearest + "?");
  }
  if (argc > 1 && std::strcmp(argv[1], "--dump-options") == 0) {
    dump_options(tool);
  } else if (argc > 1 && std::strcmp(argv[1], "--help") == 0) {
    say(tool_help(tool));
    if (const Command* c = find(tool, tool.default_command)) say("\n" + Prepared(tool, *c).table.help());
  } else if (argc > 1 && std::strcmp(argv[1], "--version") == 0) {
    say(version_text(tool));
  } else {
    const Command* c = find(tool, tool.default_command);
    if (c == nullptr) throw Error(Code::usage, "a command is required", "", "see " + tool.name + " --help");
    return run_command(tool, *c, argc, argv);
  }
  return 0;
}

// Everything said must have arrived. The last close can fail too (NFS, quota); closing a duplicate asks for that answer
// and leaves the descriptor usable to whoever runs after us.
void close_stdout() {
  const bool before = std::ferror(stdout) != 0;
  int error_number = std::fflush(stdout) == 0 ? 0 : errno;
  const int copy = ::dup(STDOUT_FILENO);
  if (copy >= 0 && ::close(copy) != 0 && error_number == 0) error_number = errno;
  std::clearerr(stdout);
  if (error_number != 0) throw Error(Code::io, "cannot write: " + errno_text(error_number), "standard output");
  if (before) throw Error(Code::io, "cannot write", "standard output");
}

template <class Body>
int guarded(Body body) {
  try {
    return body();
  } catch (const Error& e) {
    log::line(e.what());
    return static_cast<int>(e.code());
  } catch (const std::bad_alloc&) {
    log::line("out of memory");
    return static_cast<int>(Code::device);
  } catch (const nlohmann::detail::exception& e) {
    log::line("JSON that is not of the form it should have: " + json_reason(e));
    return static_cast<int>(Code::corrupt);
  } catch (const std::exception& e) {
    log::line(std::string("internal error: ") + e.what());
    return static_cast<int>(Code::internal);
  }
}

std::string escaped(const std::string& field) {
  std::string out;
  for (const char c : field) {
    if (c == '\t') out += "\\t";
    else if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else out += c;
  }
  return out;
}

}  // namespace

int run(const Tool& tool, int argc, char** argv) {
  log::set_tool(tool.name);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit on file size fails like any other, and is told
  int code = guarded([&] { return dispatch(tool, argc, argv); });
  const int closed = guarded([] {
    close_stdout();
    return 0;
  });
  if (code == 0) code = closed;
  if (code != 0 && tool.on_fatal) tool.on_fatal(code);
  return code;
}

void part(const std::string& text) { say(text); }

void row(std::span<const std::string> fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) line += (i == 0 ? "" : "\t") + escaped(fields[i]);
  say(line + "\n");
}

void row(std::initializer_list<std::string> fields) { row(std::span(fields.begin(), fields.size())); }

void object(const Json& j) { say(json_line(j) + "\n"); }

std::string version() {
  const std::string described = kVersionDescribe;
  return described.empty() ? kVersion : fmt::format("{} ({})", kVersion, described);
}

}  // namespace mt::cli
