#!/usr/bin/env python3
"""Record what the packages tokenizers, sentencepiece and tiktoken make of small inputs, a JSON object a line, for
tests/tokenizer/peer_vectors_test.cc, sentencepiece_test.cc and tiktoken_test.cc.

usage: record_vectors.py > tests/tokenizer/peer_vectors.jsonl

Kinds of lines: a normalizer, a pre-tokenizer or a decoder with inputs and outputs, or a whole small tokenizer or model
with texts, ids and the text of those. The first lines name the versions.
"""
import base64
import io
import json
import random
import tempfile
from importlib import metadata

import sentencepiece
import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

N, P, D = normalizers, pre_tokenizers, decoders
TEXTS = [
    "", " ", "a", "Hello,  World!", " x ", "İstanbul ΣΑΣ ß", "e\u0301 é Å \u212b", "ﬁ ①② Ⅳ ½ ²", "中文字 日本語 テスト",
    "한국어 \u1112\u1161\u11ab", "हिन्दी क्ष", "a\tb\nc\r\nd", "\u0000\u0007x\u007f\u0085\u009f", "\u00a0\u3000\u200b\ufeff\u2581",
    "don't WON'T o'clock's", "1,234.56 ٣٤٥ ４５", "👨\u200d👩\u200d👧 🙂", "a_b-c—d…e", "x▁y ▁z", "ﷺ", "กำ ำ", "\u0345\u0301\u0327a\u0301",
    "\U00020000\U0002B8FF\U0002B920", "end ", "   lead", "tab\t\ttab", "A\u0890\u1df7\u2e4b", "\u1715\u1df2q", "<s> </s> [MASK]",
]
NORMALIZERS = [
    N.NFC(), N.NFD(), N.NFKC(), N.NFKD(), N.Lowercase(), N.Strip(), N.Strip(True, False), N.Strip(False, True),
    N.StripAccents(), N.Sequence([N.NFD(), N.StripAccents()]), N.Nmt(), N.Prepend("▁"), N.Replace(" ", "▁"),
    N.Replace(Regex(r"\s+"), " "), N.Replace(Regex(r"[\w']+"), "w"), N.ByteLevel(), N.BertNormalizer(),
    N.BertNormalizer(lowercase=False), N.BertNormalizer(strip_accents=True, lowercase=False),
    N.BertNormalizer(clean_text=False, handle_chinese_chars=False), N.Sequence([N.Prepend("_"), N.Replace(" ", "_")]),
]
BEHAVIORS = ["removed", "isolated", "contiguous", "merged_with_previous", "merged_with_next"]
PRE_TOKENIZERS = [
    P.ByteLevel(), P.ByteLevel(add_prefix_space=False), P.ByteLevel(add_prefix_space=False, use_regex=False),
    P.Metaspace(), P.Metaspace(prepend_scheme="never"), P.Metaspace(prepend_scheme="first"), P.Metaspace(split=False),
    P.Whitespace(), P.WhitespaceSplit(), P.BertPreTokenizer(), P.Digits(), P.Digits(True), P.CharDelimiterSplit("a"),
    P.FixedLength(3), P.UnicodeScripts(), P.Sequence([P.WhitespaceSplit(), P.Metaspace(prepend_scheme="first")]),
    P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(add_prefix_space=False), P.Digits(),
                P.Split(Regex("[0-9][0-9][0-9]"), "isolated")]),
    P.Split(Regex(" ?[^(\\s|[.,!?…。，、।۔،])]+"), "isolated"),
] + [P.Punctuation(b) for b in BEHAVIORS] + [
    P.Split(pattern, b, invert=i) for b in BEHAVIORS for i in (False, True) for pattern in (" ", Regex(r"\w"))]
TOKENS = [
    ["▁Hello", "▁world", "!", "▁"], ["Ġa", "ÃĤ", "<s>", "Ċ"], ["<0xE4>", "<0xBD>", "<0xA0>", "x", "<0x41>"],
    ["he", "##llo", ",", "do", "n't", "[SEP]"], ["wor</w>", "ld</w>"], ["▁▁a", "b▁c"], [], ["a"],
    ["h", "h", "<pad>", "i", "|", "i"], [" a", " b "],
]
DECODERS = [
    D.ByteLevel(), D.Metaspace(), D.Metaspace(prepend_scheme="never"), D.WordPiece(), D.WordPiece(cleanup=False),
    D.BPEDecoder(), D.CTC(), D.Fuse(), D.ByteFallback(), D.Replace("▁", " "), D.Strip(" ", 1, 0), D.Strip(" ", 0, 1),
    D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]),
]


def random_texts(count, seed):
    random.seed(seed)
    pool = list("abcdehlorw  ,.'01\n") + ["é", "中", "的", "▁", "<s>", "[X]", "ﬁ", "\u0301", "🙂", "tok", " word", "\u3000"]
    return ["".join(random.choice(pool) for _ in range(random.choice([1, 3, 8, 20]))) for _ in range(count)]


def trained(model, trainer, normalizer=None, pre=None, decoder=None, post=None, added=()):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    if decoder:
        tokenizer.decoder = decoder
    tokenizer.train_from_iterator([t for t in random_texts(300, 1) + TEXTS if t], trainer)
    tokenizer.add_tokens(list(added))
    if post:
        tokenizer.post_processor = post(tokenizer)
    return tokenizer


def with_byte_fallback():
    tokenizer = trained(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
                        trainers.BpeTrainer(vocab_size=160, special_tokens=["<unk>", "<s>"], limit_alphabet=25,
                                            show_progress=False),
                        N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]))
    spec = json.loads(tokenizer.to_str())
    vocab = spec["model"]["vocab"]
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    spec["decoder"] = json.loads('{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},'
                                 '{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}')
    spec["post_processor"] = json.loads('{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},'
                                        '{"Sequence":{"id":"A","type_id":0}}],"pair":[{"Sequence":{"id":"A","type_id":0}},'
                                        '{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"<s>":{"id":"<s>","ids":[1],'
                                        '"tokens":["<s>"]}}}')
    return Tokenizer.from_str(json.dumps(spec))


def tokenizers():
    special = ["[UNK]", "[CLS]", "[SEP]"]
    flags = [AddedToken("[X]", lstrip=True, rstrip=True, normalized=False), AddedToken("tok", single_word=True, normalized=True),
             AddedToken(" word", normalized=False), AddedToken("<s>", special=True)]
    yield "word piece", trained(
        models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12),
        trainers.WordPieceTrainer(vocab_size=140, special_tokens=special, show_progress=False), N.BertNormalizer(),
        P.BertPreTokenizer(), D.WordPiece(),
        lambda t: processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1)), flags)
    yield "unigram", trained(
        models.Unigram(), trainers.UnigramTrainer(vocab_size=150, special_tokens=["<unk>", "</s>"], unk_token="<unk>",
                                                  show_progress=False), N.NFKC(), P.Metaspace(), D.Metaspace(),
        lambda t: processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", t.token_to_id("</s>"))]))
    yield "bpe with byte fallback", with_byte_fallback()
    for fuse in (False, True):
        yield f"bpe, fuse_unk {fuse}", trained(
            models.BPE(unk_token="<unk>", fuse_unk=fuse),
            trainers.BpeTrainer(vocab_size=120, special_tokens=["<unk>"], limit_alphabet=15, show_progress=False), None,
            P.Metaspace(split=False), D.Metaspace(),
            lambda t: processors.RobertaProcessing(("</r>", 0), ("<r>", 0)))
    yield "bpe with word ends", trained(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        trainers.BpeTrainer(vocab_size=150, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False),
        N.Lowercase(), P.WhitespaceSplit(), D.BPEDecoder())
    yield "bpe with continuations", trained(
        models.BPE(unk_token="<unk>", continuing_subword_prefix="##"),
        trainers.BpeTrainer(vocab_size=170, special_tokens=["<unk>"], continuing_subword_prefix="##",
                            show_progress=False), None, P.Whitespace(), D.WordPiece())
    yield "word level", trained(models.WordLevel(unk_token="<unk>"),
                                trainers.WordLevelTrainer(vocab_size=60, special_tokens=["<unk>"], show_progress=False),
                                N.Lowercase(), P.Whitespace())


# Character rules as SentencePiece's trainer reads them: code points in, code points out.
RULES = "\t20\n".join(["9", "A", "3000", "A0"]) + "\t20\nFB01\t66 69\n65 301\tE9\n2460\t31\n200B\t\n41\t61\n"


def models_of_sentencepiece():
    lines = [t.replace("\n", " ").replace("\0", "") for t in random_texts(400, 1) + TEXTS]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write(RULES)
        rules.flush()
        rows = [
            ("bpe as llama", dict(model_type="bpe", vocab_size=340, byte_fallback=True, remove_extra_whitespaces=False,
                                  normalization_rule_name="identity")),
            ("bpe with rules", dict(model_type="bpe", vocab_size=110, normalization_rule_tsv=rules.name,
                                    user_defined_symbols=["wor", "▁t", "<x>"], control_symbols=["<c>"])),
            ("bpe over words", dict(model_type="bpe", vocab_size=110, split_by_whitespace=False, add_dummy_prefix=False,
                                    normalization_rule_name="identity")),
            ("unigram with rules", dict(model_type="unigram", vocab_size=100, normalization_rule_tsv=rules.name,
                                        user_defined_symbols=["wor", "<x>"])),
            ("unigram with bytes", dict(model_type="unigram", vocab_size=340, byte_fallback=True,
                                        remove_extra_whitespaces=False, normalization_rule_name="identity")),
            ("unigram, spaces behind", dict(model_type="unigram", vocab_size=100, treat_whitespace_as_suffix=True,
                                            normalization_rule_name="identity")),
        ]
        for name, options in rows:
            model = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, minloglevel=2,
                                                     character_coverage=0.99, hard_vocab_limit=False, **options)
            yield name, model.getvalue()


def record_sentencepiece():
    line(kind="peer", package="sentencepiece", version=metadata.version("sentencepiece"))
    for name, model in models_of_sentencepiece():
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        cases = []
        for text in TEXTS + random_texts(120, 2) + ["".join(random_texts(60, 3))]:
            ids = processor.encode(text)
            cases.append([text, ids, processor.decode(ids)])
        line(kind="sentencepiece", name=name, model=base64.b64encode(model).decode(), eos=processor.eos_id(), cases=cases)


PATTERNS = {
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
              r"\s+(?!\S)|\s",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
             r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
             r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "v1": r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "v2": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


def ranks():
    """Tokens by rank: the bytes in order, then what a trainer learned."""
    learned = trained(models.BPE(), trainers.BpeTrainer(vocab_size=520, initial_alphabet=P.ByteLevel.alphabet(),
                                                        show_progress=False), None, P.ByteLevel(add_prefix_space=False))
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    characters = {chr(b): b for b in printable}
    characters.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
    tokens = [bytes([b]) for b in range(256)]
    by_id = sorted(learned.get_vocab().items(), key=lambda item: item[1])
    tokens += [bytes(characters[c] for c in token) for token, _ in by_id if len(token) > 1]
    return {token: rank for rank, token in enumerate(tokens)}


def record_tiktoken():
    line(kind="peer", package="tiktoken", version=metadata.version("tiktoken"))
    tokens = ranks()
    line(kind="ranks", tokens=[base64.b64encode(token).decode() for token in tokens])
    for name, pattern in PATTERNS.items():
        encoding = tiktoken.Encoding("peer", pat_str=pattern, mergeable_ranks=tokens, special_tokens={})
        texts = TEXTS + random_texts(150, 2) + ["DON'T stop/\n\n HTTPServer'S ǅungla aÀ́B 12345 ...//\r\n x"]
        line(kind="tiktoken", name=name, cases=[[t, encoding.encode_ordinary(t)] for t in texts])


def line(**fields):
    print(json.dumps(fields, ensure_ascii=False))


def record_trainer():
    """Vocabularies of BpeTrainer over characters with byte tokens, and over bytes; ties of the alphabet are avoided."""
    documents = [t for t in random_texts(300, 5) + TEXTS if t]
    special = ["<unk>", "<s>", "</s>"]
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    for vocab_size, limit, min_frequency in ((420, 0, 0), (360, 11, 0), (2000, 32, 2), (500, 0, 3)):
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        tokenizer.pre_tokenizer = P.Metaspace()
        trainer = trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=min_frequency, show_progress=False,
                                      special_tokens=special + pieces, **({"limit_alphabet": limit} if limit else {}))
        words = "".join(w for d in documents for w, _ in P.Metaspace().pre_tokenize_str(d))
        counts = sorted((words.count(c) for c in set(words)), reverse=True)
        assert not limit or counts[limit - 1] > counts[limit], counts
        tokenizer.train_from_iterator(documents, trainer)
        model = json.loads(tokenizer.to_str())["model"]
        line(kind="bpe_trainer", style="sentencepiece", documents=documents, vocab_size=vocab_size, limit_alphabet=limit,
             min_frequency=min_frequency, tokens=sorted(model["vocab"], key=model["vocab"].get), merges=model["merges"])
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = P.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(documents, trainers.BpeTrainer(
        vocab_size=500, show_progress=False, special_tokens=["<|endoftext|>"], initial_alphabet=P.ByteLevel.alphabet()))
    model = json.loads(tokenizer.to_str())["model"]
    line(kind="bpe_trainer", style="byte-level", documents=documents, vocab_size=500, limit_alphabet=0, min_frequency=0,
         tokens=sorted(model["vocab"], key=model["vocab"].get), merges=model["merges"])


def main():
    line(kind="peer", package="tokenizers", version=metadata.version("tokenizers"))
    for normalizer in NORMALIZERS:
        holder = Tokenizer(models.BPE())
        holder.normalizer = normalizer
        line(kind="normalizer", part=json.loads(holder.to_str())["normalizer"],
             cases=[[t, normalizer.normalize_str(t)] for t in TEXTS])
    for pre in PRE_TOKENIZERS:
        holder = Tokenizer(models.BPE())
        holder.pre_tokenizer = pre
        line(kind="pre_tokenizer", part=json.loads(holder.to_str())["pre_tokenizer"],
             cases=[[t, [piece for piece, _ in pre.pre_tokenize_str(t)]] for t in TEXTS])
    for decoder in DECODERS:
        holder = Tokenizer(models.BPE())
        holder.decoder = decoder
        line(kind="decoder", part=json.loads(holder.to_str())["decoder"],
             cases=[[t, decoder.decode(t)] for t in TOKENS])
    for name, tokenizer in tokenizers():
        cases = []
        for text in TEXTS + random_texts(120, 2):
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            cases.append([text, ids, tokenizer.encode(text).ids, tokenizer.decode(ids, skip_special_tokens=False)])
        line(kind="tokenizer", name=name, part=json.loads(tokenizer.to_str()), cases=cases)
    record_sentencepiece()
    record_tiktoken()
    record_trainer()


if __name__ == "__main__":
    main()
