#!/usr/bin/env python3
"""Makes tests/golden/torch: files of torch.save in both forms, with what is in them as text.

    python3 tests/golden/make_torch_files.py         needs torch; ran with 1.13.1 and, for recent.pt, 2.15.0

pickles.tsv                   plain values as pickles of protocols 2 to 5, and as JSON
values.pt, old.pt, recent.pt  tensors of every kind of view and type; values.tsv says name, type, shape and bytes of each
llama_bin/                    hf/llama as pytorch_model-0000N-of-00002.bin with an index, parameters and buffers as they were saved
qwen2_bin/                    hf/qwen2 as one pytorch_model.bin, its tied head beside its table, in one storage
llama_meta/                   hf/llama as consolidated.0N.pth of two ranks with params.json, rows of q and k in pairs
"""
import collections
import json
import pathlib
import struct
import sys

import numpy
import torch

HERE = pathlib.Path(__file__).parent
OUT = HERE / "torch"


def values():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    grid = torch.arange(60, dtype=torch.int64).reshape(3, 4, 5)
    t = collections.OrderedDict(
        plain=base, turned=base.t(), part=base[1:3, 2:5], column=base[:, 1], every_second=base[::2, ::3], scalar=torch.tensor(2.5),
        nothing=torch.zeros(0, 3), spread=torch.tensor([7.0, 8.0]).reshape(2, 1).expand(2, 3), cube=grid.permute(2, 0, 1),
        half=torch.tensor([1.0, -2.5, 65504.0]).half(), brain=torch.tensor([1.0, -2.5, 3e38]).bfloat16(), wide=torch.tensor([1e300, -0.0]).double(),
        bytes=torch.tensor([0, 255], dtype=torch.uint8), flags=torch.tensor([True, False]), short=torch.tensor([-3, 4], dtype=torch.int16),
        parameter=torch.nn.Parameter(torch.tensor([[1.0, 2.0]])))
    if "recent" in sys.argv:
        t["f8"] = torch.tensor([1.0, -448.0]).to(torch.float8_e4m3fn)
        t["f8wide"] = torch.tensor([1.0, -57344.0]).to(torch.float8_e5m2)
        t["u16"] = torch.tensor([1, 65535], dtype=torch.uint16)
    return t


def raw(t):
    t = t.detach().contiguous()
    if t.numel() == 0:
        return b""
    return bytes(t.reshape(-1).view(torch.uint8).numpy().tobytes()) if t.dtype != torch.bool else bytes(t.reshape(-1).to(torch.uint8).numpy().tobytes())


def write_values():
    t = values()
    state = {"inner": t, "more": {"deep": {"plain_again": t["plain"]}}, "number": 3, "text": "words", "none": None}
    if "recent" in sys.argv:
        torch.save(state, OUT / "recent.pt")
    else:
        torch.save(state, OUT / "values.pt")
        torch.save(state, OUT / "old.pt", _use_new_zipfile_serialization=False)
    rows = {f"inner.{k}": v for k, v in t.items()}
    rows["more.deep.plain_again"] = t["plain"]
    lines = [f"{k}\t{str(v.dtype)[6:]}\t{','.join(map(str, v.shape))}\t{raw(v).hex()}" for k, v in rows.items()]
    (OUT / ("recent.tsv" if "recent" in sys.argv else "values.tsv")).write_text("\n".join(lines) + "\n")


def write_pickles():
    """Plain values as pickles of every protocol, and as JSON."""
    import argparse
    import pickle
    shared = [1, 2]
    cases = {
        "numbers": [0, 1, 255, 256, 65535, 65536, -1, -129, 2**31 - 1, -2**31, 2**40, -2**63, 2**63 - 1, True, False, None],
        "reals": [0.0, -1.5, 1e300],
        "texts": ["", "words", "\u00e9\u6587\U0001f600", "x" * 300],
        "nested": {"a": [1, [2, (3, 4, 5, 6)], ()], "b": {"c": {}}, "1": "one"},
        "shared": {"x": shared, "y": shared},
        "ordered": collections.OrderedDict(b=1, a=2),
        "long": list(range(1100)),
        "namespace": argparse.Namespace(lr=0.5, names=["a"], deep=argparse.Namespace(x=1)),
    }
    rows = []
    for name, value in cases.items():
        for protocol in range(2, 6):
            shown = {"lr": 0.5, "names": ["a"], "deep": "<argparse.Namespace>"} if name == "namespace" else value
            rows.append(f"{name}\t{protocol}\t{pickle.dumps(value, protocol).hex()}\t{json.dumps(shown, separators=(',', ':'), ensure_ascii=False)}")
    (OUT / "pickles.tsv").write_text("\n".join(rows) + "\n")


def read_safetensors(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    out = collections.OrderedDict()
    for name, e in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            a = numpy.frombuffer(data[8 + n + e["data_offsets"][0]:8 + n + e["data_offsets"][1]], dtype=numpy.float32)
            out[name] = torch.from_numpy(a.reshape(e["shape"]).copy())
    return out


def write_bins():
    llama = read_safetensors(HERE / "hf/llama/model.safetensors")
    to = OUT / "llama_bin"
    to.mkdir(parents=True, exist_ok=True)
    names = list(llama)
    halves = {"pytorch_model-00001-of-00002.bin": names[:10], "pytorch_model-00002-of-00002.bin": names[10:]}
    for file, some in halves.items():
        part = collections.OrderedDict((n, torch.nn.Parameter(llama[n]) if "norm" in n else llama[n]) for n in some)
        part._metadata = collections.OrderedDict({"": {"version": 1}})
        torch.save(part, to / file)
    index = {"metadata": {"total_size": sum(t.numel() * 4 for t in llama.values())}, "weight_map": {n: f for f, some in halves.items() for n in some}}
    (to / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=1) + "\n")
    (to / "config.json").write_text((HERE / "hf/llama/config.json").read_text())
    qwen = read_safetensors(HERE / "hf/qwen2/model.safetensors")
    qwen["lm_head.weight"] = qwen["model.embed_tokens.weight"]
    (OUT / "qwen2_bin").mkdir(parents=True, exist_ok=True)
    torch.save(qwen, OUT / "qwen2_bin/pytorch_model.bin")
    (OUT / "qwen2_bin/config.json").write_text((HERE / "hf/qwen2/config.json").read_text())


def in_pairs(w, heads):
    """Rows from halves (i, i + d/2) to pairs (2i, 2i + 1), as Meta's own code rotates them."""
    rows, columns = w.shape
    return w.reshape(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)


def write_meta():
    c = json.loads((HERE / "hf/llama/config.json").read_text())
    w = read_safetensors(HERE / "hf/llama/model.safetensors")
    whole = {"tok_embeddings.weight": (w["model.embed_tokens.weight"], 1), "norm.weight": (w["model.norm.weight"], None), "output.weight": (w["lm_head.weight"], 0)}
    for i in range(c["num_hidden_layers"]):
        hf, to = f"model.layers.{i}.", f"layers.{i}."
        whole[to + "attention.wq.weight"] = (in_pairs(w[hf + "self_attn.q_proj.weight"], c["num_attention_heads"]), 0)
        whole[to + "attention.wk.weight"] = (in_pairs(w[hf + "self_attn.k_proj.weight"], c["num_key_value_heads"]), 0)
        whole[to + "attention.wv.weight"] = (w[hf + "self_attn.v_proj.weight"], 0)
        whole[to + "attention.wo.weight"] = (w[hf + "self_attn.o_proj.weight"], 1)
        whole[to + "feed_forward.w1.weight"] = (w[hf + "mlp.gate_proj.weight"], 0)
        whole[to + "feed_forward.w2.weight"] = (w[hf + "mlp.down_proj.weight"], 1)
        whole[to + "feed_forward.w3.weight"] = (w[hf + "mlp.up_proj.weight"], 0)
        whole[to + "attention_norm.weight"] = (w[hf + "input_layernorm.weight"], None)
        whole[to + "ffn_norm.weight"] = (w[hf + "post_attention_layernorm.weight"], None)
    to = OUT / "llama_meta"
    to.mkdir(parents=True, exist_ok=True)
    for rank in range(2):
        part = {}
        for name, (t, dim) in whole.items():
            part[name] = t if dim is None else t.chunk(2, dim)[rank].clone()
        part["rope.freqs"] = torch.zeros(2)
        torch.save(part, to / f"consolidated.{rank:02d}.pth")
    (to / "params.json").write_text(json.dumps({
        "dim": c["hidden_size"], "n_layers": c["num_hidden_layers"], "n_heads": c["num_attention_heads"], "n_kv_heads": c["num_key_value_heads"],
        "norm_eps": c["rms_norm_eps"], "rope_theta": c["rope_theta"], "vocab_size": -1, "multiple_of": 8, "ffn_dim_multiplier": 0.5}) + "\n")


OUT.mkdir(exist_ok=True)
write_values()
if "recent" not in sys.argv:
    write_pickles()
    write_bins()
    write_meta()
