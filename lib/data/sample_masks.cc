#include "data/sample_masks.h"

#include "base/error.h"

namespace mt::data {

void require_end_id(const MaskOptions& o) {
  if (o.needs_eod() && !o.eod)
    throw Error(Code::config, "--eod-mask-loss, --reset-position-ids and --reset-attention-mask need the end id", "",
                "give --tokenizer-type and its files");
}

std::int64_t fill_masks(std::span<const std::int32_t> tokens, std::int64_t num_real, const MaskOptions& options,
                        std::span<float> loss_mask, std::span<std::int32_t> positions) {
  const std::size_t length = loss_mask.size();
  MT_CHECK(tokens.size() == length + 1 && positions.size() == length, "tokens {} mask {} positions {}", tokens.size(),
           length, positions.size());
  MT_CHECK(options.eod || !(options.eod_mask_loss || options.reset_position_ids), "a mask flag needs the end id");
  std::int64_t unmasked = 0;
  std::int32_t position = 0;
  for (std::size_t t = 0; t < length; ++t) {
    const bool is_end = options.eod && tokens[t] == *options.eod;
    const bool counts = static_cast<std::int64_t>(t) + 1 < num_real && !(options.eod_mask_loss && is_end);
    loss_mask[t] = counts ? 1.0f : 0.0f;
    unmasked += counts ? 1 : 0;
    positions[t] = position;
    position = options.reset_position_ids && is_end ? 0 : position + 1;
  }
  return unmasked;
}

std::vector<std::int32_t> attention_bounds(std::span<const std::int32_t> tokens, const MaskOptions& options) {
  MT_CHECK(!tokens.empty() && (options.eod || !options.reset_attention_mask), "{} tokens", tokens.size());
  const std::size_t length = tokens.size() - 1;
  std::vector<std::int32_t> bounds{0};
  for (std::size_t t = 0; options.reset_attention_mask && t + 1 < length; ++t) {
    if (tokens[t] == *options.eod) bounds.push_back(static_cast<std::int32_t>(t) + 1);
  }
  bounds.push_back(static_cast<std::int32_t>(length));
  return bounds;
}

void make_sample(std::span<const std::int32_t> tokens, std::int64_t num_real, const MaskOptions& options,
                 std::span<const std::int32_t> document_starts, TrainingSample& out) {
  MT_CHECK(!tokens.empty(), "no tokens");
  const std::size_t length = tokens.size() - 1;
  out.ids.assign(tokens.begin(), tokens.end() - 1);
  out.labels.assign(tokens.begin() + 1, tokens.end());
  out.loss_mask.resize(length);
  out.positions.resize(length);
  out.dropped = out.dropped_answers = 0;
  fill_masks(tokens, num_real, options, out.loss_mask, out.positions);
  if (!options.inter_document_masking) {
    out.bounds = attention_bounds(tokens, options);
    return;
  }
  out.bounds.assign(1, 0);
  for (const std::int32_t start : document_starts)  // the token beyond the inputs may be a document of its own
    if (static_cast<std::size_t>(start) < length) out.bounds.push_back(start);
  out.bounds.push_back(static_cast<std::int32_t>(length));
  for (std::size_t part = 1; part < out.bounds.size(); ++part)
    for (std::int32_t t = out.bounds[part - 1]; t < out.bounds[part]; ++t)
      out.positions[static_cast<std::size_t>(t)] = t - out.bounds[part - 1];
}

}  // namespace mt::data
