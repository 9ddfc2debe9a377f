#!/usr/bin/env python3
"""Compare the ids and the text of mt-preprocess with the packages of the field, document by document.

usage: compare_ids.py --peer hf|sentencepiece|tiktoken --file TOKENIZER --input DOCS.jsonl... [--pattern P] [FLAGS of encode]

  --peer hf             a tokenizer.json under the package tokenizers
  --peer sentencepiece  a .model under the package sentencepiece
  --peer tiktoken       a .tiktoken file under the package tiktoken, cut by --pattern, a regex or "v1" or "v2" for a
                        JSON list of tokens
  the rest goes to mt-preprocess encode, --tokenizer-type among it

Prints what was compared and the first differences; the status is 1 where there are any. Needs the packages in the
Python that runs it (pip install tokenizers sentencepiece tiktoken) and mt-preprocess in PATH.
"""
import argparse
import array
import base64
import hashlib
import json
import struct
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

MEGATRON_PATTERNS = {
    "v1": r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "v2": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


class HuggingFace:
    package = "tokenizers"

    def __init__(self, args):
        import tokenizers
        self.tokenizer = tokenizers.Tokenizer.from_file(args.file)
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()

    def encode_all(self, texts):
        return (e.ids for e in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False))

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=False)


class SentencePiece:
    package = "sentencepiece"

    def __init__(self, args):
        import sentencepiece
        self.processor = sentencepiece.SentencePieceProcessor(model_file=args.file)

    def encode_all(self, texts):
        return map(self.processor.encode, texts)

    def decode(self, ids):
        return self.processor.decode(ids)


class Tiktoken:
    package = "tiktoken"

    def __init__(self, args):
        import tiktoken
        pattern = MEGATRON_PATTERNS.get(args.pattern, args.pattern)
        if args.file.endswith(".json"):
            tokens = json.load(open(args.file))
            first, size = 1000, 131072
            if isinstance(tokens, dict):
                config, tokens = tokens["config"], tokens["vocab"]
                first, size = config["default_num_special_tokens"], config["default_vocab_size"]
                pattern = config["pattern"]
            ranks = {base64.b64decode(t["token_bytes"]): t["rank"] + first for t in tokens[:size - first]}
        else:
            ranks = {}
            for line in open(args.file, "rb").read().split(b"\n"):
                if line:
                    token, rank = line.split()
                    ranks[base64.b64decode(token)] = int(rank)
        self.encoding = tiktoken.Encoding("peer", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})

    def encode_all(self, texts):
        return map(self.encoding.encode_ordinary, texts)

    def decode(self, ids):
        return self.encoding.decode(ids)


PEERS = {"hf": HuggingFace, "sentencepiece": SentencePiece, "tiktoken": Tiktoken}


def read_token_file(prefix):
    """The documents of a token file, each the bytes of its ids as 32-bit numbers."""
    index = Path(prefix + ".idx").read_bytes()
    code, sequences, boundaries = struct.unpack_from("<BQQ", index, 17)
    lengths = struct.unpack_from(f"<{sequences}i", index, 34)
    documents = struct.unpack_from(f"<{boundaries}q", index, 34 + sequences * 12)
    width = 2 if code == 8 else 4
    with open(prefix + ".bin", "rb") as data:
        for begin, end in zip(documents, documents[1:]):
            ids = array.array("H" if width == 2 else "i", data.read(sum(lengths[begin:end]) * width))
            yield (ids if width == 4 else array.array("i", ids)).tobytes()


def slabs(path, limit):
    """Texts of the file, about `limit` bytes at a time."""
    some, size = [], 0
    for line in open(path, encoding="utf-8"):
        some.append(json.loads(line)["text"])
        size += len(line)
        if size >= limit:
            yield some
            some, size = [], 0
    if some:
        yield some


def first_difference(theirs, own):
    ours = array.array("i", own).tolist()
    place = next((i for i, (a, b) in enumerate(zip(theirs, ours)) if a != b), min(len(theirs), len(ours)))
    begin = max(place - 4, 0)
    return f"id {place}: theirs {theirs[begin:place + 12]}\n  ours   {ours[begin:place + 12]}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--file", required=True)
    parser.add_argument("--input", required=True, nargs="+")
    parser.add_argument("--pattern", default="v2")
    parser.add_argument("--show", type=int, default=5)
    parser.add_argument("--no-text", action="store_true", help="compare ids alone")
    parser.add_argument("--table", help="append a row of what was compared to this file")
    parser.add_argument("--name", help="of the row; default: the name of the tokenizer's folder")
    parser.add_argument("--work", help="where the token file lies meanwhile")
    args, flags = parser.parse_known_args()
    if args.peer == "hf":
        flags.append("--tokenizer-hf-no-include-special-tokens")
    peer = PEERS[args.peer](args)
    bad_ids = bad_texts = tokens = documents = size = 0
    digest, text_digest = hashlib.sha256(), hashlib.sha256()
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        subprocess.run(["mt-preprocess", "encode", "--input", *args.input, "--output-prefix", f"{work}/out",
                        "--registry", "none", "--quiet", "--tokenizer-model", args.file, *flags], check=True)
        ours = read_token_file(f"{work}/out_text_document")
        printed = None
        if not args.no_text:
            keep = [f for f in flags if not f.startswith("--parse-special")]
            printed = subprocess.Popen(["mt-preprocess", "cat", f"{work}/out_text_document", "--json", "--quiet",
                                        "--tokenizer-model", args.file, *keep], stdout=subprocess.PIPE)
        for path in args.input:
            for texts in slabs(path, 8 << 20):
                for text, theirs in zip(texts, peer.encode_all(texts)):
                    packed = array.array("i", theirs).tobytes()
                    own = next(ours, b"")
                    tokens += len(theirs)
                    size += len(text.encode())
                    digest.update(packed)
                    text_digest.update(text.encode() + b"\0")
                    our_text = json.loads(next(printed.stdout))["text"] if printed else None
                    if packed != own:
                        bad_ids += 1
                        if bad_ids <= args.show:
                            print(f"document {documents} {text[:80]!r}\n  {first_difference(theirs, own)}")
                    elif printed and peer.decode(theirs) != our_text:
                        bad_texts += 1
                        if bad_texts <= args.show:
                            print(f"document {documents} {text[:80]!r}\n  their text {peer.decode(theirs)[:80]!r}\n"
                                  f"  our text   {our_text[:80]!r}")
                    documents += 1
        left = sum(1 for _ in ours)
        if printed:
            printed.stdout.close()
            printed.wait()
    version = metadata.version(peer.package)
    print(f"{args.file}: {peer.package} {version}, {documents} documents, {size} bytes, {tokens} tokens, text sha256 "
          f"{text_digest.hexdigest()[:16]}, ids sha256 {digest.hexdigest()[:16]}, {bad_ids} with other ids, "
          f"{bad_texts} with another text, {left} of ours left over")
    if args.table:
        with open(args.table, "a", encoding="utf-8") as table:
            row = [args.name or Path(args.file).parent.name, peer.package, version, documents, size, tokens,
                   text_digest.hexdigest()[:16], digest.hexdigest()[:16], bad_ids, bad_texts]
            table.write("\t".join(map(str, row)) + "\n")
    return 1 if bad_ids or bad_texts or left else 0


if __name__ == "__main__":
    sys.exit(main())
