#pragma once
// The writing side of an encoding run: everything that must happen in the order of the input, and the journal of it.
//
// Code: data/encode_commit.cc. Tests: tests/data/encode_corpus_test.cc, tests/data/encode_resume_test.cc.

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "base/file_lock.h"
#include "base/files.h"
#include "data/encode_chunk.h"
#include "data/encode_corpus.h"
#include "data/encode_journal.h"

namespace mt::data {

// What a run writes besides its token files, and where it takes up a killed one.
struct CommitPlan {
  TokenType type = TokenType::i32;
  bool journaled = false;  // the input can be read again
  Json identity;           // journaled: what decides the output
  std::optional<EncodeJournal::Found> resume;  // with an entry that is not `published`
};

class EncodeCommitter {
 public:
  // Opens all outputs; the arguments outlive it and `report` is filled as chunks come.
  //   fails  Error{io}; Error{corrupt}: what the killed run left is not what its journal says
  EncodeCommitter(const EncodeJob& job, CommitPlan plan, const tokenizer::Tokenizer& tokenizer, const TextSource& source,
                  EncodeReport& report);

  // The next chunk in order.
  //   fails  Error{data}: a bad record, or one too many; Error{io}; a failure the chunk carries
  void take(ChunkResult& result);
  // End before the input does, because of a signal: report says where, and what is done stays for a later run if there
  // is something and the input can be read again.   fails  Error{io}
  void stop(int signal);
  // Give everything its name.   fails  Error{data}: zero documents; Error{io}
  void finish();

 private:
  void open_rejects();
  void name_fault(const std::string& where, const RecordFault& fault);
  void keep_leftovers(bool keep);
  void take_faults(const ChunkResult& result);
  void note(JournalEntry::Phase phase);
  void publish_rejects();
  Json counts() const;
  void take_stats(ChunkResult& result);
  TokenFileOrigin origin() const;

  const EncodeJob& job_;
  CommitPlan plan_;
  const tokenizer::Tokenizer& tokenizer_;
  const TextSource& source_;
  EncodeReport& report_;
  std::optional<EncodeStats> stats_;
  JournalEntry last_;  // noted, or to be
  std::size_t named_ = 0;  // bad records, in messages of this process
  std::chrono::steady_clock::time_point noted_ = std::chrono::steady_clock::now();
  bool had_leftovers_ = false;  // temporaries of these outputs were there before
  std::optional<FileLock> rejects_lock_;
  std::optional<OutputFile> rejects_;
  std::vector<std::unique_ptr<IndexedWriter>> writers_;
  std::unique_ptr<EncodeJournal> journal_;  // from the first interval on; last: gone before what it speaks of
};

// What is left of a run that was killed when everything had its name: remove that, give its report.
EncodeReport finish_published(const EncodeJob& job, const JournalEntry& entry, const tokenizer::Tokenizer& tokenizer);

// PREFIX.journal of the first key.
std::filesystem::path journal_path(const EncodeJob& job);

}  // namespace mt::data
