#include "layout/host_activations.h"

#include <gtest/gtest.h>

#include "layout/models.h"

namespace mt {
namespace {

std::string rows_on_host(const ModelSpec& model, const StageContent& chunk, int layers) {
  std::string text;
  for (int row = 0; row < static_cast<int>(model.decoder().rows.size()); ++row)
    text += saved_on_host(model, chunk, row, layers) ? 'h' : '-';
  return text;
}

TEST(HostActivations, TheFirstLayersOfAChunkAreMeant) {
  ModelOptions options;
  options.num_layers = 4, options.hidden_size = 8, options.num_attention_heads = 2, options.max_position_embeddings = 8;
  ModelSpec model = build_model(options, 16);
  StageContent chunk;
  chunk.first_row = 2, chunk.last_row = 6;
  EXPECT_EQ(rows_on_host(model, chunk, 0), "--------");
  EXPECT_EQ(rows_on_host(model, chunk, 1), "--hh----");
  EXPECT_EQ(rows_on_host(model, chunk, 2), "--hhhh--");
  EXPECT_EQ(rows_on_host(model, chunk, 9), "--hhhh--");
  model.towers.back().rows[2].kind = RowKind::none;
  EXPECT_EQ(rows_on_host(model, chunk, 1), "---h----") << "a row without a sub-layer saves nothing, and its layer counts";
}

}  // namespace
}  // namespace mt
