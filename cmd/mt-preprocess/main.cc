// mt-preprocess: text into token files, and back.

#include "commands.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/input_list.h"

namespace mt::preprocess {

void InputFlags::add(OptionTable& table) {
  table.group("Input");
  table.add("input", input, "FILE", "text to read, in order: files, directories, quoted patterns; - is standard input").multiple = true;
  table.add("input-format", format, "F", "auto goes by the ending: .jsonl .json .ndjson, .txt .text, also with .gz .zst .xz .bz2; - is jsonl")
      .choices = {"auto", "jsonl", "text"};
  table.add("document-separator", separator, "S",
            "text: documents end at S (\\n, \\t and \\\\ are understood); without it a file is one document");
}

data::TextSourceOptions InputFlags::options() const {
  if (input.empty()) throw Error(Code::usage, "no input given", "--input");
  data::TextSourceOptions options;
  options.format = format == "jsonl"  ? data::InputFormat::jsonl
                   : format == "text" ? data::InputFormat::text
                                      : data::InputFormat::by_name;
  options.inputs = data::expand_inputs(input, options.format);
  for (std::size_t i = 0; i < separator.size(); ++i) {
    const bool escape = separator[i] == '\\' && i + 1 < separator.size();
    const char next = escape ? separator[++i] : separator[i];
    if (escape && next != 'n' && next != 't' && next != '\\')
      throw Error(Code::usage, fmt::format("'\\{}' is no escape: \\n, \\t and \\\\ are", next), "--document-separator");
    options.document_separator += !escape ? next : next == 'n' ? '\n' : next == 't' ? '\t' : next;
  }
  return options;
}

std::string counted(std::int64_t n, const std::string& one) {
  return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s");
}

}  // namespace mt::preprocess

int main(int argc, char** argv) {
  using namespace mt::preprocess;
  mt::cli::Tool tool;
  tool.name = "mt-preprocess";
  tool.summary = "Turn text into token files for training, and token files back into text.";
  tool.commands = {{"encode", "encode text into PREFIX_KEY_document.bin and .idx", build_encode},
                   {"train-tokenizer", "learn a byte-level BPE vocabulary from text", build_train_tokenizer},
                   {"info", "print what token files hold", build_info},
                   {"cat", "decode documents of a token file", build_cat},
                   {"merge", "join token files into one", build_merge},
                   {"index", "make the orders of samples a training will read", build_index},
                   {"samples", "print samples as a run reads them", build_samples}};
  tool.default_command = "encode";
  return mt::cli::run(tool, argc, argv);
}
