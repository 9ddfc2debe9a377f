#pragma once
// How far an encoding run is, on disk beside its output, so that a run after a kill goes on instead of beginning anew.
//
// A text file of JSON lines: the first says what decides the output (inputs with size and time of change, options,
// tokenizer); each further one says that everything up to a position of the input is on the disk. It is only ever
// appended to; a last line that is cut short counts as not there. Code: data/encode_journal.cc. Tests:
// tests/data/encode_resume_test.cc, tests/cli/mt-preprocess-resume.sh.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/indexed_dataset.h"
#include "data/text_source.h"

namespace mt::data {

struct JournalEntry {
  // running: the input goes on at `at`. complete: all input is encoded, final names may be taken. published: all of
  // them are; only temporaries are left to remove.
  enum class Phase { running, complete, published } phase = Phase::running;
  TextPosition at;
  std::vector<TokenFileMark> files;  // one a key
  std::uint64_t rejects_bytes = 0;
  Json report;  // counts so far
};

class EncodeJournal {
 public:
  struct Found {
    Json identity;
    std::vector<std::string> prefixes;
    std::optional<JournalEntry> last;
    std::uint64_t bytes = 0;  // of whole lines
  };
  // The journal that a killed run left, if there is one that can be read.
  static std::optional<Found> find(const std::filesystem::path& path);

  // Begin one, in place of what is there.
  //   prefixes  of all token files of the run   fails  Error{io}
  EncodeJournal(const std::filesystem::path& path, const Json& identity, const std::vector<std::string>& prefixes);
  // Go on with one that was found.
  EncodeJournal(const std::filesystem::path& path, const Found& found);
  // A journal goes with its run, unless it is kept.
  ~EncodeJournal();
  EncodeJournal(const EncodeJournal&) = delete;
  EncodeJournal& operator=(const EncodeJournal&) = delete;

  // Append an entry and bring it to the disk.   needs  what it speaks of is there already   fails  Error{io}
  void add(const JournalEntry& entry);
  // Whether it stays for a later run to go on from.
  void keep(bool on) { kept_ = on; }

 private:
  void append(const Json& line);
  std::filesystem::path path_;
  int fd_ = -1;
  bool kept_ = false;
};

// Stop before the temporaries of a prefix are thrown away: a journal, of this prefix or of another key of the same run,
// says that they are part of a killed run that can be gone on with. With `force` they may go, and it is said.
//   fails  Error{io} with what to do
void refuse_resumable(const std::string& prefix, bool force);

// The first difference between what decides the output of two runs, in words: "--append-eod was false, is true"; ""
// where there is none. Members of "inputs" are compared one by one.
std::string first_difference(const Json& was, const Json& is);

}  // namespace mt::data
