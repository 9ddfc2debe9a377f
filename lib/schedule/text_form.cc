#include "schedule/text_form.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "base/error.h"

namespace mt {

namespace {

constexpr int kMost = 1 << 20;  // of any number in a file: what is beyond is a slip, not a pipeline
constexpr Act kLastAct = Act::collective;

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<Act> act_of(std::string_view name) {
  for (int a = 0; a <= static_cast<int>(kLastAct); ++a)
    if (name == act_name(static_cast<Act>(a))) return static_cast<Act>(a);
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(const std::string& where) : where_(where) {}

  Schedule read(std::string_view text) {
    for (auto line : split(text, '\n')) {
      ++line_;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line.empty() || line.front() == '#') continue;
      const auto fields = split(line, '\t');
      if (!begun_)
        begin(fields);
      else if (fields[0] == "lane")
        lane(fields);
      else if (const auto act = act_of(fields[0]))
        step(*act, fields);
      else
        head(fields);
    }
    if (!begun_) fail("the file is empty", "'mt-schedule<tab>1' in the first line");
    if (s_.num_micro_batches == 0) fail("num_micro_batches is missing", "'num_micro_batches<tab>N'");
    if (s_.lanes.empty()) fail("there is no lane", "'lane<tab>RANK<tab>STAGES'");
    const auto counted = peak_in_flight(s_);
    for (std::size_t r = 0; r < counted.size(); ++r)
      if (s_.max_in_flight[r] < 0) s_.max_in_flight[r] = counted[r];
    return std::move(s_);
  }

 private:
  using Fields = std::vector<std::string_view>;

  [[noreturn]] void fail(const std::string& what, const std::string& hint) const {
    throw Error(Code::corrupt, what, fmt::format("{}:{}", where_, line_), hint);
  }
  int number(std::string_view text, int least, const char* what) const {
    int n = 0;
    const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (bad != std::errc() || end != text.data() + text.size() || n < least || n > kMost)
      fail(fmt::format("{} is '{}'", what, text), fmt::format("a number from {} to {}", least, kMost));
    return n;
  }
  void wants(const Fields& fields, std::size_t least, const char* form) const {
    if (fields.size() < least) fail(fmt::format("{} fields after '{}'", fields.size() - 1, fields[0]), form);
  }

  void at_most(const Fields& fields, std::size_t most, const char* form) const {
    for (std::size_t i = most; i < fields.size(); ++i)
      if (!fields[i].empty()) fail(fmt::format("'{}' is a field too many", fields[i]), form);
  }

  void begin(const Fields& fields) {
    if (fields[0] != "mt-schedule" || fields.size() < 2)
      fail("this is no schedule", "'mt-schedule<tab>1' in the first line");
    at_most(fields, 2, "'mt-schedule<tab>1'");
    if (fields[1] != "1") fail(fmt::format("version {} of the format is unknown", fields[1]), "version 1");
    begun_ = true;
  }

  void head(const Fields& fields) {
    wants(fields, 2, "a value after the key, separated by a tab");
    if (fields[0] == "name")
      s_.name = std::string(fields[1]);
    else if (fields[0] == "num_micro_batches")
      s_.num_micro_batches = number(fields[1], 1, "num_micro_batches");
    else if (fields[0] == "copies")
      s_.copies = number(fields[1], 1, "copies");
    else
      fail(fmt::format("'{}' is no act and no key", fields[0]), "mt-schedule(5) lists both");
    at_most(fields, 2, "one value after the key");
  }

  void lane(const Fields& fields) {
    wants(fields, 3, "'lane<tab>RANK<tab>STAGES', stages separated by commas");
    at_most(fields, 4, "'lane<tab>RANK<tab>STAGES<tab>MAX_IN_FLIGHT'");
    if (number(fields[1], 0, "rank") != s_.pp())
      fail(fmt::format("lane of rank {}", fields[1]), fmt::format("ranks in order, so rank {}", s_.pp()));
    auto& stages = s_.stage_of.emplace_back();
    for (const auto& part : split(fields[2], ',')) stages.push_back(number(part, 0, "stage"));
    if (stages.size() != s_.stage_of[0].size())
      fail(fmt::format("{} stages", stages.size()), fmt::format("as many as rank 0 has, {}", s_.stage_of[0].size()));
    const bool bound = fields.size() > 3 && fields[3] != "-";
    s_.max_in_flight.push_back(bound ? number(fields[3], 0, "max_in_flight") : -1);
    s_.lanes.emplace_back();
  }

  void pair_of(std::string_view text, char at, int& a, int& b, const char* what) const {
    const auto parts = split(text, at);
    if (parts.size() != 2) fail(fmt::format("{} is '{}'", what, text), fmt::format("two numbers with '{}' between", at));
    a = number(parts[0], 0, what);
    b = number(parts[1], 0, what);
  }

  void step(Act act, const Fields& fields) {
    if (s_.lanes.empty()) fail("a step before the first lane", "'lane<tab>RANK<tab>STAGES' before it");
    wants(fields, 3, "'ACT<tab>CHUNK<tab>MICRO_BATCH'");
    Step step{.act = act, .chunk = number(fields[1], 0, "chunk"), .micro_batch = number(fields[2], 0, "micro-batch")};
    if (s_.num_micro_batches == 0) fail("num_micro_batches is missing", "'num_micro_batches<tab>N' before the lanes");
    for (std::size_t i = 3; i < fields.size(); ++i) {
      const auto equals = fields[i].find('=');
      const auto key = fields[i].substr(0, equals);
      const auto value = equals == std::string_view::npos ? std::string_view() : fields[i].substr(equals + 1);
      for (std::size_t k = 3; k < i; ++k)
        if (fields[k].substr(0, fields[k].find('=')) == key) fail(fmt::format("{}= is there twice", key), "once");
      if (key == "tower")
        step.tower = number(value, 0, "tower");
      else if (key == "segments")
        pair_of(value, '-', step.first_segment, step.last_segment, "segments");
      else if (key == "peer")
        step.peer = number(value, 0, "peer");
      else if (key == "channel")
        step.channel = number(value, 0, "channel");
      else if (key == "backward")
        pair_of(value, ':', step.backward_chunk, step.backward_micro_batch, "backward");
      else
        fail(fmt::format("'{}' is unknown", fields[i]), "tower=, segments=, peer=, channel= or backward=");
    }
    if ((is_send(act) || is_recv(act)) && (step.peer < 0 || step.channel < 0))
      fail(fmt::format("a {} without peer and channel", act_name(act)), "peer=RANK<tab>channel=N");
    if ((act == Act::forward_backward) != (step.backward_chunk >= 0))
      fail("backward= belongs to forward_backward, and only there", "backward=CHUNK:MICRO_BATCH");
    if ((step.peer >= 0 || step.channel >= 0) && !is_send(act) && !is_recv(act)) fail("peer= and channel= belong to sends and receives", "neither");
    if (step.last_segment >= 0 && step.last_segment < step.first_segment)
      fail(fmt::format("segments {}-{} end before they begin", step.first_segment, step.last_segment), "FIRST-LAST");
    s_.lanes.back().push_back(step);
  }

  const std::string& where_;
  Schedule s_;
  int line_ = 0;
  bool begun_ = false;
};

}  // namespace

std::string write_schedule(const Schedule& s) {
  std::string out = fmt::format("mt-schedule\t1\nname\t{}\nnum_micro_batches\t{}\n", s.name, s.num_micro_batches);
  if (s.copies != 1) out += fmt::format("copies\t{}\n", s.copies);
  for (std::size_t r = 0; r < s.lanes.size(); ++r) {
    std::string stages;
    for (const int stage : s.stage_of[r]) stages += fmt::format("{}{}", stages.empty() ? "" : ",", stage);
    out += fmt::format("lane\t{}\t{}\t{}\n", r, stages, s.max_in_flight[r]);
    for (const Step& step : s.lanes[r]) {
      out += fmt::format("{}\t{}\t{}", act_name(step.act), step.chunk, step.micro_batch);
      if (step.tower != 0) out += fmt::format("\ttower={}", step.tower);
      if (step.last_segment >= 0) out += fmt::format("\tsegments={}-{}", step.first_segment, step.last_segment);
      if (step.peer >= 0) out += fmt::format("\tpeer={}\tchannel={}", step.peer, step.channel);
      if (step.backward_chunk >= 0) out += fmt::format("\tbackward={}:{}", step.backward_chunk, step.backward_micro_batch);
      out += '\n';
    }
  }
  return out;
}

bool names_schedule_file(const std::string& value) {
  return value.find('/') != std::string::npos || (find_schedule(value) == nullptr && std::filesystem::exists(value));
}

Schedule read_schedule(std::string_view text, const std::string& where) { return Reader(where).read(text); }

}  // namespace mt
