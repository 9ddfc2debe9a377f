// mt-eval: score text under a trained model, and generate from it.

#include "base/features.h"
#include "commands.h"

int main(int argc, char** argv) {
  mt::cli::Tool tool;
  tool.name = "mt-eval";
  tool.summary = "Score text under a trained model, and generate from it.";
  tool.commands = {{"ppl", "perplexity per token, word and byte", mt::eval::ppl_command()},
                   {"generate", "continue prompts", mt::eval::generate_command()}};
  mt::options::speak_as_one(tool);
  tool.backends = mt::kBackends;
  return mt::cli::run(tool, argc, argv);
}
