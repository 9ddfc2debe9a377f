"""Samples as Megatron-LM's own dataset classes make them: fim.tsv, bert.jsonl, t5.jsonl, sft.jsonl, sentence_runs.tsv.

    python3 make_samples.py MEGATRON_CHECKOUT OUTPUT_DIR

Needs numpy, jinja2, g++ and pybind11 (for Megatron's helpers.cpp). torch, transformers and the rest of Megatron are stand-ins: the classes under
test use them for nothing but names. Made with the main branch of August 2026 and numpy 2.4.
"""

import importlib.util
import json
import pathlib
import random
import re
import subprocess
import sys
import sysconfig
import types

import jinja2.sandbox
import numpy

checkout, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
datasets = checkout / "megatron" / "core" / "datasets"


class Anything:
    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        return Anything()

    def __call__(self, *args, **kwargs):
        return Anything()


def stand_in(name, **names):
    module = types.ModuleType(name)
    module.__dict__.update(names)
    module.__getattr__ = lambda attribute: Anything
    sys.modules[name] = module


for name in ("torch", "megatron", "megatron.core", "megatron.core.datasets", "megatron.core.datasets.utils",
             "megatron.core.datasets.indexed_dataset", "megatron.core.datasets.blended_megatron_dataset_config",
             "megatron.core.datasets.megatron_dataset", "megatron.core.datasets.gpt_dataset", "megatron.core.safe_globals",
             "megatron.core.utils"):
    stand_in(name)


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


fim = load("fim_dataset", checkout / "megatron" / "training" / "datasets" / "fim_dataset.py")
load("megatron.core.datasets.masked_dataset", datasets / "masked_dataset.py")
bert = load("bert_dataset", datasets / "bert_dataset.py")
t5 = load("t5_dataset", datasets / "t5_dataset.py")


# Fill-in-middle, with a tokenizer whose text is decimal ids.
class Integers:
    def tokens_to_ids(self, tokens):
        return int(tokens) if isinstance(tokens, str) else [int(t) for t in tokens]

    def ids_to_text(self, ids, remove_special_tokens=None):
        return " ".join(str(int(i)) for i in ids)

    def text_to_ids(self, text):
        return [int(w) for w in text.split()]


def fim_sample(case, ids):
    d = object.__new__(fim.GPTFIMDataset)
    d.config = types.SimpleNamespace(tokenizer=types.SimpleNamespace(_tokenizer=Integers()))
    d.np_rng = numpy.random.RandomState(case["seed"])
    d.fim_rate, d.fim_spm_rate = case["rate"], case["spm"]
    d.fim_split_sample, d.fragment_fim_rate, d.no_fim_prefix = case["split"], case["fragment"], case["no_prefix"]
    d.prefix_tok_id, d.middle_tok_id, d.suffix_tok_id, d.pad_tok_id, d.eod_tok_id = 9001, 9002, 9003, 9004, 9999
    d.shuffle_index, d.sample_index, d.document_index = [0], [(0, 0), (0, len(ids) - 1)], [0]
    d.dataset = types.SimpleNamespace(get=lambda i, offset=0, length=None: numpy.array(ids)[offset:][:length])
    return [int(i) for i in d._query_document_sample_shuffle_indices(0)[0]]


def fim_cases():
    chance = random.Random(5)

    def ids(n, ends=(), splits=()):
        values = [chance.randrange(1, 7999) for _ in range(n)]
        for e in ends:
            values[e] = 9999
        for s in splits:
            values[s] = 8000
        return values

    def case(seed, rate, spm, split=None, fragment=None, no_prefix=None):
        return dict(seed=seed, rate=rate, spm=spm, split=split, fragment=fragment, no_prefix=no_prefix)

    for k in range(6):
        yield case(40 + k, 1.0, 0.5), ids(24)
    for k in range(8):
        yield case(1234 + k, 0.5, 0.3), ids(33, [4, 5, 20] if k % 2 else [0, 9, 32])
    for k in range(8):
        yield case(77 + k, 0.9, 0.5, 8000, 0.6), ids(33, [16], [3, 7, 8, 20] if k % 2 else [0, 15, 17, 31])
    for k in range(4):
        yield case(500 + k, 1.0, 1.0, no_prefix="12"), [[12, 125, 3][k % 3]] + ids(15)


def write_fim():
    with open(out / "fim.tsv", "w") as f:
        f.write("seed\trate\tspm\tsplit\tfragment\tno_prefix\tids\tsample\n")
        for c, ids in fim_cases():
            show = lambda x: "-" if x is None else str(x)
            f.write("\t".join([str(c["seed"]), str(c["rate"]), str(c["spm"]), show(c["split"]), show(c["fragment"]),
                               show(c["no_prefix"]), " ".join(map(str, ids)),
                               " ".join(map(str, fim_sample(c, ids)))]) + "\n")


# BERT and T5, over a made-up vocabulary: 0 [PAD], 1 [CLS], 2 [SEP], 3 [MASK], every third id from 10 on goes on with a word.
VOCABULARY = {i: ("##p" if i >= 10 and i % 3 == 0 else "w") + str(i) for i in range(200)}
TOKENIZER = types.SimpleNamespace(cls=1, sep=2, mask=3, bos=4, eos=5, inv_vocab=VOCABULARY,
                                  additional_special_tokens_ids=list(range(200, 240)))


def sentences(chance, count):
    return [[chance.randrange(6, 200) for _ in range(chance.randrange(1, 14))] for _ in range(count)]


def masked_sample(cls, config, parts, target, k):
    d = object.__new__(cls)
    d.config = types.SimpleNamespace(tokenizer=TOKENIZER, masking_do_permutation=False, masking_use_longer_ngrams=False,
                                     masking_do_full_word=True, masking_use_geometric_distribution=False, **{})
    d.config.__dict__.update(config)
    d._pad_token_id = 0
    d.token_lookup = sorted(VOCABULARY)
    d.sample_index = {k: (0, len(parts), target)}
    d.dataset = parts
    sample = d[k]
    return {key: value.tolist() if hasattr(value, "tolist") else int(value) for key, value in sample.items()}


def write_masked():
    chance = random.Random(11)
    with open(out / "bert.jsonl", "w") as f:
        for i in range(24):
            pairs = i % 3 != 2
            parts = sentences(chance, chance.randrange(2, 6))
            target = chance.choice([13, 20, 29])
            config = dict(random_seed=1234, masking_probability=0.15 if i % 2 else 0.4, masking_max_ngram=[3, 1, 9][i % 3],
                          sequence_length=32, classification_head=pairs, masking_do_full_word=i % 4 != 3,
                          masking_use_longer_ngrams=i % 5 == 4)
            k = i * 1000003
            sample = masked_sample(bert.BERTMaskedWordPieceDataset, config, parts, target, k)
            f.write(json.dumps(dict(k=k, target=target, sentences=parts, pairs=pairs, prob=config["masking_probability"],
                                    max_ngram=config["masking_max_ngram"], whole=config["masking_do_full_word"],
                                    longer=config["masking_use_longer_ngrams"], sample=sample)) + "\n")
    with open(out / "t5.jsonl", "w") as f:
        for i in range(16):
            parts = sentences(chance, chance.randrange(1, 6))
            target = chance.choice([12, 30])
            config = dict(random_seed=77, masking_probability=0.15 if i % 2 else 0.3, masking_max_ngram=10,
                          masking_use_geometric_distribution=True, sequence_length=32, sequence_length_encoder=32,
                          sequence_length_decoder=28)
            sample = masked_sample(t5.T5MaskedWordPieceDataset, config, parts, target, i)
            f.write(json.dumps(dict(k=i, target=target, sentences=parts, prob=config["masking_probability"],
                                    sample=sample)) + "\n")


# Conversations. The stand-in for transformers runs Megatron's own templates; a token is a control token or a byte.
class Tensor(numpy.ndarray):
    def numel(self):
        return self.size


def tensor(values, dtype=None):
    return numpy.array(values, dtype=dtype).view(Tensor)


class ByteTokenizer:
    specials = [f"<SPECIAL_{i}>" for i in (10, 11, 12, 233)] + ["<unk>", "</s>"]
    chat_template, pad_token_id, eos_token_id, bos_token_id = None, None, 261, None

    def __len__(self):
        return 256 + len(self.specials)

    def convert_tokens_to_ids(self, token):
        return 256 + self.specials.index(token)

    def apply_chat_template(self, conversation, chat_template=None, **kwargs):
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        ids = []
        for part in re.split("(" + "|".join(self.specials) + ")", environment.from_string(chat_template).render(messages=conversation)):
            ids += [self.convert_tokens_to_ids(part)] if part in self.specials else list(part.encode())
        return ids


def sft_cases():
    def turns(*pairs):
        return [dict(role=role, content=content) for role, content in pairs]

    one = turns(("system", " Be brief. "), ("user", "Hi /think there\n"), ("assistant", "\u00a0Hello. "))
    two = turns(("user", "2+2?"), ("assistant", "4"), ("user", "3+3? /no_think"), ("assistant", "6\n"))
    unanswered = turns(("system", ""), ("user", "Anyone?"))
    tool = turns(("system", "s"), ("user", "u"), ("assistant", "call"), ("tool", "42"), ("assistant", "It is 42"))
    long = turns(("system", "x" * 70), ("user", "y" * 20), ("assistant", "z" * 90))
    for name in ("nemotron-h-aligned", "nemotron-nano-v2", "identity"):
        for messages in (one, two, unanswered, tool, long, one + tool + unanswered, one + long + one):
            for length in (48, 128, 256):
                yield name, messages, length


def write_sft():
    stand_in("transformers", AutoTokenizer=types.SimpleNamespace(from_pretrained=lambda **kwargs: ByteTokenizer()))
    torch = sys.modules["torch"]
    torch.tensor, torch.int32, torch.int64, torch.float32 = tensor, numpy.int32, numpy.int64, numpy.float32
    torch.ones = lambda n, dtype: tensor(numpy.ones(n), dtype)
    torch.full = lambda shape, value, dtype: tensor(numpy.full(shape, value), dtype)
    tokenizers = load("sft_tokenizer", checkout / "megatron" / "core" / "tokenizers" / "text" / "libraries" / "sft_tokenizer.py")
    sft = load("sft_dataset", checkout / "megatron" / "training" / "datasets" / "sft_dataset.py")
    spelled = lambda i: ByteTokenizer.specials[i - 256] if i >= 256 else chr(i)
    with open(out / "sft.jsonl", "w") as f:
        for name, messages, length in sft_cases():
            tokenizer = tokenizers.SFTTokenizer("", name)
            tokenizer.pad = tokenizer.pad_id
            d = object.__new__(sft.SFTDataset)
            d.config = types.SimpleNamespace(tokenizer=tokenizer, sequence_length=length, reset_position_ids=False,
                                             context_parallel_size=1, create_attention_mask=False, reset_attention_mask=False)
            d.dataset, d.indices = [messages], [0]
            s = {key: value.tolist() for key, value in d[0].items()}
            positions = s["position_ids"]
            assert all(p == 0 or p == positions[i - 1] + 1 for i, p in enumerate(positions))
            f.write(json.dumps(dict(format=name, length=length, messages=messages, tokens="".join(map(spelled, s["tokens"])),
                                    targets="".join(spelled(i) for i, m in zip(s["labels"], s["loss_mask"]) if m),
                                    loss_mask="".join(str(int(m)) for m in s["loss_mask"]),
                                    position_0=[i for i, p in enumerate(positions) if p == 0],
                                    cu_seqlens=sorted(set(s["cu_seqlens"])))) + "\n")


# Cutting documents in samples, by Megatron's compiled code.
def helpers():
    import pybind11

    built = out / ("helpers_cpp" + sysconfig.get_config_var("EXT_SUFFIX"))
    subprocess.check_call(["g++", "-O1", "-shared", "-std=c++17", "-fPIC", "-I", pybind11.get_include(), "-I",
                           sysconfig.get_paths()["include"], str(datasets / "helpers.cpp"), "-o", str(built)])
    module = load("helpers_cpp", built)
    built.unlink()
    return module


def write_runs():
    module, chance = helpers(), random.Random(3)
    with open(out / "sentence_runs.tsv", "w") as f:
        f.write("samples\tmax_length\tshort\tseed\tmin_sentences\tdocuments\tlengths\truns\n")
        for i in range(12):
            counts = [chance.choice([0, 1, 2, 3, 5, 9]) for _ in range(12)]
            documents = numpy.concatenate([[0], numpy.cumsum(counts)]).astype(numpy.int64)
            lengths = [chance.randrange(1, 40) for _ in range(int(documents[-1]))]
            if lengths and i % 3 == 0:
                lengths[chance.randrange(len(lengths))] = 600
            samples, most, short, seed, least = [5, 40, 90][i % 3], [61, 125][i % 2], [0.1, 0.5, 0.0][i % 3], 1 + i * 97, 1 + i % 2
            runs = module.build_mapping(documents, numpy.array(lengths, dtype=numpy.int32), 2**31 - 2, samples, most, short,
                                        seed, False, least)
            f.write("\t".join([str(samples), str(most), str(short), str(seed), str(least), " ".join(map(str, documents)),
                               " ".join(map(str, lengths)),
                               " ".join(f"{a}:{b}:{c}" for a, b, c in runs.tolist())]) + "\n")


write_fim()
write_masked()
write_sft()
write_runs()
