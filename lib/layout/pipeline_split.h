#pragma once
// Which layers each pipeline stage holds: Megatron's ways to say it, turned into one list of counts.
//
//   stage  chunk v of pipeline rank r is stage v·pp + r of the model's order (schedule/schedule.h says the same)
// The embedding is always in the first stage and the output layer in the last, so a split is the number of layers of
// every stage: ParallelSpec::stage_layers, empty when all are equal. It changes where a layer is computed and no bit of
// what is computed. Code: layout/pipeline_split.cc. Tests: tests/layout/pipeline_split_test.cc, tests/train/pipeline_test.cc.

#include <optional>
#include <string>
#include <vector>

#include "layout/parallel_spec.h"
#include "layout/validate.h"

namespace mt {

// What the flags say; nothing set is the even split.
struct PipelineSplit {
  std::optional<int> first_layers, last_layers;     // layers of the first and last pipeline rank; the rest is even
  bool count_embedding = false, count_loss = false;  // each counts as a layer of its stage
  std::optional<int> layers_per_virtual_stage;      // gives the number of virtual stages
  std::string layout;                               // see parse_pipeline_layout
  bool operator==(const PipelineSplit&) const = default;
};

// More stages than this are a slip of the keys.
inline constexpr int kMostStages = 1024;

// One stage of a layout string.
struct LayoutStage {
  int layers = 0, multi_token = 0;
  bool embedding = false, loss = false;
};

// Megatron's layout string: stages parted by '|'; E embedding, t a decoder layer, m a multi-token prediction layer, L the
// loss; x*n and (…)*n repeat; commas and blanks mean nothing. "Et*3|(tt|)*29,m|L" has 32 stages.
//   fails  Error{config}: another character, an open parenthesis, a repeat without number, more than 100,000 letters
std::vector<LayoutStage> parse_pipeline_layout(const std::string& text);

// The string of a list of counts, equal stages folded: {3, 2, 2, 1} is "Et*3|(tt|)*2tL".
std::string pipeline_layout_text(const std::vector<int>& stage_layers);

// Fill vpp and stage_layers of `parallel`.
//   needs  pp and vpp of the spec; what clashes there is validate()'s to say and gives no problem here
//   gives  every clash with both numbers and what would be legal; on any the spec is unchanged
//   rules  first/last: the rest divides over the other ranks, each rank's layers over its virtual stages
//          counted embedding, loss: layers + counted divide over all stages; the first, the last hold one less
//          layout: a multiple of pp stages, E first, L last, each once; num_layers letters t; no m (there is none here)
std::vector<Problem> split_stages(const PipelineSplit& split, int num_layers, ParallelSpec& parallel);

// Layers of every stage; even when the spec lists none.   needs  what validate() accepts
std::vector<int> layers_of_stages(const ParallelSpec& parallel, int num_layers);

// Layers as near to even as they go; of more than two stages the first is the last to get one more. Offered where an even
// split fails.
std::vector<int> nearly_even_split(int num_layers, int stages);

// The layer map, in the model's order. The first stage has the embedding, the last the output layer.
struct StageRow {
  int stage = 0, pp_rank = 0, chunk = 0;
  int first_layer = 0, layers = 0;
  std::string holds;  // "embedding, layers 0-8"
};
std::vector<StageRow> stage_map(const ParallelSpec& parallel, int num_layers);

}  // namespace mt
