#!/usr/bin/env python3
"""Text made by a seed, the same as tests/tokenizer/seeded_text.h makes, and what the package tokenizers makes of it.

usage: seeded_text.py DATA > tests/tokenizer/seeded_hashes.tsv

DATA holds tokenizers/<name>/tokenizer.json. A row a tokenizer: name, package and version, documents, bytes, hash of the
text, tokens, hash of the ids (tests/tokenizer/seeded_text_test.cc says how).
"""
import sys
from importlib import metadata
from pathlib import Path

MASK = (1 << 64) - 1
LETTERS = "etaoinshrdlucmfwypvbgkqjxz"
SPACES = [" ", "  ", "\n", "\n\n", "\t", "\r\n", "    ", " \n "]
SIGNS = list(".,;:!?-()[]{}<>/\\\"'#*_=+&%$@~^|`")
TAILS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "n't", "'x"]
SEED, DOCUMENTS = 20, 900


class Random:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        return (z ^ z >> 31) % n


def run(random, first, span, most):
    return "".join(chr(first + random.below(span)) for _ in range(1 + random.below(most)))


def part(random):
    kind = random.below(16)
    if kind < 7:
        word = ""
        for _ in range(1 + random.below(9)):
            word += LETTERS[random.below(26) * random.below(26) // 26]
        capital, blank = random.below(8) == 0, random.below(5) != 0
        return (" " if blank else "") + (word[0].upper() + word[1:] if capital else word)
    if kind == 7:
        return run(random, 0x30, 10, 6)
    if kind == 8:
        return SPACES[random.below(len(SPACES))]
    if kind == 9:
        return "".join(SIGNS[random.below(len(SIGNS))] for _ in range(1 + random.below(3)))
    if kind == 10:
        return TAILS[random.below(len(TAILS))]
    if kind < 15:
        return run(random, *[(0x430, 32, 10), (0x4E00, 3000, 6), (0x3041, 83, 8), (0x905, 0x45, 8)][kind - 11])
    c = random.below(0x110000)
    return "?" if 0xD800 <= c < 0xE000 else chr(c)


def documents():
    random = Random(SEED)
    for _ in range(DOCUMENTS):
        yield "".join([part(random) for _ in range(1 + random.below(1200))])


def add(value, numbers):
    for n in numbers:
        value = (value * 6364136223846793005 + n + 1442695040888963407) & MASK
    return value


def main():
    import tokenizers
    texts = list(documents())
    text_hash, size = 0, 0
    for text in texts:
        text_hash = add(text_hash, text.encode())
        size += len(text.encode())
    for name in ("gpt2", "llama3", "qwen3", "deepseek_v3", "mistral_v1"):
        tokenizer = tokenizers.Tokenizer.from_file(str(Path(sys.argv[1]) / "tokenizers" / name / "tokenizer.json"))
        ids_hash, tokens = 0, 0
        for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
            ids_hash = add(ids_hash, encoding.ids)
            tokens += len(encoding.ids)
        print(name, f"tokenizers {metadata.version('tokenizers')}", len(texts), size, f"{text_hash:016x}", tokens,
              f"{ids_hash:016x}", sep="\t", flush=True)


if __name__ == "__main__":
    main()
