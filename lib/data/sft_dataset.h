#pragma once
// Samples for fine-tuning on conversations: chat JSON lines, loss on the answers alone, conversations of a line packed
// one behind the other.
//
// As in Megatron a line is a sample: sample k of a file is line k mod n of its split, unshuffled and without end. With
// pack_lines, consecutive lines share a sample while they fit, so that little of it is padding.
//   L  seq_length; a sample of T tokens shows T - 1 of them or L, whichever is less, as inputs
// Positions begin at 0 with every conversation and attention stays inside it. What does not fit is cut off at the end
// (dropped counts it) and the last input then has no target; what is short is padded in the last conversation's part.
// A line without an answer is a sample that counts nothing; the file says how many conversations there are of those.
// Source: facts of Megatron-LM core 0.20 (SFTDataset). Megatron pads every conversation to a multiple of twice the
// context-parallel size; here samples do not depend on the layout.
// Code: data/sft_dataset.cc. Tests: tests/data/sft_dataset_test.cc.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "data/blend.h"
#include "data/prompt_format.h"
#include "data/sample_masks.h"
#include "data/sample_options.h"

namespace mt::data {

// One sample out of conversations, padded or cut to seq_length tokens.
//   needs  seq_length >= 1
void pack_conversations(const std::vector<Conversation>& conversations, const PromptFormat& format,
                        std::int64_t seq_length, tokenizer::EncodeScratch& scratch, TrainingSample& out);

// A file of chat JSON lines, mapped.
class SftFile {
 public:
  // Read every line once and check it. Lines of white space are passed over.
  //   fails  Error{io}; Error{data} as read_conversations with FILE:LINE, or no conversation in the file
  //   cost   one pass of simdjson over the file; 8 bytes a line
  explicit SftFile(const std::string& path);

  const std::string& path() const { return path_; }
  std::int64_t num_lines() const { return static_cast<std::int64_t>(begins_.size()); }
  std::int64_t num_conversations() const { return num_conversations_; }
  std::int64_t num_without_answer() const { return num_without_answer_; }
  std::vector<Conversation> read(std::int64_t line) const;

 private:
  std::string_view line(std::int64_t i) const;
  std::string where(std::int64_t i) const;
  std::string path_;
  MappedFile file_;
  std::vector<std::uint64_t> begins_;
  std::int64_t num_conversations_ = 0, num_without_answer_ = 0;
};

// The samples of one split of one or several files.
class SftDataset {
 public:
  // Member i is files[i] and its lines in ranges[i]; weights as in a blend, empty: by the members' samples.
  struct Request {
    std::vector<const SftFile*> files;
    std::vector<SequenceRange> ranges;
    std::vector<double> weights;
    std::int64_t num_samples = 0;  // of a blend of several files, which then begins anew; one file has no end
    std::int64_t seq_length = 0;
    bool pack_lines = false;
  };
  //   needs  `format` and the files outlive this
  //   fails  Error{config}: a file without a line in its range
  //   cost   with pack_lines, encodes every line once
  SftDataset(const Request& request, const PromptFormat& format);

  std::size_t num_members() const { return members_.size(); }
  // Of each member: its file, samples drawn of how many there are, lines as `sequences`, passes as `epochs`; tokens are
  // not known. The share of the samples is `weight`; all is 0 where num_samples is.
  const std::vector<MemberPlan>& plan() const { return plan_; }
  // Samples of one pass over every file: the lines, or fewer under pack_lines.
  std::int64_t pass() const;
  // Sample k.   needs  k >= 0
  void make(std::int64_t k, TrainingSample& out) const;
  // Member and sample in it, for messages and tests.
  std::pair<std::size_t, std::int64_t> place(std::int64_t k) const;

 private:
  struct Member {
    const SftFile* file = nullptr;
    std::vector<std::int64_t> begins;  // first line of every sample, and the end
    std::int64_t size() const { return static_cast<std::int64_t>(begins.size()) - 1; }
  };
  Member open(const SftFile& file, SequenceRange lines, bool pack) const;
  void blend(const Request& request);

  const PromptFormat* format_;
  std::int64_t seq_length_;
  std::vector<Member> members_;
  std::vector<std::int16_t> member_;    // of each sample of a blend; empty for one member
  std::vector<std::int64_t> ordinal_;
  std::vector<MemberPlan> plan_;
};

}  // namespace mt::data
