#pragma once
// The head as the last sub-layer: final norm, logits, and the vocabulary-parallel cross-entropy.
//
//   Vs  columns of the output layer here, padding included      true columns  those below the true vocabulary size
// forward writes ctx.token_loss [T] and leaves in the saved logits: their gradient (Mode::train), or themselves. It has
// no y. In Mode::generate it stops at the logits (ctx.last_logits). Padding columns are outside the softmax and get
// exact zero gradients. With tied embeddings the weight is the word embedding and the gradient goes to its slot 1.
// Source: Megatron-LM cross_entropy.py. Code: nn/vocab_parallel_loss.cc. Tests: tests/nn/.

#include "layout/model_spec.h"
#include "nn/sub_layer.h"

namespace mt {

struct HeadShard {
  std::int64_t first_id = 0;      // vocabulary id of column 0
  std::int64_t true_columns = 0;  // columns that are vocabulary
};

SubLayer vocab_parallel_loss(const ParameterStore& params, const ModelSpec& model, int unit,
                             std::vector<SavedTensor> saved, HeadShard shard);

}  // namespace mt
