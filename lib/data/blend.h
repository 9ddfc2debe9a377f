#pragma once
// Several token files as one set: what --data-path and --split say, how many samples each file gives, and the order a
// blend draws in.
//
// Legend: N samples wanted, w_i the normalised weight of member i.
// Source: facts of Megatron-LM core 0.20 (BlendedMegatronDatasetBuilder, build_blending_indices).
// Code: data/blend.cc, data/blend_order.cc. Tests: tests/data/blend_test.cc (counts and orders from numpy).
// The sets of a whole run are opened by data/run_sets.h.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/gpt_dataset.h"
#include "data/index_cache.h"

namespace mt::data {

// --data-path as given: prefixes, and weights if every second word was a number.
struct DataPath {
  std::vector<std::string> prefixes;
  std::vector<double> weights;  // empty: no weights
};

// `p`, `p1 p2 p3`, or `w1 p1 w2 p2`. An odd count is all prefixes; an even count is weights and prefixes if the words
// at even places are all numbers, prefixes if none is. A weight of 0 is taken: nothing is drawn there.
//   fails  Error{usage}: nothing given, a mixture, weights that are negative, infinite or sum to 0
DataPath parse_data_path(const std::vector<std::string>& words);

// --split "969,30,1": three shares that sum to 1 (missing ones are 0), with commas or white space between them.
//   fails  Error{usage} naming the value: no number, a negative or infinite one, more than three, all zero
std::array<double, 3> parse_split(const std::string& text);

// The sequences of each split: [round(lo N), round(hi N)), halves to even, as Megatron cuts.
std::array<SequenceRange, 3> split_ranges(const std::array<double, 3>& shares, std::int64_t num_sequences);

// Members are numbered in 16 bits with a sign.
inline constexpr std::size_t kMostMembers = 32767;

// Weights over their sum, added in the order numpy.sum adds: a sum in another order can move a sample.
std::vector<double> normalised(std::span<const double> weights);

// What a weighted blend draws of a member, ceil(N w), and how many samples of it are made, ceil(ceil(N w) (1 + surplus)).
struct MemberSamples {
  std::int64_t drawn = 0, made = 0;
};
MemberSamples member_samples(std::int64_t wanted, double weight, double surplus);

// Which member each sample of a blend comes from, and its ordinal there: the member furthest behind its share is next,
// ties to the first.
//   needs  as many places in both; weights normalised, 1 to kMostMembers
//   cost   a sample: members / 32 bounds and a few blocks of 32 (of 128 from 4096 members on)
struct BlendOrder {
  std::span<std::int16_t> member;
  std::span<std::int64_t> ordinal;
};
void fill_blend_order(std::span<const double> weights, const BlendOrder& order);

// The same until every member has given all it has: the exhaustive blend.
//   needs  places for the sum of `sizes`
void fill_exhaustive_order(std::span<const std::int64_t> sizes, const BlendOrder& order);

// Of one member: what a person sees before a run begins.
struct MemberPlan {
  std::string prefix;
  double weight = 0;                      // share of the samples; of all members 1
  std::int64_t samples = 0;               // the set draws
  std::int64_t made = 0;                  // there are
  std::int64_t sequences = 0, tokens = 0;  // of its range of the file
  double epochs = 0;                      // how often its text is read: samples x seq_length / tokens
};

// Samples of one split over all token files. With one file and no weights it is that file's GptDataset.
class BlendedDataset {
 public:
  // order  arrays of members (int16) and ordinals (int64), or none for one member
  BlendedDataset(std::vector<GptDataset> members, IndexArrays order, std::vector<MemberPlan> plan);

  std::int64_t size() const { return blended_ ? static_cast<std::int64_t>(member_.size()) : members_.front().size(); }
  std::int64_t seq_length() const { return members_.front().seq_length(); }
  std::size_t num_members() const { return members_.size(); }
  const std::vector<MemberPlan>& plan() const { return plan_; }

  // As GptDataset::fetch; k is the ordinal of the sample in the run.
  std::int64_t fetch(std::int64_t k, std::span<std::int32_t> out) const;
  std::int64_t fetch(std::int64_t k, std::span<std::int32_t> out, std::vector<std::int32_t>& document_starts) const;

  // Member file and ordinal in it: Megatron's dataset_id and what goes with it.
  std::pair<std::size_t, std::int64_t> place(std::int64_t k) const;

 private:
  std::vector<GptDataset> members_;
  IndexArrays order_;
  bool blended_ = false;
  std::span<const std::int16_t> member_;
  std::span<const std::int64_t> ordinal_;
  std::vector<MemberPlan> plan_;
};

// Token files, each opened once however many sets read it.
class TokenFiles {
 public:
  //   fails  as IndexedDataset. The reference stays good
  const IndexedDataset& open(const std::string& prefix);
  // IndexedDataset::content_text of it, computed once.
  const std::string& content(const std::string& prefix);

 private:
  struct File {
    std::unique_ptr<IndexedDataset> tokens;
    std::string content;
  };
  File& file(const std::string& prefix);
  std::map<std::string, File> files_;
};

// One set: of all files of a path the part that one split cuts out.
struct SetRequest {
  DataPath path;
  std::string name = "training";             // in messages
  std::string split = "1";                   // as given
  std::size_t part = 0;                      // which of its shares
  // Files are for this set alone: then one file is read without a blend, whatever its weight.
  bool own_path = false;
  std::optional<std::int64_t> num_samples;  // at least so many; nothing: every sample once, the exhaustive blend
  std::int64_t seq_length = 0;
  std::uint32_t seed = 1234;
  double surplus = 0.005;  // --mid-level-dataset-surplus
};

// A member as build_set would make it, without the order of its samples.
struct ExpectedMember {
  std::string prefix, type;  // "uint16", "int32", ...
  std::int64_t documents = 0, tokens = 0;  // of the set's share of the file
  std::int64_t made = 0, samples = 0;      // samples there are, and what the set takes of them (of a blend to the nearest)
};
//   fails  as build_set, but for draws beyond what is made   cost  reads each .idx once or twice
std::vector<ExpectedMember> expected_plan(const SetRequest& request, TokenFiles& files);

// Build it.
//   needs  `files` outlives the set
//   fails  Error{config}: the split leaves a file without a sequence (names the split, its 0 documents of how many, and a
//          --split that works), weights where every sample is wanted once, fewer samples than wanted, a member that has
//          fewer samples than the blend draws (raise the surplus), over kMostMembers files; Error{io}, Error{corrupt}
//          from the files
//   cost   as GptDataset, a member; no loop over more epochs than asked
BlendedDataset build_set(const SetRequest& request, TokenFiles& files, IndexCache& cache);

}  // namespace mt::data
