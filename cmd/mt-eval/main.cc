// mt-eval: score text under a trained model, and generate from it.

#include <unistd.h>

#include "base/features.h"
#include "comm/status_page.h"
#include "commands.h"

int main(int argc, char** argv) {
  mt::cli::Tool tool;
  tool.name = "mt-eval";
  tool.summary = "Score text under a trained model, and generate from it.";
  tool.commands = {{"ppl", "perplexity per token, word and byte", mt::eval::ppl_command()},
                   {"generate", "continue prompts", mt::eval::generate_command()}};
  // Of ranks with the same wrong command line one speaks; the others leave it the time to.
  tool.speaks = mt::comm::launched_rank().rank == 0;
  tool.on_fatal = [speaks = tool.speaks](int status) {
    if (!speaks) ::usleep(500000);
    mt::comm::abort_job(status);
  };
  tool.backends = mt::kBackends;
  return mt::cli::run(tool, argc, argv);
}
