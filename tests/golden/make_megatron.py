#!/usr/bin/env python3
"""Make the small checkpoints of tests/golden/megatron with Megatron Core and PyTorch.

    python3 make_megatron.py OUT [MODEL ...]

Needs the packages torch and megatron-core; no GPU. Ran with torch 2.15.0, megatron-core 0.16.1. The models have random
weights of their own seed. For each there is what a run would have saved, rank by rank, as --ckpt-format torch does (legacy/)
and as torch_dist (dist/), a checksum of each whole tensor (expected.tsv), and the loss of hf/tokens.jsonl by Megatron's own
forward pass (nll.tsv). "experts-etp" has experts cut otherwise than the rest, "grouped" has them in two tensors (GroupedMLP; the
package that multiplies them is not needed to make and save them). Written by hand, from what the package saved of "qk": its
tensors under the names of Transformer Engine (fused/) and of models before Megatron Core (old/).
"""
import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys

VOCAB, PADDED, LENGTH = 37, 64, 32

# name: layout of the legacy files, layout of the dist files, what differs
MODELS = {
    "gqa": dict(layers=4, tp=2, pp=2, vpp=2, tied=True, norm="RMSNorm", gated=True, bias=False, rope=True, groups=2),
    "classic": dict(layers=2, tp=2, pp=1, vpp=None, tied=False, norm="LayerNorm", gated=False, bias=True, rope=False, groups=4),
    "experts": dict(layers=2, tp=1, pp=1, vpp=None, ep=2, tied=False, norm="RMSNorm", gated=True, bias=False, rope=True, groups=4, experts=4),
    "qk": dict(layers=2, tp=2, pp=1, vpp=None, tied=False, norm="RMSNorm", gated=True, bias=False, rope=True, groups=2, qk=True),
    "experts-etp": dict(layers=1, tp=2, pp=1, vpp=None, ep=2, etp=1, tied=False, norm="RMSNorm", gated=True, bias=False, rope=True, groups=4, experts=4),
    "grouped": dict(layers=1, tp=2, pp=1, vpp=None, tied=False, norm="RMSNorm", gated=True, bias=False, rope=True, groups=4, experts=4, grouped=True),
}


def args_of(name):
    m = MODELS[name]
    a = argparse.Namespace(
        num_layers=m["layers"], hidden_size=16, num_attention_heads=4, ffn_hidden_size=24, kv_channels=4,
        group_query_attention=m["groups"] != 4, num_query_groups=m["groups"] if m["groups"] != 4 else 1,
        max_position_embeddings=LENGTH, position_embedding_type="rope" if m["rope"] else "learned_absolute", rotary_base=10000,
        rotary_percent=1.0, normalization=m["norm"], norm_epsilon=1e-5, swiglu=m["gated"], add_bias_linear=m["bias"],
        bias_gelu_fusion=False, openai_gelu=False, untie_embeddings_and_output_weights=not m["tied"],
        make_vocab_size_divisible_by=PADDED // 2, padded_vocab_size=PADDED, vocab_size=VOCAB, tensor_model_parallel_size=m["tp"],
        pipeline_model_parallel_size=m["pp"], expert_model_parallel_size=m.get("ep", 1), expert_tensor_parallel_size=m.get("etp", m["tp"]),
        qk_layernorm=m.get("qk", False), transformer_impl="local", num_experts=m.get("experts"),
        moe_ffn_hidden_size=24 if "experts" in m else None, moe_router_topk=2, params_dtype=None, iteration=5, consumed_train_samples=40)
    import torch
    a.params_dtype = torch.float32  # args hold such things too
    return a


def build(name, tp, pp, ep, vpp):
    import torch
    from megatron.core import parallel_state as ps
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.transformer_config import TransformerConfig
    m = MODELS[name]
    experts = dict(num_moe_experts=m["experts"], moe_ffn_hidden_size=24, moe_router_topk=2, expert_model_parallel_size=ep,
                   expert_tensor_parallel_size=m.get("etp", tp), moe_grouped_gemm=m.get("grouped", False),
                   moe_token_dispatcher_type="alltoall" if m.get("etp", tp) != tp else "allgather") if "experts" in m else {}
    if m.get("grouped"):
        from megatron.core.transformer.moe import grouped_gemm_util
        grouped_gemm_util.assert_grouped_gemm_is_available = lambda: None
    config = TransformerConfig(
        num_layers=m["layers"], hidden_size=16, num_attention_heads=4, num_query_groups=m["groups"], ffn_hidden_size=24, use_cpu_initialization=True,
        gated_linear_unit=m["gated"], activation_func=torch.nn.functional.silu if m["gated"] else torch.nn.functional.gelu,
        normalization=m["norm"], add_bias_linear=m["bias"], bias_activation_fusion=False, tensor_model_parallel_size=tp,
        pipeline_model_parallel_size=pp, virtual_pipeline_model_parallel_size=vpp, pipeline_dtype=torch.float32, hidden_dropout=0.0,
        attention_dropout=0.0, gradient_accumulation_fusion=False, masked_softmax_fusion=False, bias_dropout_fusion=False,
        apply_rope_fusion=False, qk_layernorm=m.get("qk", False), **experts)
    spec = get_gpt_layer_local_spec(num_experts=m.get("experts"), moe_grouped_gemm=m.get("grouped", False), normalization=m["norm"],
                                    qk_layernorm=m.get("qk", False), **(dict(moe_use_legacy_grouped_gemm=True) if m.get("grouped") else {}))
    chunks = []
    for stage in range(vpp or 1):
        more = dict(vp_stage=stage) if vpp else {}
        chunks.append(GPTModel(
            config, spec, vocab_size=PADDED, max_sequence_length=LENGTH,
            pre_process=ps.is_pipeline_first_stage(ignore_virtual=False, **more), post_process=ps.is_pipeline_last_stage(ignore_virtual=False, **more),
            share_embeddings_and_output_weights=m["tied"], position_embedding_type="rope" if m["rope"] else "learned_absolute", **more))
    return chunks


def fill(chunks, salt=""):
    """Every tensor by its name and place in the whole model, so that all layouts hold one model."""
    import hashlib

    import numpy
    import torch
    from megatron.core.dist_checkpointing.mapping import ShardedTensor
    for chunk in chunks:
        for t in flat(chunk.sharded_state_dict()):
            if not isinstance(t, ShardedTensor):
                continue
            seed = int.from_bytes(hashlib.sha256((salt + t.key).encode()).digest()[:4], "little")
            whole = numpy.random.RandomState(seed).standard_normal(t.global_shape).astype(numpy.float32) * 0.25
            if "norm" in t.key and t.key.endswith("weight"):
                whole = 1 + whole
            part = whole[tuple(slice(o, o + n) for o, n in zip(t.global_offset, (1,) * t.prepend_axis_num + tuple(t.local_shape)))]
            with torch.no_grad():
                t.data.copy_(torch.from_numpy(numpy.ascontiguousarray(part)).reshape(t.data.shape))
        for key, p in chunk.named_parameters():
            if key.endswith(("mlp.experts.weight1", "mlp.experts.weight2")):
                fill_grouped(key, p, salt)


def fill_grouped(key, p, salt):
    """Experts in two tensors, [expert, in, out] in memory; what the package makes of them to save is a copy."""
    import hashlib

    import numpy
    import torch
    from megatron.core import parallel_state as ps
    tp, rank = ps.get_tensor_model_parallel_world_size(), ps.get_tensor_model_parallel_rank()
    rng = numpy.random.RandomState(int.from_bytes(hashlib.sha256((salt + key).encode()).digest()[:4], "little"))
    n = 24 // tp
    if key.endswith("1"):  # gate and up side by side
        part = rng.standard_normal((4, 16, 2, 24)).astype(numpy.float32)[..., rank * n:(rank + 1) * n]
    else:
        part = rng.standard_normal((4, 24, 16)).astype(numpy.float32)[:, rank * n:(rank + 1) * n]
    with torch.no_grad():
        p.copy_(torch.from_numpy(numpy.ascontiguousarray(part)).reshape(p.shape))


def flat(tree):
    from megatron.core.dist_checkpointing.mapping import ShardedTensorFactory
    for v in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(v, ShardedTensorFactory):
            built = v.build()
            yield from flat(built if isinstance(built, (dict, list)) else [built])
        elif isinstance(v, (dict, list)):
            yield from flat(v)
        else:
            yield v


def loss_of(model):
    """The sum of negative log-likelihoods of the tokens behind an end token, 36, as in hf/nll.tsv."""
    import torch
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hf", "tokens.jsonl")
    ids = [int(w) for w in json.loads(open(path).readline())["text"].split()]
    n = len(ids)
    from megatron.core.tensor_parallel import random
    random.CudaRNGStatesTracker.fork = lambda self, *a, **k: contextlib.nullcontext()
    model.eval()
    with torch.no_grad():
        mask = torch.triu(torch.ones(1, 1, n, n, dtype=torch.bool), 1)
        logits = model(torch.tensor([[36] + ids[:-1]]), torch.arange(n)[None], mask)[0].double()[:, :VOCAB]
    return torch.nn.functional.cross_entropy(logits, torch.tensor(ids), reduction="sum").item()


def expected_rows(name, tensors, kind=""):
    """Whole tensors by mt's names, cut here by hand: name, shape and CRC-32 of the bytes."""
    import zlib

    import torch
    groups, rows, experts = MODELS[name]["groups"], [], {}
    def add(key, t):
        t = t.contiguous()
        raw = (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().tobytes()
        rows.append(f"{kind}{key}\t{','.join(map(str, t.shape))}\t{zlib.crc32(raw):08x}")
    for key, t in tensors:
        if "word_embeddings" in key or "output_layer" in key:
            add(key, t[:VOCAB])
        elif "linear_qkv." in key:
            by_group = t.reshape(groups, 4 // groups + 2, 4, *t.shape[1:])
            for part, some in (("q", by_group[:, :-2]), ("k", by_group[:, -2:-1]), ("v", by_group[:, -1:])):
                add(key.replace("linear_qkv", "linear_" + part), some.reshape(-1, *t.shape[1:]))
        elif key.endswith("mlp.experts.weight1"):
            t = t.reshape(4, 16, 48).transpose(1, 2)
            add(key.replace("weight1", "linear_fc1_gate.weight"), t[:, :24])
            add(key.replace("weight1", "linear_fc1_up.weight"), t[:, 24:])
        elif key.endswith("mlp.experts.weight2"):
            add(key.replace("weight2", "linear_fc2.weight"), t.reshape(4, 24, 16).transpose(1, 2))
        elif ".local_experts." in key:
            start, rest = key.split("local_experts.")
            experts.setdefault(start + rest.split(".", 1)[1], {})[int(rest.split(".", 1)[0])] = t
        elif "linear_fc1." in key and MODELS[name]["gated"]:
            add(key.replace("fc1", "fc1_gate"), t[:24])
            add(key.replace("fc1", "fc1_up"), t[24:])
        else:
            add(key, t)
    for key, of in experts.items():
        t = torch.stack([of[e] for e in sorted(of)])
        if "linear_fc1" in key:
            add(key.replace("fc1", "fc1_gate"), t[:, :24])
            add(key.replace("fc1", "fc1_up"), t[:, 24:])
        else:
            add(key, t)
    return rows


def write_expected(name, model, path):
    tensors = [(k, t.detach()) for k, t in model.state_dict().items() if t is not None and "_extra_state" not in k]
    with open(path, "w") as f:
        f.write("\n".join(sorted(expected_rows(name, tensors))) + "\n")


def rank_main(name, out, tp, pp, ep, vpp, do):
    import torch
    # A few lines of Megatron Core ask for a GPU whatever the layout.
    torch.Tensor.cuda = lambda self, *a, **k: self
    torch.cuda.synchronize = lambda *a, **k: None
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.Stream = lambda *a, **k: None
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    from megatron.core import dist_checkpointing
    from megatron.core import parallel_state as ps
    ps.initialize_model_parallel(tp, pp, vpp, expert_model_parallel_size=ep, expert_tensor_parallel_size=MODELS[name].get("etp", tp) if do != "whole" else 1)
    chunks = build(name, tp, pp, ep, vpp)
    fill(chunks)
    args = args_of(name)
    if do == "legacy":
        numbers = [ps.get_tensor_model_parallel_rank()]
        folder = f"mp_rank_{numbers[0]:02d}"
        if pp > 1:
            folder += f"_{ps.get_pipeline_model_parallel_rank():03d}"
        if ep > 1:
            folder += f"_{ps.get_expert_model_parallel_rank():03d}"
        state = {"args": args, "checkpoint_version": 3.0, "iteration": 5}
        for i, chunk in enumerate(chunks):
            state["model" if len(chunks) == 1 else f"model{i}"] = chunk.state_dict_for_save_checkpoint()
        os.makedirs(os.path.join(out, "iter_0000005", folder), exist_ok=True)
        torch.save(state, os.path.join(out, "iter_0000005", folder, "model_optim_rng.pt"))
        if rank == 0:
            with open(os.path.join(out, "latest_checkpointed_iteration.txt"), "w") as f:
                f.write("5")
    elif do == "dist":
        folder = os.path.join(out, "iter_0000005")
        os.makedirs(folder, exist_ok=True)
        state = {"args": args, "checkpoint_version": 3.0, "iteration": 5}
        for i, chunk in enumerate(chunks):
            state["model" if len(chunks) == 1 else f"model{i}"] = chunk.sharded_state_dict()
        dist_checkpointing.save(state, folder)
        if rank == 0:
            with open(os.path.join(out, "latest_checkpointed_iteration.txt"), "w") as f:
                f.write("5")
    else:
        write_expected(name, chunks[0], os.path.join(out, name, "expected.tsv"))
        if "experts" not in MODELS[name]:  # Megatron routes them on a GPU alone
            with open(os.path.join(out, "nll.tsv"), "a") as f:
                f.write(f"{name}\t{loss_of(chunks[0]):.9f}\n")
    torch.distributed.barrier()


def start(name, out, tp, pp, ep, vpp, do):
    world = max(tp * pp, ep * MODELS[name].get("etp", tp) * pp)
    port = 29000 + os.getpid() % 900
    jobs = [subprocess.Popen([sys.executable, __file__, "rank", name, out, str(tp), str(pp), str(ep), str(vpp or 0), do],
                             env=dict(os.environ, RANK=str(r), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1"))
            for r in range(world)]
    assert all([j.wait() == 0 for j in jobs]), name


# Starts of names in Transformer Engine's spec and before Megatron Core.
FUSED = {"input_layernorm.": "self_attention.linear_qkv.layer_norm_", "pre_mlp_layernorm.": "mlp.linear_fc1.layer_norm_"}
OLD = {"input_layernorm.": "input_norm.", "pre_mlp_layernorm.": "post_attention_norm.", "self_attention.linear_qkv.": "self_attention.query_key_value.",
       "self_attention.linear_proj.": "self_attention.dense.", "mlp.linear_fc1.": "mlp.dense_h_to_4h.", "mlp.linear_fc2.": "mlp.dense_4h_to_h."}


def write_by_hand(here):
    """The files of legacy/ under other names."""
    import torch
    for how, table in (("fused", FUSED), ("old", OLD)):
        to = os.path.join(here, how)
        shutil.copytree(os.path.join(here, "legacy"), to)
        for rank in os.listdir(os.path.join(to, "iter_0000005")):
            path = os.path.join(to, "iter_0000005", rank, "model_optim_rng.pt")
            state = torch.load(path, weights_only=False)
            model = {}
            for key, t in state["model"].items():
                start, _, inside = key.partition("layers.")
                number, _, rest = inside.partition(".")
                for a, b in table.items():
                    if inside and rest.startswith(a):
                        key = f"{start}layers.{number}.{b}{rest[len(a):]}"
                model[key] = t
            if how == "fused":
                model["decoder.layers.0.self_attention.linear_qkv._extra_state"] = None
            else:
                inner = {"embedding": {"word_embeddings": {"weight": model["embedding.word_embeddings.weight"]}},
                         "encoder": {k[len("decoder."):].replace("final_layernorm", "final_norm"): v for k, v in model.items() if k.startswith("decoder.")},
                         "output_layer": {"weight": model["output_layer.weight"]}}
                model = {"language_model": inner}
            state["model"] = model
            torch.save(state, path)


def main(out, only):
    nll = os.path.join(out, "nll.tsv")
    os.makedirs(out, exist_ok=True)
    if os.path.exists(nll) and not only:
        os.remove(nll)
    for name, m in MODELS.items():
        if only and name not in only:
            continue
        here = os.path.join(out, name)
        shutil.rmtree(here, ignore_errors=True)
        layout = (m["tp"], m["pp"], m.get("ep", 1), m["vpp"])
        start(name, os.path.join(here, "legacy"), *layout, "legacy")
        start(name, os.path.join(here, "dist"), *layout, "dist")
        start(name, out, 1, 1, 1, None, "whole")
        if name == "qk":
            write_by_hand(here)


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        tp, pp, ep, vpp = (int(v) for v in sys.argv[4:8])
        rank_main(sys.argv[2], sys.argv[3], tp, pp, ep, vpp or None, sys.argv[8])
    else:
        main(sys.argv[1], sys.argv[2:])
