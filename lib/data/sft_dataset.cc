#include "data/sft_dataset.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/chat_record.h"

namespace mt::data {

namespace {

bool is_blank(std::string_view line) {
  return std::all_of(line.begin(), line.end(), [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
}

bool has_answer(const Conversation& turns) {
  return std::any_of(turns.begin(), turns.end(), [](const Turn& t) { return t.role == "assistant"; });
}

}  // namespace

void pack_conversations(const std::vector<Conversation>& conversations, const PromptFormat& format,
                        std::int64_t seq_length, tokenizer::EncodeScratch& scratch, TrainingSample& out) {
  MT_CHECK(seq_length >= 1, "seq_length {}", seq_length);
  const auto length = static_cast<std::size_t>(seq_length);
  std::vector<Id> ids;
  std::vector<char> counts;
  out.positions.clear();
  out.bounds.assign(1, 0);
  for (const Conversation& conversation : conversations) {
    const std::size_t begin = ids.size();
    format.encode(conversation, scratch, ids, counts);
    if (begin >= length) continue;  // encoded to be counted
    for (std::size_t i = begin; i < ids.size(); ++i) out.positions.push_back(static_cast<std::int32_t>(i - begin));
    const auto end = static_cast<std::int32_t>(std::min(ids.size(), length));
    if (end > out.bounds.back()) out.bounds.push_back(end);
  }
  out.dropped = static_cast<std::int64_t>(ids.size() - std::min(ids.size(), length));
  out.dropped_answers = 0;
  for (std::size_t i = length; i < counts.size(); ++i) out.dropped_answers += counts[i];
  ids.resize(std::min(ids.size(), length));  // the target behind the last input is padding even where text goes on
  counts.resize(ids.size());
  ids.resize(length + 1, format.pad());
  counts.resize(length + 1, 0);
  out.positions.resize(std::min(out.positions.size(), length));
  while (out.positions.size() < length)
    out.positions.push_back(out.positions.empty() ? 0 : out.positions.back() + 1);
  if (out.bounds.size() == 1) out.bounds.push_back(0);
  out.bounds.back() = static_cast<std::int32_t>(length);
  out.ids.assign(ids.begin(), ids.end() - 1);
  out.labels.assign(ids.begin() + 1, ids.end());
  out.loss_mask.assign(counts.begin() + 1, counts.end());
}

SftFile::SftFile(const std::string& path) : path_(path), file_(path) {
  const std::string_view all(reinterpret_cast<const char*>(file_.data()), file_.size());
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\n', begin), all.size());
    if (!is_blank(all.substr(begin, end - begin))) {
      begins_.push_back(begin);
      for (const Conversation& turns : read(num_lines() - 1)) {
        ++num_conversations_;
        if (!has_answer(turns)) ++num_without_answer_;
      }
    }
    begin = end + 1;
  }
  if (begins_.empty()) throw Error(Code::data, "no conversation in it", path, "JSON lines with messages");
}

std::string_view SftFile::line(std::int64_t i) const {
  const std::string_view all(reinterpret_cast<const char*>(file_.data()), file_.size());
  const auto begin = static_cast<std::size_t>(begins_[static_cast<std::size_t>(i)]);
  std::string_view text = all.substr(begin, std::min(all.find('\n', begin), all.size()) - begin);
  if (begin == 0 && text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

std::string SftFile::where(std::int64_t i) const {
  const auto begin = static_cast<std::ptrdiff_t>(begins_[static_cast<std::size_t>(i)]);
  const auto* text = reinterpret_cast<const char*>(file_.data());
  return fmt::format("{}:{}", path_, std::count(text, text + begin, '\n') + 1);
}

std::vector<Conversation> SftFile::read(std::int64_t i) const {
  MT_CHECK(i >= 0 && i < num_lines(), "line {} of {}", i, num_lines());
  try {
    return read_conversations(line(i), "");
  } catch (const Error&) {
    return read_conversations(line(i), where(i));  // counting lines is for those that fail
  }
}

SftDataset::Member SftDataset::open(const SftFile& file, SequenceRange lines, bool pack) const {
  if (lines.begin >= lines.end)
    throw Error(Code::config, fmt::format("a set gets 0 of {} lines", file.num_lines()), file.path(),
                "another --split, or more lines");
  Member member;
  member.file = &file;
  tokenizer::EncodeScratch scratch;
  std::int64_t room = 0;
  for (std::int64_t i = lines.begin; i < lines.end; ++i) {
    std::int64_t tokens = 0;
    if (pack) {
      std::vector<Id> ids;
      std::vector<char> counts;
      for (const Conversation& turns : file.read(i)) format_->encode(turns, scratch, ids, counts);
      tokens = static_cast<std::int64_t>(ids.size());
    }
    if (!pack || i == lines.begin || tokens > room) {
      member.begins.push_back(i);
      room = seq_length_;
    }
    room -= tokens;
  }
  member.begins.push_back(lines.end);
  return member;
}

SftDataset::SftDataset(const Request& request, const PromptFormat& format)
    : format_(&format), seq_length_(request.seq_length) {
  const std::size_t n = request.files.size();
  MT_CHECK(n > 0 && request.ranges.size() == n && (request.weights.empty() || request.weights.size() == n),
           "{} files", n);
  for (std::size_t i = 0; i < n; ++i)
    members_.push_back(open(*request.files[i], request.ranges[i], request.pack_lines));
  plan_.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    plan_[i].prefix = request.files[i]->path();
    plan_[i].made = members_[i].size();
    plan_[i].sequences = request.ranges[i].end - request.ranges[i].begin;
    plan_[i].samples = n == 1 ? request.num_samples : 0;
  }
  if (n > 1) blend(request);
  for (MemberPlan& m : plan_) {
    m.weight = static_cast<double>(m.samples) / static_cast<double>(std::max<std::int64_t>(request.num_samples, 1));
    m.epochs = static_cast<double>(m.samples) / static_cast<double>(m.made);
  }
}

void SftDataset::blend(const Request& request) {
  std::vector<double> weights = request.weights;
  if (weights.empty())
    for (const Member& m : members_) weights.push_back(static_cast<double>(m.size()));
  member_.resize(static_cast<std::size_t>(request.num_samples));
  ordinal_.resize(member_.size());
  fill_blend_order(normalised(weights), {member_, ordinal_});
  for (const std::int16_t m : member_) ++plan_[static_cast<std::size_t>(m)].samples;
}

std::int64_t SftDataset::pass() const {
  std::int64_t samples = 0;
  for (const Member& m : members_) samples += m.size();
  return samples;
}

std::pair<std::size_t, std::int64_t> SftDataset::place(std::int64_t k) const {
  if (members_.size() == 1) return {0, k % members_.front().size()};
  const std::size_t i = static_cast<std::size_t>(k) % member_.size();
  const auto member = static_cast<std::size_t>(member_[i]);
  return {member, ordinal_[i] % members_[member].size()};
}

void SftDataset::make(std::int64_t k, TrainingSample& out) const {
  const auto [member, sample] = place(k);
  const Member& m = members_[member];
  std::vector<Conversation> conversations;
  const auto s = static_cast<std::size_t>(sample);
  for (std::int64_t i = m.begins[s]; i < m.begins[s + 1]; ++i)
    for (Conversation& turns : m.file->read(i)) conversations.push_back(std::move(turns));
  tokenizer::EncodeScratch scratch;
  pack_conversations(conversations, *format_, seq_length_, scratch, out);
}

}  // namespace mt::data
