#include "train/timeline.h"

#include <array>

#include "base/error.h"
#include "base/json.h"

namespace mt {

namespace {

constexpr std::array<const char*, 5> kKinds = {"step", "phase", "lane", "exposed", "bubble"};

}  // namespace

// A device that fails says so to the next call that may throw.
void Timeline::settle() const noexcept {
  try {
    if (wait_) wait_();
  } catch (const Error&) {
  }
}

void Timeline::restart() {
  spans_.clear();
  taken_ = 0;
  take_totals();
  zero_ = std::chrono::steady_clock::now();
}

int Timeline::index_of(Kind kind, std::string_view name) {
  if (const auto it = index_.find(name); it != index_.end()) return it->second;
  const int next = static_cast<int>(names_.size());
  index_.emplace(std::string(name), next);
  names_.emplace_back(name);
  totals_.push_back({kind, 0});
  return next;
}

void Timeline::add(Kind kind, std::string_view name, Time begin, Time end, Numbers numbers) {
  const int index = index_of(kind, name);
  totals_[static_cast<std::size_t>(index)].seconds += std::chrono::duration<double>(end - begin).count();
  if (!keep_) return;
  if (taken_ + spans_.size() >= kMaxSpans) {
    ++dropped_;
    return;
  }
  const auto ns = [](auto d) { return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count(); };
  spans_.push_back({ns(begin - zero_), ns(end - begin), numbers, index, kind});
}

std::map<std::string, Timeline::Total> Timeline::take_totals() {
  std::map<std::string, Total> out;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    out.emplace(names_[i], totals_[i]);
    const bool still = totals_[i].kind == Kind::exposed || totals_[i].kind == Kind::bubble;
    if (still) {
      auto& sum = out.try_emplace(kKinds[static_cast<std::size_t>(totals_[i].kind)], Total{totals_[i].kind, 0}).first->second;
      sum.seconds += totals_[i].seconds;
    }
    totals_[i].seconds = 0;
  }
  return out;
}

std::string Timeline::take_events(int row) {
  std::string out;
  const auto us = [](std::int64_t ns) { return fmt::format("{}.{:03d}", ns / 1000, ns % 1000); };
  for (const Span& s : spans_) {
    if (s.begin_ns < 0) continue;  // begun before the zero
    out += fmt::format("{}{{\"ph\":\"X\",\"pid\":0,\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{},\"cat\":\"{}\"",
                       out.empty() ? "" : ",\n", row, us(s.begin_ns), us(s.length_ns),
                       Json(names_[static_cast<std::size_t>(s.name)]).dump(), kKinds[static_cast<std::size_t>(s.kind)]);
    if (s.kind == Kind::lane)
      out += fmt::format(",\"args\":{{\"chunk\":{},\"micro_batch\":{}}}", s.numbers.a, s.numbers.b);
    else if (s.numbers.a >= 0)
      out += fmt::format(",\"args\":{{\"{}\":{}}}",
                         s.kind == Kind::exposed || s.kind == Kind::bubble ? "bytes" : "iteration", s.numbers.a);
    out += "}";
  }
  taken_ += spans_.size();
  spans_.clear();
  return out;
}

std::vector<std::string> gather_texts(Communicator& world, Stream& stream, const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::int64_t length = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(ranks);
  world
      .all_gather(stream, View(&length, DType::i64, {1}), View(lengths.data(), DType::i64, {world.size()}))
      .wait_host();
  std::vector<std::string> all;
  if (world.rank() != 0) {
    std::string copy = mine;
    if (length > 0) world.send(stream, View(copy.data(), DType::u8, {length}), 0).wait_host();
    return all;
  }
  all.push_back(mine);
  for (std::size_t r = 1; r < ranks; ++r) {
    std::string text(static_cast<std::size_t>(lengths[r]), '\0');
    if (lengths[r] > 0)
      world.recv(stream, View(text.data(), DType::u8, {lengths[r]}), static_cast<int>(r)).wait_host();
    all.push_back(std::move(text));
  }
  return all;
}

}  // namespace mt
