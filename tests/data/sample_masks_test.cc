#include "data/sample_masks.h"

#include <gtest/gtest.h>

namespace mt::data {
namespace {

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

struct Masks {
  Floats loss;
  Ints positions;
  std::int64_t sum;
};

Masks masks_of(const Ints& tokens, std::int64_t num_real, const MaskOptions& options) {
  Masks m{Floats(tokens.size() - 1), Ints(tokens.size() - 1), 0};
  m.sum = fill_masks(tokens, num_real, options, m.loss, m.positions);
  return m;
}

TEST(SampleMasks, a_pad_id_that_equals_the_end_id_masks_only_padding) {
  constexpr std::int32_t kEnd = 2;
  MaskOptions options;
  options.eod = kEnd;
  const Ints padded{5, kEnd, 6, kEnd, kEnd, kEnd, kEnd};  // "5 END 6" padded to 6 + 1
  for (int fetch = 0; fetch < 100; ++fetch) {
    const Masks m = masks_of(padded, 3, options);
    EXPECT_EQ(m.loss, (Floats{1, 1, 0, 0, 0, 0}));
    EXPECT_EQ(m.sum, 2);
  }
}

TEST(SampleMasks, whole_samples_keep_every_target) {
  const Masks m = masks_of({1, 2, 3, 4}, 4, {});
  EXPECT_EQ(m.loss, (Floats{1, 1, 1}));
  EXPECT_EQ(m.positions, (Ints{0, 1, 2}));
}

TEST(SampleMasks, flags_act_after_the_end_token) {
  MaskOptions options;
  options.eod = 9;
  options.eod_mask_loss = options.reset_position_ids = options.reset_attention_mask = true;
  const Ints tokens{1, 9, 3, 4, 9, 6};
  const Masks m = masks_of(tokens, 6, options);
  EXPECT_EQ(m.loss, (Floats{1, 0, 1, 1, 0}));
  EXPECT_EQ(m.positions, (Ints{0, 1, 0, 1, 2}));
  EXPECT_EQ(attention_bounds(tokens, options), (Ints{0, 2, 5}));
  EXPECT_EQ(attention_bounds(tokens, {}), (Ints{0, 5}));
}

TEST(SampleMasks, documents_of_the_file_part_a_sample_whatever_its_ids_are) {
  MaskOptions options;
  options.eod = 9;
  options.inter_document_masking = options.eod_mask_loss = true;
  TrainingSample s;
  make_sample(Ints{1, 9, 3, 4, 9, 6, 7}, 7, options, Ints{1, 4, 6}, s);  // the target beyond is a document of its own
  EXPECT_EQ(s.ids, (Ints{1, 9, 3, 4, 9, 6}));
  EXPECT_EQ(s.labels, (Ints{9, 3, 4, 9, 6, 7}));
  EXPECT_EQ(s.bounds, (Ints{0, 1, 4, 6}));
  EXPECT_EQ(s.positions, (Ints{0, 0, 1, 2, 0, 1}));
  EXPECT_EQ(s.loss_mask, (Floats{1, 0, 1, 1, 0, 1}));
  options.reset_position_ids = options.reset_attention_mask = true;  // of no effect beside it
  TrainingSample same;
  make_sample(Ints{1, 9, 3, 4, 9, 6, 7}, 7, options, Ints{1, 4, 6}, same);
  EXPECT_EQ(same.bounds, s.bounds);
  EXPECT_EQ(same.positions, s.positions);
}

TEST(SampleMasks, padding_belongs_to_the_last_document) {
  MaskOptions options;
  options.inter_document_masking = true;
  TrainingSample s;
  make_sample(Ints{1, 2, 3, 0, 0, 0}, 3, options, Ints{2}, s);
  EXPECT_EQ(s.bounds, (Ints{0, 2, 5}));
  EXPECT_EQ(s.positions, (Ints{0, 1, 0, 1, 2}));
  EXPECT_EQ(s.loss_mask, (Floats{1, 1, 0, 0, 0}));
  make_sample(Ints{1, 2, 3}, 3, {}, Ints{1}, s);  // starts say nothing without the option
  EXPECT_EQ(s.bounds, (Ints{0, 2}));
}

}  // namespace
}  // namespace mt::data
