#pragma once
// Tokenizer files: Hugging Face's tokenizer.json, GPT-2's vocab.json and merges.txt, BERT's vocab.txt, and writing a
// tokenizer.json.
//
// Read of tokenizer.json: models BPE, Unigram, WordPiece, WordLevel; the normalizers, pre-tokenizers and decoders that
// their headers list; added_tokens with all their flags; from the post-processor what it puts around a text. A BPE over
// bytes whose text is at most brought to NFC and cut by patterns is a ByteLevelBpe, anything else a PipelineTokenizer.
// Truncation and padding are not applied, with a warning. An added token whose content the model lacks keeps the id the
// file gives it. Anything else the file asks for is an error that names it, never ignored. Code: tokenizer/tokenizer_json.cc
// (reading), tokenizer/tokenizer_models.cc (models), tokenizer/tokenizer_file.cc, tokenizer/tokenizer_json_writer.cc. Tests:
// tests/tokenizer/tokenizer_json_test.cc, golden_tokenizers_test.cc.

#include <filesystem>
#include <memory>

#include "tokenizer/bpe_trainer.h"
#include "tokenizer/tokenizer.h"

namespace mt::tokenizer {

// spec.model is the file or its directory; a tokenizer_config.json beside it may name the end token.
//   fails  Error{io}, Error{corrupt} (not JSON, a merge of unknown tokens, two tokens with one id), Error{data}: a part
//          this reader does not know, named
//   cost   a tokenizer.json of 10 MB: about 0.2 s
std::unique_ptr<Tokenizer> load_tokenizer_json(const TokenizerSpec& spec);

// spec.vocab_file and spec.merge_file; <|endoftext|> is the end token and special.
std::unique_ptr<Tokenizer> load_gpt2_bpe(const TokenizerSpec& spec);

// spec.vocab_file: a token a line, the line is the id; of a token that stands there twice the last line counts, with a
// warning that says how many do. BERT's normalizer and pre-tokenizer, WordPiece; [UNK] [SEP] [PAD]
// [CLS] [MASK] are special, [SEP] is the end token; [CLS] and [SEP] belong around a text.
//   fails  Error{data}: one of [UNK] [SEP] [CLS] is not there
std::unique_ptr<Tokenizer> load_bert_vocab(const TokenizerSpec& spec, bool lower_case);

// Write what a trainer learned, readable by load_tokenizer_json and by Hugging Face's library.
//   replace  a file that is there; else one that is there by now is Error{io} and stays
//   fails    Error{io}
void write_tokenizer_json(const std::filesystem::path& path, const TrainedBpe& bpe, bool replace = true);

}  // namespace mt::tokenizer
