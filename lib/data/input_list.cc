#include "data/input_list.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "data/input_kind.h"

namespace mt::data {

namespace {

constexpr std::size_t kNamesSaid = 3;

// A token file's sidecar has the ending of JSON lines and holds none.
bool is_sidecar(const fs::path& path) {
  std::error_code error;
  fs::path stem = path;
  if (path.extension() != ".json") return false;
  return fs::exists(stem.replace_extension(".idx"), error) && fs::exists(stem.replace_extension(".bin"), error);
}

bool wanted(const fs::path& path, InputFormat format) {
  const std::optional<InputFormat> by_ending = format_by_ending(path.string());
  return by_ending && (format == InputFormat::by_name || *by_ending == format) && !is_sidecar(path);
}

struct Found {
  std::vector<std::string> taken, left_out;
};

void walk(const fs::path& directory, InputFormat format, Found& found) {
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  if (error) throw Error(Code::io, "cannot read the directory: " + error.message(), directory.string());
  for (const fs::directory_iterator end; entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.filename().string().starts_with('.')) continue;
    std::error_code ignored;
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) {
      walk(path, format, found);
    } else if (entry->is_regular_file(ignored) && wanted(path, format)) {
      found.taken.push_back(path.string());
    } else {
      found.left_out.push_back(path.string());
    }
  }
  if (error) throw Error(Code::io, "cannot read the directory: " + error.message(), directory.string());
}

std::string some_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesSaid); ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() > kNamesSaid ? text + ", ..." : text;
}

std::vector<std::string> files_below(const std::string& directory, InputFormat format) {
  Found found;
  walk(directory, format, found);
  std::sort(found.taken.begin(), found.taken.end());
  std::sort(found.left_out.begin(), found.left_out.end());
  if (found.taken.empty()) {
    const auto foreign = std::find_if(found.left_out.begin(), found.left_out.end(),
                                      [](const std::string& name) { return !recipe_by_ending(name).empty(); });
    throw Error(Code::io,
                fmt::format("no file in it ends as {}{}", endings_text(format),
                            found.left_out.empty() ? "" : "; there are " + some_names(found.left_out)),
                directory,
                foreign != found.left_out.end() ? recipe_by_ending(*foreign)
                                                : "other endings by a pattern and --input-format, as 'DIR/*.md'");
  }
  if (!found.left_out.empty()) {
    log::info("{}: {} files, {} left out ({})", directory, found.taken.size(), found.left_out.size(),
              some_names(found.left_out));
  }
  return found.taken;
}

std::vector<std::string> files_matching(const std::string& pattern) {
  glob_t matches{};
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  std::vector<std::string> files, left_out;  // a pipe would be waited for, a device has no end
  std::error_code error;
  bool only_directories = status == 0 && matches.gl_pathc > 0;
  for (std::size_t i = 0; status == 0 && i < matches.gl_pathc; ++i) {
    const fs::path path = matches.gl_pathv[i];
    if (fs::is_directory(path, error)) continue;
    only_directories = false;
    (fs::is_regular_file(path, error) ? files : left_out).push_back(path.string());
  }
  ::globfree(&matches);
  if (!left_out.empty()) {
    std::sort(left_out.begin(), left_out.end());
    if (files.empty())
      throw Error(Code::io, fmt::format("the pattern matches no file, but what is none: {}", some_names(left_out)), pattern,
                  "name a pipe without a pattern");
    log::info("{}: {} left out, which {} no file{} ({})", pattern, left_out.size(), left_out.size() == 1 ? "is" : "are",
              left_out.size() == 1 ? "" : "s", some_names(left_out));
  }
  if (files.empty()) {
    throw Error(Code::io, only_directories ? "the pattern matches directories alone" : "no file matches the pattern",
                pattern, only_directories ? "name a directory without a pattern, or the files in it: 'DIR/*/*'" : "");
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<std::string> expand_inputs(const std::vector<std::string>& given, InputFormat format) {
  std::vector<std::string> all;
  for (const std::string& name : given) {
    std::error_code error;
    const fs::file_status status = fs::status(name, error);
    std::vector<std::string> files = {name};
    if (name != "-" && fs::is_directory(status)) files = files_below(name, format);
    else if (name != "-" && !fs::exists(status) && name.find_first_of("*?[") != std::string::npos)
      files = files_matching(name);
    all.insert(all.end(), files.begin(), files.end());
  }
  return all;
}

}  // namespace mt::data
