#include "schedule/schedule.h"

// One row a schedule: NAME_schedule() is in NAME.cc.
#define MT_SCHEDULES(ROW) \
  ROW(one_f_one_b)        \
  ROW(gpipe)              \
  ROW(interleaved)        \
  ROW(zb_h1)              \
  ROW(zb_h2)              \
  ROW(zb_1p)              \
  ROW(zb_2p)              \
  ROW(zb_v)               \
  ROW(dualpipe)           \
  ROW(dualpipe_v)

namespace mt {

#define MT_DECLARE(name) ScheduleRow name##_schedule();
#define MT_CALL(name) name##_schedule(),
MT_SCHEDULES(MT_DECLARE)

const std::vector<ScheduleRow>& schedule_table() {
  static const std::vector<ScheduleRow> rows = {MT_SCHEDULES(MT_CALL)};
  return rows;
}

}  // namespace mt
