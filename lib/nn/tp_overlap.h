#pragma once
// Which messages of tensor parallelism go on beside products; all of it needs sequence parallelism.
//
// Megatron's --tp-comm-overlap and the switches below it (train/tp_overlap_options.h). No bytes are added and no sum has
// another order. Carried out by nn/overlapped_linear.h (gather, sum, sum_dgrad) and whole_backward() of nn/sub_layer.h.

namespace mt {

struct TpOverlap {
  bool gather = false;      // of what a product needs whole: in pieces, each multiplied when it is there
  bool sum = false;         // of a forward product over tp: in pieces, each on its way while the next is multiplied
  bool sum_dgrad = false;   // the same of an input gradient
  bool bulk_dgrad = false;  // the gather for weight gradients goes on beside the input gradient's product
  bool bulk_wgrad = false;  // the sum of an input gradient goes on beside the products of weight gradients
};

}  // namespace mt
