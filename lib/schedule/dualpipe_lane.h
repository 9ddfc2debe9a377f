#pragma once
// The order of one rank of DualPipe and DualPipe-V: eight phases over two streams of micro-batches. Internal to
// lib/schedule.

#include "schedule/schedule.h"

namespace mt {

struct DualPipeLane {
  int depth = 1;              // ranks of a half of the pipe
  int place = 0;              // of this rank in its half, 0 at the outer end
  int stream_micro_batches = 2;  // of each stream, at least 2·depth
  bool swapped = false;       // the second half meets the streams the other way round
  int second_offset = 0;      // number of the first micro-batch of stream 1
};

// Chunk c serves stream c.   cost  linear in the steps
Lane dualpipe_lane(const DualPipeLane& rank);

}  // namespace mt
