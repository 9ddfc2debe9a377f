#!/usr/bin/env python3
"""Compare the ids and the text of mt-preprocess with the packages of the field, document by document.

usage: compare_ids.py --peer hf|sentencepiece|tiktoken --file TOKENIZER --input DOCS.jsonl [--pattern P] [FLAGS of encode]

  --peer hf             a tokenizer.json under the package tokenizers
  --peer sentencepiece  a .model under the package sentencepiece
  --peer tiktoken       a .tiktoken file under the package tiktoken, cut by --pattern, a regex or "v1" or "v2" for a
                        JSON list of tokens
  the rest goes to mt-preprocess encode, --tokenizer-type among it

Prints what was compared and the first differences; the status is 1 where there are any. Needs the packages in the
Python that runs it (pip install tokenizers sentencepiece tiktoken) and mt-preprocess in PATH.
"""
import argparse
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

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=False)


class SentencePiece:
    package = "sentencepiece"

    def __init__(self, args):
        import sentencepiece
        self.processor = sentencepiece.SentencePieceProcessor(model_file=args.file)

    def encode(self, text):
        return self.processor.encode(text)

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

    def encode(self, text):
        return self.encoding.encode_ordinary(text)

    def decode(self, ids):
        return self.encoding.decode(ids)


PEERS = {"hf": HuggingFace, "sentencepiece": SentencePiece, "tiktoken": Tiktoken}


def read_token_file(prefix):
    """The documents of a token file, each a list of ids."""
    index = Path(prefix + ".idx").read_bytes()
    code, sequences, boundaries = struct.unpack_from("<BQQ", index, 17)
    lengths = struct.unpack_from(f"<{sequences}i", index, 34)
    documents = struct.unpack_from(f"<{boundaries}q", index, 34 + sequences * 12)
    data = Path(prefix + ".bin").read_bytes()
    letter, width = ("H", 2) if code == 8 else ("i", 4)
    ids = struct.unpack(f"<{len(data) // width}{letter}", data)
    at = 0
    for begin, end in zip(documents, documents[1:]):
        size = sum(lengths[begin:end])
        yield list(ids[at:at + size])
        at += size


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--file", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--pattern", default="v2")
    parser.add_argument("--show", type=int, default=5)
    parser.add_argument("--no-text", action="store_true", help="compare ids alone")
    args, flags = parser.parse_known_args()
    if args.peer == "hf":
        flags.append("--tokenizer-hf-no-include-special-tokens")
    peer = PEERS[args.peer](args)
    documents = [json.loads(line)["text"] for line in open(args.input, encoding="utf-8")]
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["mt-preprocess", "encode", "--input", args.input, "--output-prefix", f"{work}/out",
                        "--registry", "none", "--quiet", "--tokenizer-model", args.file, *flags], check=True)
        ours = list(read_token_file(f"{work}/out_text_document"))
        texts = None
        if not args.no_text:
            keep = [f for f in flags if not f.startswith("--parse-special")]
            printed = subprocess.run(["mt-preprocess", "cat", f"{work}/out_text_document", "--json", "--quiet",
                                      "--tokenizer-model", args.file, *keep], check=True, capture_output=True)
            texts = [json.loads(line)["text"] for line in printed.stdout.split(b"\n") if line]
    bad_ids = bad_texts = tokens = 0
    digest = hashlib.sha256()
    for i, text in enumerate(documents):
        theirs = peer.encode(text)
        tokens += len(theirs)
        digest.update(struct.pack(f"<{len(theirs)}i", *theirs))
        if theirs != ours[i]:
            bad_ids += 1
            if bad_ids <= args.show:
                print(f"document {i} {text[:80]!r}\n  theirs {theirs[:24]}\n  ours   {ours[i][:24]}")
        elif texts is not None and peer.decode(theirs) != texts[i]:
            bad_texts += 1
            if bad_texts <= args.show:
                print(f"document {i} {text[:80]!r}\n  their text {peer.decode(theirs)[:80]!r}\n"
                      f"  our text   {texts[i][:80]!r}")
    print(f"{args.file}: {peer.package} {metadata.version(peer.package)}, {len(documents)} documents, {tokens} tokens, "
          f"sha256 {digest.hexdigest()[:16]}, {bad_ids} with other ids, {bad_texts} with another text")
    return 1 if bad_ids or bad_texts or len(ours) != len(documents) else 0


if __name__ == "__main__":
    sys.exit(main())
