#!/usr/bin/env python3
"""Makes tests/golden/gguf: small models by the package gguf (ran with 0.19), and what its own reader makes of them.

    python3 tests/golden/make_gguf.py

llama.gguf  hf/llama in F32, rows of q and k in pairs as the converters of that family write them
blocks.gguf a model of its own seed whose matrices are Q8_0; blocks.tsv: name, shape and CRC-32 of each tensor as f32
"""
import json
import pathlib
import struct
import zlib

import gguf
import numpy

HERE = pathlib.Path(__file__).parent
OUT = HERE / "gguf"


def read_safetensors(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    return {name: numpy.frombuffer(data[8 + n + e["data_offsets"][0]:8 + n + e["data_offsets"][1]], dtype=numpy.float32).reshape(e["shape"])
            for name, e in json.loads(data[8:8 + n]).items() if name != "__metadata__"}


def in_pairs(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def head(writer, hidden, layers, heads, groups, ffn, base, eps):
    writer.add_block_count(layers)
    writer.add_context_length(32)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_head_count_kv(groups)
    writer.add_layer_norm_rms_eps(eps)
    writer.add_rope_freq_base(base)
    writer.add_token_list([f"t{i}" for i in range(70)])


NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}


def llama():
    c = json.loads((HERE / "hf/llama/config.json").read_text())
    writer = gguf.GGUFWriter(OUT / "llama.gguf", "llama")
    head(writer, c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"], c["intermediate_size"], c["rope_theta"], c["rms_norm_eps"])
    for name, t in read_safetensors(HERE / "hf/llama/model.safetensors").items():
        to = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}.get(name)
        if to is None:
            layer, inside = name[len("model.layers."):-len(".weight")].split(".", 1)
            to = f"blk.{layer}.{NAMES[inside]}.weight"
            if "q_proj" in name or "k_proj" in name:
                t = in_pairs(t, c["num_attention_heads"] if "q_proj" in name else c["num_key_value_heads"])
        writer.add_tensor(to, numpy.ascontiguousarray(t))
    finish(writer)


def blocks():
    hidden, ffn, heads, groups, vocab = 32, 64, 4, 2, 70
    random = numpy.random.RandomState(11)
    writer = gguf.GGUFWriter(OUT / "blocks.gguf", "qwen2")
    head(writer, hidden, 1, heads, groups, ffn, 1e6, 1e-6)
    rows, shapes = [], {"token_embd.weight": (vocab, hidden), "output_norm.weight": (hidden,), "blk.0.attn_norm.weight": (hidden,), "blk.0.ffn_norm.weight": (hidden,)}
    for part, n in (("q", hidden), ("k", hidden // 2), ("v", hidden // 2)):
        shapes |= {f"blk.0.attn_{part}.weight": (n, hidden), f"blk.0.attn_{part}.bias": (n,)}
    shapes |= {"blk.0.attn_output.weight": (hidden, hidden), "blk.0.ffn_gate.weight": (ffn, hidden), "blk.0.ffn_up.weight": (ffn, hidden), "blk.0.ffn_down.weight": (hidden, ffn)}
    for name, shape in shapes.items():
        t = random.standard_normal(shape).astype(numpy.float32)
        if len(shape) == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            packed = gguf.quants.quantize(t, kind)
            writer.add_tensor(name, packed, raw_dtype=kind)
            t = gguf.quants.dequantize(packed, kind)
        else:
            writer.add_tensor(name, t)
        rows.append(f"{name}\t{','.join(map(str, shape))}\t{zlib.crc32(numpy.ascontiguousarray(t, dtype=numpy.float32).tobytes()):08x}")
    finish(writer)
    (OUT / "blocks.tsv").write_text("\n".join(rows) + "\n")


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


OUT.mkdir(exist_ok=True)
llama()
blocks()
