#!/usr/bin/env python3
"""Gather text of Debian packages as JSON lines, and make random valid Unicode by seed.

usage: gather_text.py --out DIR [--megabytes N] [--seed S] [--download]

Writes DIR/<kind>.jsonl for the kinds english (documentation and manual pages), german, russian, japanese, chinese, hindi,
other (manual pages, help and guides in these languages), code (Python, Perl, C) and random (every code point may come),
each up to N MB of text. What is installed is read, and what --download fetches with apt-get and unpacks below
DIR/packages, which installs nothing. Files are taken in sorted order, cut into documents of 1 to 60 KB by the seed; a kind of which the machine has
less than N is filled up with its own documents, cut elsewhere and in another order. A line a kind goes to standard
output: kind, documents, bytes, of them gathered and not filled up, sha256. Needs no packages but what is installed.
"""
import argparse
import gzip
import hashlib
import json
import random
import subprocess
from pathlib import Path

LANGUAGES = {"german": ["de"], "russian": ["ru", "uk"], "japanese": ["ja"], "chinese": ["zh_CN", "zh_TW", "zh-CN"],
             "hindi": ["hi"], "other": ["ko", "fr", "es", "pl", "cs", "pt_BR", "it", "tr", "hu", "sv", "el", "vi"]}
PACKAGES = ["manpages-ja", "manpages-zh", "manpages-de", "manpages-ru", "manpages-fr", "manpages-es", "manpages-pl",
            "debian-reference-ja", "debian-reference-zh-cn", "installation-guide-amd64", "libreoffice-help-hi",
            "libreoffice-help-ja", "libreoffice-help-zh-cn", "libreoffice-help-ru", "libreoffice-help-ko"]
CODE = {".py", ".pl", ".pm", ".h", ".hpp", ".sh", ".json", ".js", ".c", ".cmake"}


def contents(path):
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        return data.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError, gzip.BadGzipFile):
        return ""


def download(folder):
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", "-q", *PACKAGES], cwd=folder, check=True)
    for package in sorted(folder.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, folder / "root"], check=True)


def files(kind, tops):
    wanted = {".gz", ".txt", ".md", ".html", ".rst", ""}
    if kind == "code":
        folders = ["usr/lib/python3", "usr/lib/python3.11", "usr/share/perl", "usr/include"]
        wanted = CODE
    elif kind == "english":
        folders = ["usr/share/doc"] + [f"usr/share/man/man{n}" for n in range(1, 9)]
        tops = tops[:1]
    else:
        folders = [f"{top}/{language}" for language in LANGUAGES[kind]
                   for top in ("usr/share/man", "usr/share/libreoffice/help", "usr/share/doc/installation-guide-amd64")]
    if kind in ("japanese", "chinese"):
        folders.append("usr/share/debian-reference")
    for folder in folders:
        for top in tops:
            if (top / folder).is_dir():
                yield from (p for p in sorted((top / folder).rglob("*"))
                            if p.is_file() and not p.is_symlink() and p.suffix in wanted and ".pdf" not in p.name)


def gather(kind, limit, tops):
    seen, total, parts = set(), 0, []
    for path in files(kind, tops):
        text = contents(path)
        digest = hashlib.sha256(text.encode()).digest()
        if not text or digest in seen:
            continue
        seen.add(digest)
        parts.append(text)
        total += len(text.encode())
        if total >= limit:
            break
    return parts


def cut(parts, rng, limit):
    """Documents of the parts, in an order by chance."""
    documents = []
    for text in parts:
        at = 0
        while at < len(text):
            size = rng.randrange(1000, 60000)
            documents.append(text[at:at + size])
            at += size
    rng.shuffle(documents)
    for text in documents:
        if limit <= 0:
            return
        limit -= len(text.encode())
        yield text


def random_texts(rng, limit):
    """Code points of every plane: letters of a script in runs, then anything at all."""
    while limit > 0:
        text = []
        for _ in range(rng.randrange(1, 60)):
            base = rng.choice([0x20, 0x20, 0x41, 0xC0, 0x370, 0x400, 0x590, 0x620, 0x900, 0xE00, 0x1100, 0x1E00, 0x2000,
                               0x2500, 0x3040, 0x4E00, 0xAC00, 0xFB00, 0xFF00, 0x1F300, 0x10000, 0x20000, 0xE0000])
            span = rng.choice([1, 16, 64, 256, 4096])
            for _ in range(rng.randrange(1, 40)):
                c = base + rng.randrange(span)
                if rng.random() < 0.02:
                    c = rng.randrange(0x110000)
                text.append(chr(c) if not 0xD800 <= c < 0xE000 else " ")
        text = "".join(text)
        limit -= len(text.encode())
        yield text


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--megabytes", type=float, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", default=["english", *LANGUAGES, "code", "random"])
    parser.add_argument("--download", action="store_true")
    args = parser.parse_args()
    limit = int(args.megabytes * 1e6)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    if args.download:
        download(out / "packages")
    tops = [Path("/"), out / "packages" / "root"]
    for kind in args.kinds:
        rng = random.Random(f"{args.seed} {kind}")
        parts = [] if kind == "random" else gather(kind, limit, tops)
        own = sum(len(p.encode()) for p in parts)
        digest, documents, size = hashlib.sha256(), 0, 0
        with open(out / f"{kind}.jsonl", "w", encoding="utf-8") as file:
            while size < limit:
                made = random_texts(rng, limit) if kind == "random" else cut(parts, rng, limit - size)
                before = size
                for text in made:
                    line = json.dumps({"text": text}, ensure_ascii=False) + "\n"
                    file.write(line)
                    digest.update(line.encode())
                    documents += 1
                    size += len(text.encode())
                if size == before:
                    break
        print(f"{kind}\t{documents}\t{size}\t{size if kind == 'random' else min(own, size)}\t{digest.hexdigest()}", flush=True)


if __name__ == "__main__":
    main()
