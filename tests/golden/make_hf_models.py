#!/usr/bin/env python3
"""Makes tests/golden/hf/NAME: tiny random models of each family that mt-ckpt converts, as transformers writes them, and nll.tsv:
the sum of negative log-likelihoods of the tokens below behind an end token, 36, in float32 arithmetic on the stored weights.

Run once, with PyTorch and transformers (4.41 was used):  python3 tests/golden/make_hf_models.py
"""
import json
import pathlib
import shutil

import torch
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          MixtralConfig, MixtralForCausalLM, Qwen2Config, Qwen2ForCausalLM)

HERE = pathlib.Path(__file__).parent / "hf"
TOKENS = [(7 * i * i + 3 * i + 1) % 37 for i in range(24)]
COMMON = dict(vocab_size=37, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=32, attn_implementation="eager")
MODELS = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(vocab_size=37, n_embd=16, n_layer=2, n_head=4, n_positions=32,
                                        attn_implementation="eager"), torch.float32),
    "llama": (LlamaForCausalLM, LlamaConfig(**COMMON, rms_norm_eps=1e-5, rope_theta=5000.0), torch.float32),
    "mistral": (MistralForCausalLM, MistralConfig(**COMMON, sliding_window=None), torch.bfloat16),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**COMMON, tie_word_embeddings=True), torch.float32),
    "mixtral": (MixtralForCausalLM, MixtralConfig(**COMMON, num_local_experts=4, num_experts_per_tok=2), torch.bfloat16),
}


def main():
    rows = []
    for name, (kind, config, dtype) in MODELS.items():
        torch.manual_seed(5)
        model = kind(config)
        with torch.no_grad():
            for p in model.parameters():  # norms and biases too, which start at ones and zeros
                p.add_(torch.randn_like(p) * 0.2)
        model = model.to(dtype)
        shutil.rmtree(HERE / name, ignore_errors=True)
        model.save_pretrained(HERE / name, safe_serialization=True)
        (HERE / name / "generation_config.json").unlink(missing_ok=True)
        model = kind.from_pretrained(HERE / name, torch_dtype=torch.float32, attn_implementation="eager").eval()
        with torch.no_grad():
            logits = model(torch.tensor([[36] + TOKENS[:-1]])).logits[0].double()
        nll = -torch.log_softmax(logits, -1)[torch.arange(len(TOKENS)), torch.tensor(TOKENS)].sum().item()
        rows.append(f"{name}\t{nll!r}")
        print(name, nll, sum(p.numel() for p in model.parameters()))
    (HERE / "nll.tsv").write_text("\n".join(rows) + "\n")
    (HERE / "tokens.jsonl").write_text(json.dumps({"text": " ".join(map(str, TOKENS))}) + "\n")


main()
