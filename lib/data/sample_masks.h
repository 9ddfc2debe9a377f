#pragma once
// What goes with the tokens of a sample: loss mask, positions, and document bounds for attention.
//
// A position is padding because of where it stands, never because of its id: a pad id equal to the end id keeps the
// loss of the true end token. Code: data/sample_masks.cc. Tests: tests/data/sample_masks_test.cc.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace mt::data {

struct MaskOptions {
  std::optional<std::int32_t> eod;
  bool eod_mask_loss = false;         // no loss where the input token is the end token
  bool reset_position_ids = false;    // positions restart at 0 after each end token
  bool reset_attention_mask = false;  // attention does not cross an end token
  // Parts begin where documents of the token file do, whatever the ids are: attention stays inside a document and
  // positions restart with it. The two resets then do nothing.
  bool inter_document_masking = false;

  bool needs_eod() const { return eod_mask_loss || reset_position_ids || reset_attention_mask; }
};

// fails  Error{config} naming the flags: one of them needs the end id, and nobody said it
void require_end_id(const MaskOptions& options);

// One sample of L tokens as a model reads it. Where loss_mask is 0 a label says nothing.
struct TrainingSample {
  std::vector<std::int32_t> ids, labels, positions;  // [L]
  std::vector<float> loss_mask;                      // [L]: 1 where the label counts, else 0
  std::vector<std::int32_t> bounds;  // 0, ends of the parts attention may not leave ..., L; ascending
  std::int64_t dropped = 0;          // tokens that did not fit and are left out (SFT)
  std::int64_t dropped_answers = 0;  // of them, those of answers: nothing is learned of them
};

// Sample `ordinal` of a set. A set is a pure function of the ordinal; any number of threads may ask at once.
using MakeSample = std::function<void(std::int64_t ordinal, TrainingSample& out)>;

// All of it from the L + 1 tokens.
//   needs  num_real as fetch returned it (0: nothing counts); document_starts as fetch gave them, ascending, looked at
//          under inter_document_masking alone; eod as in fill_masks
void make_sample(std::span<const std::int32_t> tokens, std::int64_t num_real, const MaskOptions& options,
                 std::span<const std::int32_t> document_starts, TrainingSample& out);

// Fill the mask and the positions of one sample of L tokens.
//   needs  tokens.size() == L + 1 (inputs and one target more), num_real as fetch returned it (1 .. L + 1),
//          loss_mask and positions of size L; eod given if a flag needs it (MT_CHECK)
//   gives  loss_mask[t] = 1 where target t is real (t + 1 < num_real), less the end tokens under eod_mask_loss;
//          positions[t] = t, or since the last end token; the sum of the mask
std::int64_t fill_masks(std::span<const std::int32_t> tokens, std::int64_t num_real, const MaskOptions& options,
                        std::span<float> loss_mask, std::span<std::int32_t> positions);

// Cumulative lengths of the parts attention may not leave: 0, ends of parts..., L. One part without
// reset_attention_mask. A part ends after its end token.
std::vector<std::int32_t> attention_bounds(std::span<const std::int32_t> tokens, const MaskOptions& options);

}  // namespace mt::data
