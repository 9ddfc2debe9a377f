#include "plan/lane_use.h"

#include <utility>

namespace mt {

int PlaceTable::find(int chunk, int micro_batch) const {
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (places_[i].chunk == chunk && places_[i].micro_batch == micro_batch) return static_cast<int>(i);
  return -1;
}

int PlaceTable::take(int chunk, int micro_batch) {
  int free = -1;
  for (int i = 0; i < size(); ++i) {
    const Place& p = places_[static_cast<std::size_t>(i)];
    if (p.micro_batch >= 0) continue;
    if (free < 0 || (p.last_chunk == chunk && places_[static_cast<std::size_t>(free)].last_chunk != chunk)) free = i;
  }
  if (free < 0) {
    free = size();
    places_.emplace_back();
  }
  Place& p = places_[static_cast<std::size_t>(free)];
  p.chunk = p.last_chunk = chunk;
  p.micro_batch = micro_batch;
  p.served.insert(chunk);
  return free;
}

void PlaceTable::give_back(int place) {
  Place& p = places_[static_cast<std::size_t>(place)];
  p.chunk = p.micro_batch = -1;
}

namespace {

bool same_work(const Step& a, const Step& b) { return a.chunk == b.chunk && a.micro_batch == b.micro_batch; }

}  // namespace

std::vector<bool> last_steps(const Lane& lane) {
  std::vector<bool> last(lane.size(), false);
  std::set<std::pair<int, int>> seen;
  for (std::size_t i = lane.size(); i-- > 0;) last[i] = seen.emplace(lane[i].chunk, lane[i].micro_batch).second;
  return last;
}

bool splits_backward(const Lane& lane, std::size_t at) {
  for (std::size_t i = at; i < lane.size(); ++i) {
    if (!same_work(lane[i], lane[at])) continue;
    if (lane[i].act == Act::backward_input) return true;
    if (lane[i].act == Act::backward) return false;
  }
  return false;
}

LaneUse lane_use(const Lane& lane, const std::vector<bool>& recomputes) {
  LaneUse use;
  const std::vector<bool> last = last_steps(lane);
  const auto touch = [](PlaceTable& t, const Step& s) {
    if (t.find(s.chunk, s.micro_batch) < 0) t.take(s.chunk, s.micro_batch);
  };
  const auto drop = [](PlaceTable& t, const Step& s) {
    if (const int p = t.find(s.chunk, s.micro_batch); p >= 0) t.give_back(p);
  };
  for (std::size_t i = 0; i < lane.size(); ++i) {
    const Step& step = lane[i];
    const bool whole = step.act == Act::backward, input = step.act == Act::backward_input;
    use.whole_backward |= whole;
    use.split_backward |= input;
    use.gradients_sent += step.act == Act::send_gradient;
    touch(use.slots, step);
    if ((step.act == Act::recompute || whole || input) && recomputes[static_cast<std::size_t>(step.chunk)]) {
      if (splits_backward(lane, i)) touch(use.kept, step);
      touch(use.recompute, step);
    }
    if (input) touch(use.kept, step);
    if (whole || input) drop(use.recompute, step);
    if (step.act == Act::backward_weight) drop(use.kept, step);
    if (last[i]) drop(use.slots, step);
  }
  return use;
}

}  // namespace mt
