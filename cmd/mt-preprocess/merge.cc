
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "commands.h"
#include "data/merge_files.h"
#include "options/registry_options.h"

namespace mt::preprocess {

Run build_merge(OptionTable& table, const cli::Shared& shared) {
  struct Flags {
    std::vector<std::string> input;
    std::string output_prefix;
    bool force = false;
    options::RegistryFlag registry;
  };
  const auto flags = std::make_shared<Flags>();
  table.group("Files");
  table.add("input", flags->input, "PREFIX", "token files to join, in this order; a directory is those in it, by name").multiple = true;
  table.add("output-prefix", flags->output_prefix, "P", "files are P.bin, P.idx and P.json");
  table.add("force", flags->force, "", "overwrite files that exist");
  flags->registry.add(table);
  return [flags, &shared, &table] {
    const auto begun = Clock::now();
    const Json start = options::RegistryFlag::start("mt-preprocess merge", table);
    if (flags->input.empty()) throw Error(Code::usage, "no token file given", "--input");
    if (flags->output_prefix.empty()) throw Error(Code::usage, "no output prefix given", "--output-prefix");
    const data::MergeReport r = data::merge_files(flags->input, flags->output_prefix, flags->force);
    log::info("{}, {}, {}, {}", counted(r.files, "file"),
              counted(r.documents, "document"), counted(r.sequences, "sequence"), counted(r.tokens, "token"));
    if (!r.without_origin.empty())
      log::warn("{} does not say which tokenizer made it, so the merged file does not either", r.without_origin);
    const Json result{
        {"files", r.files},         {"documents", r.documents}, {"sequences", r.sequences},
        {"tokens", r.tokens},       {"prefix", flags->output_prefix}};
    if (shared.json) cli::object(result);
    const double seconds = seconds_since(begun);
    flags->registry.record(start, seconds, result);
    return 0;
  };
}

}  // namespace mt::preprocess
