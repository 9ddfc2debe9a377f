#include "plan/open_buckets.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace mt {

int GrowingPlaces::take(std::int64_t bytes) {
  const auto better = [bytes](const Place& a, const Place& b) {
    const bool a_fits = a.bytes >= bytes, b_fits = b.bytes >= bytes;
    return a_fits != b_fits ? a_fits : a_fits ? a.bytes < b.bytes : a.bytes > b.bytes;
  };
  int best = -1;
  for (int i = 0; i < size(); ++i) {
    const Place& p = places_[static_cast<std::size_t>(i)];
    if (!p.taken && (best < 0 || better(p, places_[static_cast<std::size_t>(best)]))) best = i;
  }
  if (best < 0) {
    best = size();
    places_.emplace_back();
  }
  Place& p = places_[static_cast<std::size_t>(best)];
  p.bytes = std::max(p.bytes, bytes);
  p.taken = true;
  return best;
}

std::int64_t GrowingPlaces::total() const {
  std::int64_t n = 0;
  for (const auto& p : places_) n += p.bytes;
  return n;
}

namespace {

// The executor's calls of the store, without the work between.
class Walk {
 public:
  explicit Walk(const std::vector<std::vector<LayerBuckets>>& chunks) : chunks_(chunks) {
    for (const auto& layers : chunks) asked_.emplace_back(layers.size(), false);
  }

  void step(const Step& s) {
    const auto& layers = chunks_[static_cast<std::size_t>(s.chunk)];
    const auto n = std::ssize(layers);
    const bool whole = s.act == Act::backward;
    switch (s.act) {
      case Act::forward: return forward(s.chunk);
      case Act::recompute:
        for (auto i = n; i-- > 0;)
          if (at(s.chunk, i).again.any()) return recompute(s, i);
        return;
      case Act::backward:
      case Act::backward_input:
        for (auto i = n; i-- > 0;) {
          if (at(s.chunk, i).again.any() && i < fresh(s)) recompute(s, i);
          need(s.chunk, i, before(s, i));
          if (whole) {
            add_gradients(at(s.chunk, i));
          } else if (at(s.chunk, i).vectors > 0) {
            vectors_of_[{s.chunk, s.micro_batch, i}] = vectors_.take(at(s.chunk, i).vectors);
          }
          done(s.chunk, i);
        }
        fresh_.erase({s.chunk, s.micro_batch});
        return;
      case Act::backward_weight:
        for (auto i = n; i-- > 0;) {
          if (const auto it = vectors_of_.find({s.chunk, s.micro_batch, i}); it != vectors_of_.end()) {
            vectors_.give_back(it->second);
            vectors_of_.erase(it);
          }
          add_gradients(at(s.chunk, i));
        }
        return;
      default: return;
    }
  }

  void forward(int chunk) {
    for (std::ptrdiff_t i = 0; i < std::ssize(chunks_[static_cast<std::size_t>(chunk)]); ++i) {
      need(chunk, i, i + 1);
      done(chunk, i);
    }
  }

  std::int64_t bytes() const { return places_.total() + vectors_.total(); }

 private:
  const LayerBuckets& at(int chunk, std::ptrdiff_t layer) const {
    return chunks_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(layer)];
  }
  std::ptrdiff_t fresh(const Step& s) const {
    const auto it = fresh_.find({s.chunk, s.micro_batch});
    return it == fresh_.end() ? std::ssize(chunks_[static_cast<std::size_t>(s.chunk)]) : it->second;
  }
  std::ptrdiff_t first_of_group(int chunk, std::ptrdiff_t layer) const {
    while (at(chunk, layer).again.input) --layer;
    return layer;
  }
  std::ptrdiff_t before(const Step& s, std::ptrdiff_t layer) const {
    return layer == 0 || layer > fresh(s) ? layer - 1 : first_of_group(s.chunk, layer - 1);
  }
  void recompute(const Step& s, std::ptrdiff_t last) {
    const std::ptrdiff_t first = first_of_group(s.chunk, last);
    fresh_[{s.chunk, s.micro_batch}] = first;
    for (auto i = first; i <= last; ++i) {
      need(s.chunk, i, i < last ? i + 1 : -1);
      if (i < last) done(s.chunk, i);
    }
  }
  void ask(int chunk, std::ptrdiff_t layer) {
    auto asked = asked_[static_cast<std::size_t>(chunk)].begin() + layer;
    if (*asked) return;
    *asked = true;
    for (const auto& w : at(chunk, layer).weights) {
      auto& [users, place] = open_[w.bucket];
      if (users++ == 0) place = places_.take(w.bytes);
    }
  }
  void need(int chunk, std::ptrdiff_t layer, std::ptrdiff_t next) {
    ask(chunk, layer);
    if (next >= 0 && next < std::ssize(chunks_[static_cast<std::size_t>(chunk)])) ask(chunk, next);
  }
  void done(int chunk, std::ptrdiff_t layer) {
    asked_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(layer)] = false;
    for (const auto& w : at(chunk, layer).weights)
      if (auto& [users, place] = open_[w.bucket]; --users == 0) places_.give_back(place);
  }
  void add_gradients(const LayerBuckets& layer) {
    std::vector<int> taken;
    for (const auto bytes : layer.grads) taken.push_back(places_.take(bytes));
    for (const int p : taken) places_.give_back(p);
  }

  const std::vector<std::vector<LayerBuckets>>& chunks_;
  GrowingPlaces places_, vectors_;
  std::vector<std::vector<bool>> asked_;               // by chunk and layer
  std::map<int, std::pair<int, int>> open_;            // by bucket: users and place
  std::map<std::pair<int, int>, std::ptrdiff_t> fresh_;  // by chunk and micro-batch: layers from here on are whole
  std::map<std::tuple<int, int, std::ptrdiff_t>, int> vectors_of_;
};

}  // namespace

std::int64_t open_bucket_bytes(const Lane& lane, const std::vector<std::vector<LayerBuckets>>& chunks) {
  Walk walk(chunks);
  for (const Step& s : lane) walk.step(s);
  for (std::size_t c = 0; c < chunks.size(); ++c) walk.forward(static_cast<int>(c));  // validation
  return walk.bytes();
}

}  // namespace mt
