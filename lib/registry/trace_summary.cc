#include "registry/trace_summary.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/json.h"

namespace mt {

namespace {

enum class Kind : std::uint8_t { step, lane, exposed, bubble, other };  // outer ones first

struct Span {
  double begin_us, end_us;
  Kind kind;
};

struct NoEvent {};

struct Rank {
  std::string name;
  std::vector<Span> spans;
};

Kind kind_of(const std::string& category) {
  if (category == "step") return Kind::step;
  if (category == "lane") return Kind::lane;
  if (category == "exposed") return Kind::exposed;
  return category == "bubble" ? Kind::bubble : Kind::other;
}

// Spans nest: a stand-still lies in an act, an act in a step; times of nested spans may touch.
TraceRow row_of(int rank, Rank& r, std::int64_t skip_steps) {
  constexpr double kTouch_us = 2e-3;
  std::sort(r.spans.begin(), r.spans.end(), [](const Span& a, const Span& b) {
    if (a.begin_us != b.begin_us) return a.begin_us < b.begin_us;
    return a.end_us != b.end_us ? a.end_us > b.end_us : a.kind < b.kind;
  });
  TraceRow row;
  row.rank = rank;
  row.name = r.name;
  double step_end = -1, lane_end = -1, still_end = -1;
  std::int64_t seen = 0;
  for (const Span& s : r.spans) {
    const double seconds = (s.end_us - s.begin_us) * 1e-6;
    const auto inside = [&](double end) { return s.end_us <= end + kTouch_us; };
    if (s.kind == Kind::step && ++seen > skip_steps) {
      step_end = s.end_us;
      ++row.steps;
      row.step_s += seconds;
    }
    if (!inside(step_end)) continue;
    if (s.kind == Kind::lane) {
      lane_end = s.end_us;
      row.compute_s += seconds;
    }
    if ((s.kind != Kind::exposed && s.kind != Kind::bubble) || inside(still_end)) continue;
    still_end = s.end_us;
    (s.kind == Kind::exposed ? row.exposed_s : row.bubble_s) += seconds;
    if (inside(lane_end)) row.compute_s -= seconds;
  }
  return row;
}

[[noreturn]] void no_event(const std::filesystem::path& file, std::int64_t line) {
  throw Error(Code::corrupt, "a line is no event", fmt::format("{}:{}", file.string(), line));
}

void take_event(const Json& e, std::map<int, Rank>& ranks, std::string& process) {
  // A rank's row, and times that a run can have: a year in microseconds is 3e13.
  const auto row = e.value("tid", std::int64_t{0});
  if (row < 0 || row >= std::int64_t{1} << 24 || (e.contains("tid") && !e["tid"].is_number_integer())) throw NoEvent();
  const int tid = static_cast<int>(row);
  if (e.at("ph") == "X") {
    const double begin = e.at("ts").get<double>(), length = e.at("dur").get<double>();
    if (!(std::abs(begin) < 1e15 && length >= 0 && length < 1e15)) throw NoEvent();
    ranks[tid].spans.push_back({begin, begin + length, kind_of(e.at("cat").get<std::string>())});
  } else if (e.at("ph") == "M" && e.at("name") == "process_name") {
    process = e.at("args").at("name").get<std::string>();
  } else if (e.at("ph") == "M" && e.at("name") == "thread_name") {
    ranks[tid].name = e.at("args").at("name").get<std::string>();
  }
}

}  // namespace

TraceSummary read_trace(const std::filesystem::path& file, std::int64_t skip_steps) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(Code::io, "cannot read the trace", file.string());
  std::string begin(kTraceBegins.size(), '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (begin != kTraceBegins) throw Error(Code::corrupt, "this is no trace of mt-train", file.string());
  in.clear();
  in.seekg(2);
  TraceSummary out;
  std::map<int, Rank> ranks;
  std::string line;
  for (std::int64_t number = 2; std::getline(in, line); ++number) {
    const bool ended = !in.eof();
    if (line == "]") {
      out.whole = true;
      out.more = static_cast<bool>(std::getline(in, line));
      break;
    }
    if (!line.empty() && line.back() == ',') line.pop_back();
    try {
      take_event(Json::parse(line), ranks, out.process);
    } catch (const Json::exception&) {
      if (!ended) break;  // cut off in the middle
      no_event(file, number);
    } catch (const NoEvent&) {
      no_event(file, number);
    }
  }
  if (in.bad()) throw Error(Code::io, "cannot read the trace", file.string());
  for (auto& [rank, r] : ranks) out.rows.push_back(row_of(rank, r, skip_steps));
  return out;
}

}  // namespace mt
