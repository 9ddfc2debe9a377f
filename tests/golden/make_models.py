#!/usr/bin/env python3
"""Makes tests/golden/{gpt2,llama,qwen3}.safetensors: weights, tokens, logits, loss and all gradients of tiny models.

Run once, with PyTorch (any version):  python3 tests/golden/make_models.py
The models are written here from their definitions, in float64, under the logical names of lib/layout/param_spec.h;
what is stored is rounded to float32. gpt2: learned positions, LayerNorm, biases, GELU (tanh), tied embeddings.
llama: rotary positions, RMSNorm, SwiGLU, grouped queries, no biases, an output layer of its own. qwen3: llama with the heads of
queries and keys normed, and heads wider than hidden/heads.
"""
import json, math, os, struct
import torch

torch.set_default_dtype(torch.float64)
LAYERS, HIDDEN, HEADS, VOCAB, BATCH, SEQ = 2, 32, 4, 37, 2, 12


def norm_heads(x, p, name):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * p[name + ".weight"]


def norm(x, p, name, rms):
    w = p[name + ".weight"]
    if rms:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w
    return torch.nn.functional.layer_norm(x, (HIDDEN,), w, p[name + ".bias"], 1e-5)


def linear(x, p, name):
    y = x @ p[name + ".weight"].T
    return y + p[name + ".bias"] if name + ".bias" in p else y


def rotate(x):  # [b, h, s, d], pairs (i, i + d/2)
    d = x.shape[-1]
    freq = 10000.0 ** (-torch.arange(0, d, 2) / d)
    angle = torch.arange(x.shape[2])[:, None] * freq[None, :]
    cos, sin = torch.cos(angle), torch.sin(angle)
    a, b = x[..., : d // 2], x[..., d // 2:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attention(x, p, prefix, kv_heads, rope):
    d = p[prefix + "linear_q.weight"].shape[0] // HEADS
    split = lambda t, n: t.view(BATCH, SEQ, n, d).transpose(1, 2)
    q = split(linear(x, p, prefix + "linear_q"), HEADS)
    k = split(linear(x, p, prefix + "linear_k"), kv_heads)
    v = split(linear(x, p, prefix + "linear_v"), kv_heads)
    if prefix + "q_layernorm.weight" in p:
        q, k = norm_heads(q, p, prefix + "q_layernorm"), norm_heads(k, p, prefix + "k_layernorm")
    if rope:
        q, k = rotate(q), rotate(k)
    k, v = (t.repeat_interleave(HEADS // kv_heads, 1) for t in (k, v))
    score = q @ k.transpose(-1, -2) / math.sqrt(d)
    score = score.masked_fill(torch.triu(torch.ones(SEQ, SEQ, dtype=torch.bool), 1), -math.inf)
    out = (score.softmax(-1) @ v).transpose(1, 2).reshape(BATCH, SEQ, HEADS * d)
    return linear(out, p, prefix + "linear_proj")


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def mlp(x, p, prefix, llama):
    if llama:
        gate = linear(x, p, prefix + "linear_fc1_gate")
        h = torch.nn.functional.silu(gate) * linear(x, p, prefix + "linear_fc1_up")
    else:
        h = gelu_tanh(linear(x, p, prefix + "linear_fc1"))
    return linear(h, p, prefix + "linear_fc2")


def forward(p, ids, llama, kv_heads):
    x = p["embedding.word_embeddings.weight"][ids]
    if not llama:
        x = x + p["embedding.position_embeddings.weight"][:SEQ]
    for i in range(LAYERS):
        pre = f"decoder.layers.{i}."
        x = x + attention(norm(x, p, pre + "input_layernorm", llama), p, pre + "self_attention.", kv_heads, llama)
        x = x + mlp(norm(x, p, pre + "pre_mlp_layernorm", llama), p, pre + "mlp.", llama)
    x = norm(x, p, "decoder.final_layernorm", llama)
    return x @ p["output_layer.weight" if llama else "embedding.word_embeddings.weight"].T


def parameters(llama, kv_heads, ffn, head_dim):
    d, p = head_dim or HIDDEN // HEADS, {}
    def add(name, *shape, scale=0.15, base=0.0):
        p[name] = (base + scale * torch.randn(*shape)).float().double().requires_grad_()
    def norm_of(name):
        add(name + ".weight", HIDDEN, base=1.0)
        if not llama:
            add(name + ".bias", HIDDEN)
    def linear_of(name, out, into):
        add(name + ".weight", out, into)
        if not llama:
            add(name + ".bias", out)
    add("embedding.word_embeddings.weight", VOCAB, HIDDEN, scale=0.3)
    if not llama:
        add("embedding.position_embeddings.weight", SEQ, HIDDEN, scale=0.3)
    for i in range(LAYERS):
        pre = f"decoder.layers.{i}."
        norm_of(pre + "input_layernorm")
        linear_of(pre + "self_attention.linear_q", HEADS * d, HIDDEN)
        linear_of(pre + "self_attention.linear_k", kv_heads * d, HIDDEN)
        linear_of(pre + "self_attention.linear_v", kv_heads * d, HIDDEN)
        if head_dim:
            add(pre + "self_attention.q_layernorm.weight", d, base=1.0)
            add(pre + "self_attention.k_layernorm.weight", d, base=1.0)
        linear_of(pre + "self_attention.linear_proj", HIDDEN, HEADS * d)
        norm_of(pre + "pre_mlp_layernorm")
        for part in ("linear_fc1_gate", "linear_fc1_up") if llama else ("linear_fc1",):
            linear_of(pre + "mlp." + part, ffn, HIDDEN)
        linear_of(pre + "mlp.linear_fc2", HIDDEN, ffn)
    norm_of("decoder.final_layernorm")
    if llama:
        add("output_layer.weight", VOCAB, HIDDEN)
    return p


def write(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        kind = "I32" if t.dtype == torch.int32 else "F32"
        raw = (t if kind == "I32" else t.detach().float()).contiguous().numpy().tobytes()
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def make(name, llama, kv_heads, ffn, head_dim=None):
    p = parameters(llama, kv_heads, ffn, head_dim)
    ids = torch.randint(0, VOCAB, (BATCH, SEQ))
    labels = torch.randint(0, VOCAB, (BATCH, SEQ))
    mask = (torch.rand(BATCH, SEQ) > 0.2).double()
    logits = forward(p, ids, llama, kv_heads)
    losses = torch.nn.functional.cross_entropy(logits.view(-1, VOCAB), labels.view(-1), reduction="none")
    loss = (losses * mask.view(-1)).sum() / mask.sum()
    loss.backward()
    out = {"ids": ids.int(), "labels": labels.int(), "mask": mask, "logits": logits, "token_loss": losses,
           "loss": loss.view(1)}
    for key, t in p.items():
        out["weight." + key] = t
        out["grad." + key] = t.grad
    write(os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".safetensors"), out)


torch.manual_seed(1)
make("gpt2", llama=False, kv_heads=HEADS, ffn=64)
make("llama", llama=True, kv_heads=2, ffn=48)
torch.manual_seed(2)
make("qwen3", llama=True, kv_heads=2, ffn=48, head_dim=12)
