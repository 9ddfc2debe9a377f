// Schedules made by search where it is hard: many ranks, and ranks that are not alike.

#include <gtest/gtest.h>

#include "schedule/clock.h"
#include "schedule/schedule.h"

namespace mt {
namespace {

TEST(ListSearch, FindsOrdersThatRunToTheirEndHoweverUnequalTheStages) {
  for (const char* name : {"zb-1p", "zb-2p", "zb-v"})
    for (int pp = 2; pp <= 6; ++pp)
      for (const int m : {1, 4, 13})
        for (int slow = 0; slow < pp; ++slow)
          for (const double cap : {0.0, 1.5}) {
            ScheduleSpec spec{.pp = pp, .num_micro_batches = m};
            spec.memory_cap = cap * pp;
            spec.durations.p2p = 0.3;
            spec.durations.stage_scale.assign(static_cast<std::size_t>(2 * pp), 1.0);
            spec.durations.stage_scale[static_cast<std::size_t>(slow)] = 1.4;
            const Schedule s = make_schedule(name, spec);
            ASSERT_EQ(faults_of(s), std::vector<std::string>{}) << name << " pp " << pp << " m " << m << " slow " << slow;
            for (const double peak : report_of(s, spec.durations).peak_activations)
              EXPECT_LE(peak, (cap > 0 ? cap : *std::string(name).rbegin() == 'p' && name[3] == '2' ? 2.0 : 1.0) * pp + 1e-9);
          }
}

// Twice the activations of 1F1B let no rank wait: three acts a micro-batch and nothing else (Qi et al., Zero Bubble).
TEST(ListSearch, OfALargeProblemFindsWhatIsThereToFind) {
  for (const int m : {1000, 1100}) {  // below and above what is searched whole
    ScheduleSpec spec{.pp = 16, .num_micro_batches = m};
    const Schedule s = make_schedule("zb-2p", spec);
    EXPECT_EQ(faults_of(s), std::vector<std::string>{});
    EXPECT_EQ(report_of(s, spec.durations).makespan, 3.0 * m);
  }
  // What more micro-batches cost is their work: a rank waits no longer than with fewer, which are searched whole.
  for (const char* name : {"zb-1p", "zb-v"}) {
    const auto waits = [&](int m) {
      ScheduleSpec spec{.pp = 16, .num_micro_batches = m};
      spec.durations.forward = 1.3, spec.durations.backward_weight = 0.8;
      return report_of(make_schedule(name, spec), spec.durations).makespan - 3.1 * m;
    };
    EXPECT_LE(waits(1100), waits(500) * 1.1 + 3.1) << name;
  }
}

}  // namespace
}  // namespace mt
