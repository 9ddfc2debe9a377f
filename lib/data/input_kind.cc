#include "data/input_kind.h"

#include <algorithm>

#include "base/error.h"

namespace mt::data {

namespace {

struct Ending {
  std::string_view suffix;
  InputFormat format;
};
constexpr Ending kEndings[] = {{".jsonl", InputFormat::jsonl},
                               {".json", InputFormat::jsonl},
                               {".ndjson", InputFormat::jsonl},
                               {".txt", InputFormat::text},
                               {".text", InputFormat::text}};
constexpr std::string_view kPackedEndings[] = {".gz", ".zst", ".xz", ".bz2"};
constexpr std::size_t kSmallestPacked = 9;  // an empty zstd frame; the others are larger

// A name without the ending of a packed file.
std::string_view unpacked_name(std::string_view name) {
  for (const std::string_view ending : kPackedEndings) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

// A way to lines out of each foreign kind; {} is the file.
struct Foreign {
  std::string_view kind, magic;
  std::size_t at;  // of the magic bytes
  std::string_view endings[3];
  const char* recipe;
};
constexpr const char* kDuckdb = "duckdb -c \"copy (from '{0}') to '{0}.jsonl' (format json)\" makes JSON lines of it";
constexpr const char* kPython =
    "python3 -c \"import pyarrow.feather as f; f.read_table('{0}').to_pandas().to_json('{0}.jsonl', orient='records', "
    "lines=True)\" makes JSON lines of it";
constexpr Foreign kForeign[] = {
    {"a Parquet file", "PAR1\x15", 0, {".parquet", ".pq", ""}, kDuckdb},
    {"an Arrow file", {"ARROW1\0\0", 8}, 0, {".arrow", ".feather", ".ipc"}, kPython},
    {"a zip archive", {"PK\x03\x04", 4}, 0, {".zip", "", ""}, "unzip -p '{0}' | mt-preprocess --input - reads what is in it"},
    {"a tar archive", "ustar", 257, {".tar", ".tgz", ""}, "tar -xOf '{0}' | mt-preprocess --input - reads what is in it"}};

std::string recipe_for(const Foreign& foreign, const std::string& name) {
  return fmt::format(fmt::runtime(foreign.recipe), name);
}

bool is_array_of_objects(std::string_view head) {
  const auto skip = [&head] { head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size())); };
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
  skip();
  if (!head.starts_with('[')) return false;
  head.remove_prefix(1);
  skip();
  return head.starts_with('{');
}

}  // namespace

std::optional<InputFormat> format_by_ending(std::string_view name) {
  for (const Ending& ending : kEndings) {
    if (unpacked_name(name).ends_with(ending.suffix)) return ending.format;
  }
  return std::nullopt;
}

bool named_as_packed(std::string_view name) { return unpacked_name(name) != name; }

std::string endings_text(InputFormat format) {
  if (format == InputFormat::jsonl) return ".jsonl, .json or .ndjson";
  if (format == InputFormat::text) return ".txt or .text";
  return ".jsonl, .json, .ndjson, .txt or .text";
}

std::string recipe_by_ending(const std::string& name) {
  for (const Foreign& foreign : kForeign) {
    for (const std::string_view ending : foreign.endings) {
      if (!ending.empty() && unpacked_name(name).ends_with(ending)) return recipe_for(foreign, name);
    }
  }
  return "";
}

void refuse_foreign(std::string_view head, const std::string& name, InputFormat format, Packing packing) {
  if (packing == Packing::none && named_as_packed(name) && head.size() < kSmallestPacked) {
    throw Error(Code::corrupt, fmt::format("cut off: {} bytes are no packed file", head.size()), name,
                "get the file again, or give it the ending of what it is");
  }
  for (const Foreign& foreign : kForeign) {
    if (head.size() >= foreign.at && head.substr(foreign.at).starts_with(foreign.magic)) {
      throw Error(Code::data, fmt::format("is {}, which is not read", foreign.kind), name, recipe_for(foreign, name));
    }
  }
  if (const Packing inner = packing_of(head); packing != Packing::none && inner != Packing::none) {
    throw Error(Code::data,
                fmt::format("is packed twice: {} was taken off and {} is inside", packing_name(packing), packing_name(inner)),
                name, fmt::format("unpack it once: {} -dc '{}' | mt-preprocess --input -", packing_name(packing), name));
  }
  if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF")) {
    throw Error(Code::data, "is UTF-16, wanted UTF-8", name,
                fmt::format("iconv -f UTF-16 -t UTF-8 '{0}' > '{0}.utf8' makes it UTF-8", name));
  }
  if (format == InputFormat::jsonl && is_array_of_objects(head)) {
    throw Error(Code::data, "is one JSON array, wanted an object a line", name,
                packing == Packing::none ? fmt::format("jq -c '.[]' '{0}' > '{0}l' makes lines of it", name)
                                         : fmt::format("{} -dc '{}' | jq -c '.[]' | mt-preprocess --input - reads it",
                                                       packing_name(packing), name));
  }
}

}  // namespace mt::data
