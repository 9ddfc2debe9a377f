#include <cstdio>
#include <fstream>
#include <iostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "infer/generate.h"
#include "options/idle_flags.h"

namespace mt::eval {

namespace {

struct Flags {
  ModelFlags model;
  std::vector<std::string> prompts;
  std::string input;
  std::int64_t max_new = 64;
  SamplingOptions sampling;
  bool greedy = false, ignore_eod = false;
};

std::vector<std::string> prompts_of(const Flags& f) {
  auto prompts = f.prompts;
  for (const auto& p : prompts) check_utf8(p, "--prompt");
  if (f.input.empty()) return prompts;
  std::ifstream file;
  if (f.input != "-") {
    file.open(f.input);
    if (!file) throw Error(Code::io, "cannot read the prompts", f.input);
  }
  std::int64_t number = 0;
  std::istream& in = f.input == "-" ? std::cin : file;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    check_utf8(line, fmt::format("{}:{}", f.input, ++number));
    prompts.push_back(line);
  }
  return prompts;
}

int run_rank(Communicator& world, const Flags& f, const std::vector<std::string>& prompts, const Json& start,
             bool json) {
  const auto began = Clock::now();
  Session session(world, f.model.resolved());
  told_precision(world, session);
  const auto tokenizer = tokenizer_for(f.model, session);
  const auto stop = f.ignore_eod ? std::nullopt : tokenizer->eod();
  const bool first = world.rank() == 0;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto ids = tokenizer->surround().before;
    const auto prompt = tokenizer->encode(prompts[i]);
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    if (ids.empty() && tokenizer->eod()) ids.push_back(*tokenizer->eod());
    const Generated g = generate(session, ids, f.max_new, f.sampling, stop, i, {});
    tokens += static_cast<std::int64_t>(g.ids.size());
    if (!first) continue;
    const std::string text = tokenizer->decode(g.ids);
    if (json)
      cli::object({{"prompt", prompts[i]},
                   {"text", text},
                   {"ids", g.ids},
                   {"stopped", g.stopped},
                   {"prefill_s", g.prefill_s},
                   {"decode_s", g.decode_s}});
    else
      std::printf("%s%s\n", prompts[i].c_str(), text.c_str());
    std::fflush(stdout);
  }
  const double seconds = seconds_since(began);
  if (first) f.model.registry.record(start, seconds, {{"prompts", prompts.size()}, {"tokens", tokens}});
  return 0;
}

}  // namespace

Build generate_command() {
  return [](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
    auto f = std::make_shared<Flags>();
    f->sampling.temperature = 1.0;
    f->model.add(table);
    table.group("Prompts");
    table.add("prompt", f->prompts, "TEXT", "text to continue; each word given is a prompt").multiple = true;
    table.add("input", f->input, "FILE", "a prompt a line; - is stdin");
    table.group("Sampling");
    table.add("max-new-tokens", f->max_new, "N", "stop after so many", "tokens").at_least(1);
    table.add("greedy", f->greedy, "", "always the most probable token");
    table.add("temperature", f->sampling.temperature, "X", "divides the logits; 0 is greedy").at_least(0);
    table.add("top-k", f->sampling.top_k, "N", "among the N most probable; 0: all").at_least(0);
    table.add("top-p", f->sampling.top_p, "P", "among the most probable that together reach P");
    table.add("seed", f->sampling.seed, "N", "of the draws");
    table.add("ignore-eod", f->ignore_eod, "", "do not stop at the end-of-document token");
    return [f, &table, &shared] {
      options::note_idle_flags(
          table, {{f->greedy, {"temperature", "top-k", "top-p", "seed"}, "beside --greedy"},
                  {!f->greedy && f->sampling.temperature == 0, {"top-k", "top-p", "seed"}, "with --temperature 0"}});
      if (f->greedy) f->sampling.temperature = 0;
      if (f->sampling.top_p <= 0 || f->sampling.top_p > 1)
        throw Error(Code::usage, fmt::format("--top-p {} is not in (0, 1]", f->sampling.top_p));
      const auto prompts = prompts_of(*f);
      if (prompts.empty()) throw Error(Code::usage, "no prompt", "", "--prompt TEXT or --input FILE");
      const Json start = options::RegistryFlag::start("mt-eval", table);
      return f->model.launch.run([&](Communicator& world, comm::StatusSlot& slot) {
        slot.at(-1, "generate");
        return run_rank(world, *f, prompts, start, shared.json);
      });
    };
  };
}

}  // namespace mt::eval
