#!/usr/bin/env python3
"""Makes tests/golden/hf/NAME for the families whose classes came later than those of make_hf_models.py, as transformers writes them,
and families.tsv: name, what mt-reshard is to cut it into, and the sum of negative log-likelihoods as in nll.tsv (of decoders only).

deepseek_v3-fp8 is the one that no class writes: its matrices are those of deepseek_v3 in e4m3 by blocks of 8 by 8 beside their scales, as
DeepSeek's own files have them, with a layer for one token further, and deepseek_v3-fp8/expected.safetensors is what PyTorch makes of them in bf16.

Run once, with PyTorch (2.3) and transformers (4.57):  python3 tests/golden/make_hf_families.py
"""
import json
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import (BertConfig, BertForPreTraining, BloomConfig, BloomForCausalLM, DeepseekV2Config, DeepseekV2ForCausalLM,
                          DeepseekV3Config, DeepseekV3ForCausalLM, FalconConfig, FalconForCausalLM, GPTNeoXConfig, GPTNeoXForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, T5Config, T5ForConditionalGeneration)

HERE = pathlib.Path(__file__).parent / "hf"
TOKENS = [(7 * i * i + 3 * i + 1) % 37 for i in range(24)]
BLOCK = 8
COMMON = dict(vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32)
LLAMA = dict(**COMMON, intermediate_size=24, num_key_value_heads=2, tie_word_embeddings=False)
FALCON = dict(**COMMON, ffn_hidden_size=32, rope_theta=5000.0)
NEOX = dict(**COMMON, intermediate_size=32, rotary_pct=0.5)
LATENT = dict(**{**LLAMA, "num_key_value_heads": 4}, moe_intermediate_size=8, n_routed_experts=4, n_shared_experts=2,
              num_experts_per_tok=2, first_k_dense_replace=1, kv_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5,
              n_group=2, topk_group=1)
T5 = dict(vocab_size=37, d_model=16, d_kv=6, d_ff=24, num_layers=2, num_heads=4, relative_attention_num_buckets=8,
          relative_attention_max_distance=20)
F32, BF16 = torch.float32, torch.bfloat16
MODELS = {
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**LLAMA, head_dim=8), F32, "dense"),
    "qwen3_moe": (Qwen3MoeForCausalLM, Qwen3MoeConfig(**LLAMA, head_dim=8, moe_intermediate_size=12, num_experts=4,
                                                      num_experts_per_tok=2, mlp_only_layers=[0], norm_topk_prob=True), BF16, "experts"),
    "gpt_neox": (GPTNeoXForCausalLM, GPTNeoXConfig(**NEOX), F32, "dense"),
    "gpt_neox-sequential": (GPTNeoXForCausalLM, GPTNeoXConfig(**NEOX, use_parallel_residual=False), F32, "dense"),
    "falcon-7b": (FalconForCausalLM, FalconConfig(**FALCON), F32, "dense"),
    "falcon-new": (FalconForCausalLM, FalconConfig(**FALCON, new_decoder_architecture=True, num_kv_heads=2), F32, "dense"),
    "bloom": (BloomForCausalLM, BloomConfig(vocab_size=37, hidden_size=16, n_layer=2, n_head=4), F32, "dense"),
    "deepseek_v2": (DeepseekV2ForCausalLM, DeepseekV2Config(**LATENT, q_lora_rank=None, topk_method="group_limited_greedy"), BF16,
                    "experts"),
    "deepseek_v3": (DeepseekV3ForCausalLM, DeepseekV3Config(**LATENT, q_lora_rank=12), BF16, "experts"),
    "t5": (T5ForConditionalGeneration, T5Config(**T5), F32, "dense"),
    "t5-gated": (T5ForConditionalGeneration, T5Config(**T5, num_decoder_layers=4, feed_forward_proj="gated-gelu",
                                                      tie_word_embeddings=False), F32, "dense"),
    "bert": (BertForPreTraining, BertConfig(**COMMON, intermediate_size=24), F32, "dense"),
}


def nll_of(path, kind):
    model = kind.from_pretrained(path, dtype=F32, attn_implementation="eager").eval()
    with torch.no_grad():
        logits = model(torch.tensor([[36] + TOKENS[:-1]])).logits[0].double()
    return -torch.log_softmax(logits, -1)[torch.arange(len(TOKENS)), torch.tensor(TOKENS)].sum().item()


def in_blocks(scales, shape):
    return scales.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)[:shape[0], :shape[1]]


def with_mtp(tensors, layers):
    """A layer behind the last that predicts one token further, which no class of transformers has: like the last, other values."""
    more, at = {}, f"model.layers.{layers}."
    for name, t in tensors.items():
        if name.startswith(f"model.layers.{layers - 1}."):
            more[name.replace(f".{layers - 1}.", f".{layers}.", 1)] = (torch.randn(t.shape) * 0.2).to(t.dtype)
    hidden = tensors["model.norm.weight"].shape[0]
    for name, shape in {"enorm": (hidden,), "hnorm": (hidden,), "eh_proj": (hidden, 2 * hidden), "shared_head.norm": (hidden,)}.items():
        more[f"{at}{name}.weight"] = torch.randn(shape).to(BF16)
    return {**tensors, **more}


def make_fp8(source, target):
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    torch.manual_seed(8)
    stored, expected = {}, {}
    config = json.loads((source / "config.json").read_text())
    layers = config["num_hidden_layers"]
    for name, t in with_mtp(load_file(source / "model.safetensors"), layers).items():
        if not name.endswith("_proj.weight") and "kv_a_proj" not in name:
            stored[name] = expected[name] = t
            continue
        rows, columns = -(-t.shape[0] // BLOCK), -(-t.shape[1] // BLOCK)
        scales = torch.empty(rows, columns)
        for r in range(rows):
            for c in range(columns):
                scales[r, c] = t[r * BLOCK:(r + 1) * BLOCK, c * BLOCK:(c + 1) * BLOCK].float().abs().max() / 448
        stored[name] = (t.float() / in_blocks(scales, t.shape)).to(torch.float8_e4m3fn)
        stored[name + "_scale_inv"] = scales
        expected[name] = (stored[name].float() * in_blocks(scales, t.shape)).to(BF16)
    # Its embedding and head are the model's, and files have them once more.
    stored[f"model.layers.{layers}.embed_tokens.weight"] = stored["model.embed_tokens.weight"].clone()
    stored[f"model.layers.{layers}.shared_head.head.weight"] = stored["lm_head.weight"].clone()
    save_file(stored, target / "model.safetensors", metadata={"format": "pt"})
    save_file(expected, target / "expected.safetensors", metadata={"format": "pt"})
    config["num_nextn_predict_layers"] = 1
    config["quantization_config"] = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                                     "weight_block_size": [BLOCK, BLOCK]}
    (target / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def main():
    rows = []
    for name, (kind, config, dtype, cut) in MODELS.items():
        torch.manual_seed(7)
        model = kind(config)
        with torch.no_grad():
            for p in list(model.parameters()) + [b for n, b in model.named_buffers() if "correction_bias" in n]:
                p.add_(torch.randn_like(p) * 0.2)  # norms and biases too, which start at ones and zeros
        model = model.to(dtype)
        for n, b in model.named_buffers():
            if "correction_bias" in n:
                b.data = b.data.float()  # as DeepSeek's own files have it beside matrices of fewer bits
        shutil.rmtree(HERE / name, ignore_errors=True)
        model.save_pretrained(HERE / name, safe_serialization=True)
        (HERE / name / "generation_config.json").unlink(missing_ok=True)
        scored = nll_of(HERE / name, kind) if hasattr(config, "is_decoder") and "CausalLM" in kind.__name__ else None
        rows.append(f"{name}\t{cut}\t{'-' if scored is None else repr(scored)}")
        print(rows[-1], sum(p.numel() for p in model.parameters()))
    make_fp8(HERE / "deepseek_v3", HERE / "deepseek_v3-fp8")
    (HERE / "families.tsv").write_text("\n".join(rows) + "\n")


main()
