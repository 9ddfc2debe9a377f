#include "schedule/draw.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

namespace mt {

namespace {

struct Look {
  Act act;
  char letter;
  const char* words;
  const char* colour;  // of chunk 0; later chunks are lighter
};
constexpr Look kLooks[] = {{Act::forward, 'F', "forward", "#4e79a7"},
                           {Act::backward, 'B', "backward", "#59a14f"},
                           {Act::backward_input, 'D', "input gradient", "#76b7b2"},
                           {Act::backward_weight, 'W', "weight gradient", "#b6992d"},
                           {Act::forward_backward, 'X', "forward and backward", "#9c755f"},
                           {Act::recompute, 'R', "recompute", "#e15759"}};

const Look* look_of(Act act) {
  for (const auto& look : kLooks)
    if (look.act == act) return &look;
  return nullptr;
}

double last_end(const LaneTimes& timeline) {
  double end = 0;
  for (const auto& lane : timeline.times)
    for (const auto& t : lane) end = std::max(end, t.end);
  return end;
}

std::string part(const Schedule& s, int chunk, int micro_batch) {
  std::string text = fmt::format("{}", micro_batch);
  if (s.chunks() > 1) text += static_cast<char>('a' + chunk % 26);
  return text;
}

// 1, 2 or 5 times a power of ten, so that there are at most twenty marks.
double mark_distance(double end) {
  const double power = std::pow(10.0, std::floor(std::log10(std::max(end, 1e-9) / 10)));
  for (const double k : {1.0, 2.0, 5.0})
    if (end / (k * power) <= 20) return k * power;
  return 10 * power;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

}  // namespace

std::string step_label(const Schedule& s, const Step& step) {
  const Look* look = look_of(step.act);
  if (look == nullptr) return "";
  std::string label = look->letter + part(s, step.chunk, step.micro_batch);
  if (step.act == Act::forward_backward) label += "/" + part(s, step.backward_chunk, step.backward_micro_batch);
  return label;
}

std::string draw_text(const Schedule& s, const LaneTimes& timeline, int most_columns) {
  const double end = last_end(timeline);
  // As many columns a unit of time as the tightest label needs with a blank after it.
  double scale = 0;
  for (std::size_t r = 0; r < s.lanes.size(); ++r)
    for (std::size_t i = 0; i < s.lanes[r].size(); ++i) {
      const StepTime& t = timeline.times[r][i];
      const auto label = step_label(s, s.lanes[r][i]);
      if (!label.empty() && t.end > t.start)
        scale = std::max(scale, static_cast<double>(label.size() + 1) / (t.end - t.start));
    }
  if (end * scale > most_columns) scale = most_columns / end;
  std::string out;
  const auto column = [&](double time) { return static_cast<std::size_t>(std::lround(time * scale)); };
  for (std::size_t r = 0; r < s.lanes.size(); ++r) {
    std::string line(column(end), '.');
    for (std::size_t i = 0; i < s.lanes[r].size(); ++i) {
      const StepTime& t = timeline.times[r][i];
      const auto label = step_label(s, s.lanes[r][i]);
      if (label.empty() || t.end <= t.start) continue;
      const std::size_t from = column(t.start), width = column(t.end) - from;
      for (std::size_t k = 0; k < width; ++k) line[from + k] = k < label.size() ? label[k] : ' ';
      if (width > label.size() + 1) std::fill_n(line.begin() + static_cast<long>(from + label.size()), width - label.size() - 1, '-');
    }
    out += fmt::format("{:>3} |{}|\n", r, line);
  }
  return out;
}

std::string draw_svg(const Schedule& s, const LaneTimes& timeline) {
  constexpr int kLeft = 60, kTop = 40, kRow = 26, kBox = 22;
  const double end = std::max(last_end(timeline), 1e-9);
  std::size_t most_steps = 1;
  for (const Lane& lane : s.lanes) most_steps = std::max(most_steps, lane.size());
  const double width = std::clamp(24.0 * static_cast<double>(most_steps) * 1.3, 600.0, 12000.0), scale = width / end;
  const int bottom = kTop + kRow * s.pp();
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{}\" y=\"20\" "
      "font-size=\"14\">{}: {} ranks, {} micro-batches</text>\n",
      width + kLeft + 20, bottom + 60, kLeft, escaped(s.name), s.pp(), s.num_micro_batches);
  std::set<Act> used;
  for (int r = 0; r < s.pp(); ++r) {
    const int y = kTop + kRow * r;
    out += fmt::format("<text x=\"8\" y=\"{}\">rank {}</text>\n", y + 15, r);
    const Lane& lane = s.lanes[static_cast<std::size_t>(r)];
    for (std::size_t i = 0; i < lane.size(); ++i) {
      const Look* look = look_of(lane[i].act);
      const StepTime& t = timeline.times[static_cast<std::size_t>(r)][i];
      if (look == nullptr || t.end <= t.start) continue;
      used.insert(lane[i].act);
      const double opacity = std::max(0.3, 1.0 - 0.3 * lane[i].chunk);
      const auto label = step_label(s, lane[i]);
      out += fmt::format(
          "<g><title>{}, chunk {}, micro-batch {}: {:g} to {:g}</title><rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" "
          "height=\"{}\" fill=\"{}\" fill-opacity=\"{:.1f}\" stroke=\"white\"/>",
          look->words, lane[i].chunk, lane[i].micro_batch, t.start, t.end, kLeft + t.start * scale, y,
          (t.end - t.start) * scale, kBox, look->colour, opacity);
      if ((t.end - t.start) * scale > 6.5 * static_cast<double>(label.size()))
        out += fmt::format("<text x=\"{:.2f}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                           kLeft + (t.start + t.end) / 2 * scale, y + 15, label);
      out += "</g>\n";
    }
  }
  const double distance = mark_distance(end);
  for (int k = 0; k * distance <= end * (1 + 1e-9); ++k) {
    const double x = kLeft + k * distance * scale;
    out += fmt::format("<path d=\"M{0:.2f} {1}v5\" stroke=\"black\"/><text x=\"{0:.2f}\" y=\"{2}\" "
                       "text-anchor=\"middle\">{3:g}</text>\n", x, bottom, bottom + 17, k * distance);
  }
  int x = kLeft;
  for (const Act act : used) {
    const Look* look = look_of(act);
    out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{} {}</text>\n",
                       x, bottom + 32, look->colour, x + 16, bottom + 42, look->letter, look->words);
    x += 150;
  }
  return out + "</svg>\n";
}

}  // namespace mt
