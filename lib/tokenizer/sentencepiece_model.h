#pragma once
// A SentencePiece .model file as values, and its way of normalising text.
//
// Code: tokenizer/sentencepiece_model.cc. Tests: tests/tokenizer/sentencepiece_test.cc.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chars_map.h"
#include "tokenizer/prefix_trie.h"

namespace mt::tokenizer {

// Numbers are the file's.
enum class PieceType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
  };
  std::vector<Piece> pieces;  // by id
  int model_type = 1;         // 1 unigram, 2 BPE, 3 word, 4 character
  bool byte_fallback = false, space_is_suffix = false;
  std::string bos_piece = "<s>", eos_piece = "</s>", unknown_surface = " \xE2\x81\x87 ";
  std::string chars_map;
  bool add_dummy_prefix = true, remove_extra_spaces = true, escape_spaces = true;
  bool denormalizes = false;

  // The first piece of a type or of a name, or -1.
  std::int32_t first_of(PieceType type) const;
  std::int32_t control(std::string_view name) const;
};

// The byte that a piece "<0x00>" ... "<0xFF>" stands for, or -1.
int byte_of_piece(std::string_view text);

//   fails  Error{io}; Error{corrupt}: not such a file, no pieces, a piece twice, not exactly one unknown piece, a score
//          that is no number, some but not all byte pieces (or any, without byte_fallback), a byte piece of another name
SentencePieceModel read_sentencepiece_model(const std::filesystem::path& path);

// Text as the model sees it: mapped characters, spaces as U+2581, one in front.
class SentencePieceNormalizer {
 public:
  explicit SentencePieceNormalizer(const SentencePieceModel& model);

  // Append the normalised text to `out`.   needs  valid UTF-8
  void append(std::string_view text, std::string& out) const;

  // The longest user-defined piece that `text` starts with; normalisation and merging leave these alone.
  PrefixTrie::Match user_defined(std::string_view text) const { return user_defined_.longest(text); }
  bool has_user_defined() const { return has_user_defined_; }

 private:
  struct Mapped {
    std::string_view text;
    std::size_t size;  // what it stands for
  };
  Mapped next(std::string_view text) const;
  std::size_t copy_plain(const char* from, std::size_t size, char* to) const;
  CharsMap map_;
  PrefixTrie user_defined_;
  bool has_user_defined_ = false;
  bool alone_[256] = {};     // a space in front of such a byte is a space
  bool before_ascii_[256] = {};  // such a byte is itself where ASCII follows, or nothing
  bool ascii_is_plain_ = false;  // all that prints, where ASCII follows
  bool plain_[256] = {};  // no entry of the map and no user-defined piece starts with this byte
  bool dummy_prefix_, suffix_, remove_extra_, escape_;
};

}  // namespace mt::tokenizer
