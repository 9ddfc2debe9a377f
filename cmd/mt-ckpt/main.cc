// mt-ckpt: list, describe, verify, compare, convert, average and tidy up checkpoints.

#include "base/cli.h"
#include "mt-ckpt/commands.h"

int main(int argc, char** argv) {
  mt::cli::Tool tool;
  tool.name = "mt-ckpt";
  tool.summary = "List, describe, verify, compare, convert, average and tidy up checkpoints.";
  tool.commands = {mt::list_command(), mt::info_command(), mt::verify_command(), mt::diff_command(),
                   mt::cat_command(),  mt::stats_command(), mt::average_command(), mt::convert_command(), mt::gc_command(), mt::random_command()};
  tool.backends = "none needed";
  return mt::cli::run(tool, argc, argv);
}
