// Two gradients on their way are enough for every schedule that has messages; where the other side reads late, more.

#include "schedule/message_buffers.h"

#include <gtest/gtest.h>

#include "schedule/passes.h"

namespace mt {
namespace {

TEST(MessageBuffers, TwoAreEnoughForEverySchedule) {
  for (const auto& row : schedule_table())
    for (int pp : {2, 3, 4, 8})
      for (int m : {1, 2, 5, 8, 16})
        for (int chunks : {1, 2, 4}) {
          const ScheduleSpec spec{.pp = pp, .num_micro_batches = m, .chunks = chunks};
          if (row.needs_merged || !problem_of(row, spec).empty()) continue;
          EXPECT_EQ(gradient_buffers(insert_communication(row.generate(spec))), 2) << row.name << " pp " << pp << " m " << m;
        }
}

TEST(MessageBuffers, AReceivePostedLateNeedsOneForEachGradientThatLies) {
  // Rank 0 posts no receive of channel 2 before its input of micro-batch 9 came, which rank 1 sends after `lying` others.
  for (int lying : {1, 2, 3, 4}) {
    Schedule s;
    s.name = "late";
    s.num_micro_batches = 10;
    s.stage_of = {{0}, {1}};
    s.max_in_flight = {10, 10};
    s.lanes.resize(2);
    const auto add = [&](int r, Act act, int m, int channel) {
      Step step;
      step.act = act;
      step.micro_batch = m;
      step.peer = 1 - r;
      step.channel = channel;
      s.lanes[static_cast<std::size_t>(r)].push_back(step);
    };
    add(0, Act::recv_activation, 9, 0), add(0, Act::forward, 9, -1);
    for (int m = 0; m < lying; ++m) add(1, Act::backward, m, -1), add(1, Act::send_gradient, m, 2);
    add(1, Act::backward, 8, -1), add(1, Act::send_gradient, 8, 2), add(1, Act::send_activation, 9, 0);
    for (int m = 0; m < lying; ++m) add(0, Act::recv_gradient, m, 2), add(0, Act::backward, m, -1);
    add(0, Act::recv_gradient, 8, 2), add(0, Act::backward, 8, -1);
    EXPECT_EQ(gradient_buffers(s), std::max(2, lying + 1));
  }
}

}  // namespace
}  // namespace mt
