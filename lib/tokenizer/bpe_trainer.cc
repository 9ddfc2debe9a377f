#include "tokenizer/bpe_trainer.h"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/options.h"
#include "tokenizer/byte_level_bpe.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/split_pattern.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {

namespace {

constexpr const char* kBlock = "\xE2\x96\x81";

using Pair = std::pair<std::int32_t, std::int32_t>;

struct PairHash {
  std::size_t operator()(const Pair& p) const {
    const std::uint64_t k =
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(p.first)) << 32 | static_cast<std::uint32_t>(p.second);
    return static_cast<std::size_t>((k * 0x9E3779B97F4A7C15ull) >> 13);
  }
};

struct PieceHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view s) const { return static_cast<std::size_t>(xxh3(s)); }
};

struct Word {
  std::vector<std::int32_t> symbols;
  std::int64_t count;
};

// A pair that may be merged next, and the words it was seen in.
struct Candidate {
  std::int64_t count;
  Pair pair;
  std::vector<std::uint32_t> words;
};
struct Worse {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

struct Change {
  Pair pair;
  int by;
};

// Replace each (left, right) in the word by `made`; report which neighbouring pairs came and went.
void merge_word(Word& word, Pair pair, std::int32_t made, std::vector<Change>& changes) {
  std::vector<std::int32_t>& s = word.symbols;
  std::size_t write = 0;
  for (std::size_t read = 0; read < s.size(); ++write) {
    if (read + 1 >= s.size() || s[read] != pair.first || s[read + 1] != pair.second) {
      s[write] = s[read++];
      continue;
    }
    if (write > 0) {
      changes.push_back({{s[write - 1], pair.first}, -1});
      changes.push_back({{s[write - 1], made}, +1});
    }
    read += 2;
    if (read < s.size()) {
      changes.push_back({{pair.second, s[read]}, -1});
      changes.push_back({{made, s[read]}, +1});
    }
    s[write] = made;
  }
  s.resize(write);
}

}  // namespace

struct BpeTrainer::State {
  BpeTrainerOptions options;
  SplitPattern pattern = SplitPattern::from_regex(std::string(kGpt2Pattern));
  std::unordered_map<std::string, std::int64_t, PieceHash, std::equal_to<>> pieces;
  std::int64_t num_pieces = 0;

  TrainedBpe bpe;
  std::vector<Word> words;
  std::unordered_map<Pair, std::int64_t, PairHash> counts;
  std::priority_queue<Candidate, std::vector<Candidate>, Worse> queue;
  std::unordered_map<std::string, std::int32_t> ids;
  PreTokenizer words_of{Json{{"type", "Metaspace"}, {"replacement", kBlock}, {"prepend_scheme", "always"}, {"split", true}}};
  CutText cut;

  void count(std::string_view piece);
  void start_vocabulary();
  void add_bytes();
  void add_characters();
  std::vector<std::int32_t> symbols_of(const std::string& piece) const;
  void count_pairs();
  void apply(Candidate top);
  std::int32_t token_for(Pair pair);
};

// Characters of a text, one by one.
template <class Each>
void each_character(std::string_view text, Each each) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = decode_utf8(text.data() + i).size;
    each(text.substr(i, size));
    i += size;
  }
}

std::string byte_piece(int byte) { return fmt::format("<0x{:02X}>", byte); }

// A special token needs a spelling of its own in tokenizer.json, beside those of bytes and characters.
void check_special(const std::vector<std::string>& special, BpeStyle style) {
  require_distinct(special, "--special-token");
  if (style == BpeStyle::sentencepiece) {
    for (const std::string& token : special) {
      const bool text = !token.empty() && find_invalid_utf8(token) == std::string_view::npos;
      if (!text || decode_utf8(token.data()).size == token.size() || token.find(' ') != std::string::npos ||
          byte_of_piece(token) >= 0) {
        throw Error(Code::usage,
                    fmt::format("'{}': wanted a text of more than one character, without spaces, and no byte", token),
                    "--special-token");
      }
    }
    return;
  }
  std::unordered_set<std::string> byte_spellings;
  for (int b = 0; b < 256; ++b) byte_spellings.insert(token_of_bytes(std::string(1, static_cast<char>(b))));
  for (const std::string& token : special) {
    if (token.empty()) throw Error(Code::usage, "a special token is empty", "--special-token");
    if (find_invalid_utf8(token) != std::string_view::npos) {
      throw Error(Code::usage, "a special token is not valid UTF-8", "--special-token");
    }
    if (byte_spellings.count(token) > 0) {
      throw Error(Code::usage, fmt::format("'{}' is the token of a byte: wanted a longer one", token),
                  "--special-token");
    }
  }
}

BpeTrainer::BpeTrainer(BpeTrainerOptions options) : state_(std::make_unique<State>()) {
  check_special(options.special, options.style);
  if (options.limit_alphabet < 0 || (options.limit_alphabet > 0 && options.style == BpeStyle::byte_level)) {
    throw Error(Code::usage, fmt::format("an alphabet of {}", options.limit_alphabet), "--limit-alphabet",
                "0 or more, with --style sentencepiece");
  }
  if (options.min_frequency < 0) {
    throw Error(Code::usage, fmt::format("frequency {}: wanted 0 or more", options.min_frequency), "--min-frequency");
  }
  const auto least = static_cast<std::int64_t>(options.special.size()) + 256;
  if (options.vocab_size < least || options.vocab_size > (1 << 30)) {
    throw Error(Code::usage,
                fmt::format("vocabulary size {}: wanted {} (256 bytes and {} special tokens) to 2^30",
                            options.vocab_size, least, options.special.size()),
                "--vocab-size");
  }
  state_->options = std::move(options);
}

BpeTrainer::~BpeTrainer() = default;

void BpeTrainer::State::count(std::string_view piece) {
  auto found = pieces.find(piece);
  if (found == pieces.end()) found = pieces.emplace(std::string(piece), 0).first;
  ++found->second;
  ++num_pieces;
}

void BpeTrainer::add(std::string_view document) {
  if (document.size() >= std::size_t{1} << 30) {
    throw Error(Code::data, fmt::format("a document of {} bytes: wanted below 1 GiB", document.size()));
  }
  if (state_->options.style == BpeStyle::sentencepiece) {
    CutText& cut = state_->cut;
    state_->words_of.apply(document, true, cut);
    for (const TextSpan& word : cut.pieces) state_->count(cut.text.substr(word.begin, word.end - word.begin));
    return;
  }
  std::uint32_t lengths[256];
  std::size_t position = 0;
  const char* s = document.data();
  while (const std::size_t n = state_->pattern.next(document, position, lengths)) {
    for (std::size_t i = 0; i < n; s += lengths[i], ++i) {
      state_->count({s, lengths[i]});
    }
  }
}

std::int64_t BpeTrainer::num_pieces() const { return state_->num_pieces; }
std::int64_t BpeTrainer::num_distinct_pieces() const { return static_cast<std::int64_t>(state_->pieces.size()); }

// Special tokens, then the bytes, then the characters where they are symbols.
void BpeTrainer::State::start_vocabulary() {
  bpe.style = options.style;
  bpe.special = options.special;
  bpe.tokens = options.special;
  if (options.style == BpeStyle::byte_level) {
    add_bytes();
  } else {
    for (int b = 0; b < 256; ++b) bpe.tokens.push_back(byte_piece(b));
    add_characters();
  }
  for (std::size_t id = 0; id < bpe.tokens.size(); ++id) ids.emplace(bpe.tokens[id], static_cast<std::int32_t>(id));
}

// In the order of code points.
void BpeTrainer::State::add_characters() {
  std::map<std::string, std::int64_t> seen;  // UTF-8 sorts as its code points do
  for (const auto& [piece, count] : pieces) {
    each_character(piece, [&seen, n = count](std::string_view c) { seen[std::string(c)] += n; });
  }
  const auto limit = static_cast<std::size_t>(options.limit_alphabet);
  if (limit > 0 && seen.size() > limit) {
    std::vector<std::pair<std::int64_t, std::string>> by_count;
    for (const auto& [c, count] : seen) by_count.emplace_back(-count, c);
    std::sort(by_count.begin(), by_count.end());
    for (std::size_t i = limit; i < by_count.size(); ++i) seen.erase(by_count[i].second);
  }
  if (bpe.tokens.size() + seen.size() > static_cast<std::size_t>(options.vocab_size)) {
    throw Error(Code::data,
                fmt::format("{} characters, 256 bytes and {} special tokens: more than a vocabulary of {}", seen.size(),
                            bpe.special.size(), options.vocab_size),
                "--vocab-size", "a larger one, or --limit-alphabet");
  }
  for (const auto& [c, count] : seen) bpe.tokens.push_back(c);
}

// What a piece starts as; characters that were left out of the alphabet are left out of it.
std::vector<std::int32_t> BpeTrainer::State::symbols_of(const std::string& piece) const {
  std::vector<std::int32_t> symbols;
  if (options.style == BpeStyle::byte_level) {
    for (const char c : piece) symbols.push_back(ids.at(std::string(1, c)));
    return symbols;
  }
  each_character(piece, [&](std::string_view c) {
    const auto found = ids.find(std::string(c));
    if (found != ids.end()) symbols.push_back(found->second);
  });
  return symbols;
}

// In the order of the characters files write them with.
void BpeTrainer::State::add_bytes() {
  std::vector<std::pair<std::uint32_t, std::string>> bytes;
  for (int b = 0; b < 256; ++b) {
    bytes.emplace_back(byte_to_char(static_cast<std::uint8_t>(b)), std::string(1, static_cast<char>(b)));
  }
  std::sort(bytes.begin(), bytes.end());
  for (auto& [character, byte] : bytes) bpe.tokens.push_back(byte);
}

void BpeTrainer::State::count_pairs() {
  words.reserve(pieces.size());
  for (const auto& [piece, count] : pieces) {
    words.push_back({symbols_of(piece), count});
  }
  std::unordered_map<Pair, std::vector<std::uint32_t>, PairHash> where;
  for (std::uint32_t w = 0; w < words.size(); ++w) {
    const Word& word = words[w];
    for (std::size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      const Pair pair{word.symbols[i], word.symbols[i + 1]};
      counts[pair] += word.count;
      std::vector<std::uint32_t>& list = where[pair];
      if (list.empty() || list.back() != w) list.push_back(w);
    }
  }
  for (auto& [pair, list] : where) queue.push({counts[pair], pair, std::move(list)});
}

std::int32_t BpeTrainer::State::token_for(Pair pair) {
  const std::string token =
      bpe.tokens[static_cast<std::size_t>(pair.first)] + bpe.tokens[static_cast<std::size_t>(pair.second)];
  const auto [place, is_new] = ids.emplace(token, static_cast<std::int32_t>(bpe.tokens.size()));
  if (is_new) bpe.tokens.push_back(token);
  return place->second;
}

void BpeTrainer::State::apply(Candidate top) {
  const std::int32_t made = token_for(top.pair);
  bpe.merges.push_back({top.pair.first, top.pair.second, made});
  std::unordered_map<Pair, std::vector<std::uint32_t>, PairHash> seen;
  std::vector<Change> changes;
  for (const std::uint32_t w : top.words) {
    changes.clear();
    merge_word(words[w], top.pair, made, changes);
    for (const Change& change : changes) {
      counts[change.pair] += change.by * words[w].count;
      if (change.by <= 0) continue;
      std::vector<std::uint32_t>& list = seen[change.pair];
      if (list.empty() || list.back() != w) list.push_back(w);
    }
  }
  for (auto& [pair, list] : seen) {
    const std::int64_t count = counts[pair];
    if (count > 0) queue.push({count, pair, std::move(list)});
  }
}

TrainedBpe BpeTrainer::train(const std::function<void(std::int64_t)>& progress) {
  State& s = *state_;
  s.start_vocabulary();
  s.count_pairs();
  const auto wanted = static_cast<std::size_t>(s.options.vocab_size);
  while (s.bpe.tokens.size() < wanted && !s.queue.empty()) {
    Candidate top = std::move(const_cast<Candidate&>(s.queue.top()));  // popped at once, so its order does not matter
    s.queue.pop();
    const std::int64_t now = s.counts[top.pair];
    if (top.count != now) {  // merges since have used some of its places up
      top.count = now;
      s.queue.push(std::move(top));
      continue;
    }
    if (now < 1 || now < s.options.min_frequency) break;
    s.apply(std::move(top));
    if (progress && s.bpe.tokens.size() % 64 == 0) progress(static_cast<std::int64_t>(s.bpe.tokens.size()));
  }
  return std::move(s.bpe);
}

}  // namespace mt::tokenizer
