#!/usr/bin/env python3
"""Make the small checkpoints of tests/golden/megatron_optimizer with Megatron Core's own optimizers, and PyTorch.

    python3 make_megatron_optimizer.py OUT

Needs the packages torch and megatron-core; no GPU. Ran with torch 2.15.0, megatron-core 0.16.1. Each is what a run would have
saved after three steps: model, optimizer and schedule of learning rates made and saved by the package's classes. What the package
asks of a GPU is answered with the CPU here (on_cpu). Values are then put into the optimizer's own tensors by the
name and place of each parameter, so that every layout holds one state, and weights are the rounded master weights.
expected.tsv has a checksum of each whole tensor, by the names of mt.
"""
import os
import shutil
import subprocess
import sys

import make_megatron as golden

golden.MODELS["small"] = dict(layers=2, tp=2, pp=2, vpp=None, tied=True, norm="RMSNorm", gated=True, bias=False, rope=True, groups=2)
golden.MODELS["small-untied"] = dict(golden.MODELS["small"], tied=False)
golden.MODELS["small-classic"] = dict(golden.MODELS["classic"], layers=1)
golden.MODELS["small-experts"] = dict(golden.MODELS["experts"], layers=1)

# name: model, format, layout (tp, pp, ep, vpp), distributed optimizer and how it is sharded, dtype
CASES = {
    "torch": ("small", "torch", (2, 2, 1, None), None, "bfloat16"),
    "torch-interleaved": ("gqa", "torch", (1, 2, 1, 2), None, "bfloat16"),
    "torch-f32": ("small-classic", "torch", (2, 1, 1, None), None, "float32"),
    "torch-experts": ("small-experts", "torch", (1, 1, 2, None), None, "bfloat16"),
    "torch-distributed": ("small", "torch", (2, 2, 1, None), "file", "bfloat16"),
    "torch-distributed-interleaved": ("gqa", "torch", (1, 2, 1, 2), "file", "bfloat16"),
    "dist": ("small", "torch_dist", (2, 2, 1, None), None, "bfloat16"),
    "dist-f32": ("small-classic", "torch_dist", (1, 1, 1, None), None, "float32"),
    "dist-experts": ("small-experts", "torch_dist", (1, 1, 2, None), None, "bfloat16"),
    "dist-fully": ("small", "torch_dist", (2, 1, 1, None), "fully_reshardable", "bfloat16"),
    # Megatron Core 0.16.1 looks for a tied table's state where its padded buffer has it, and saves something else.
    "dist-fully-stages": ("small", "torch_dist", (2, 2, 1, None), "fully_reshardable", "bfloat16"),
    # Of a tied table over stages the package saves a bucket with padding that torch 2.15 refuses.
    "dist-buckets": ("small-untied", "torch_dist", (2, 2, 1, None), "dp_reshardable", "bfloat16"),
    "dist-gathered": ("small", "torch_dist", (2, 1, 1, None), "dp_zero_gather_scatter", "bfloat16"),
}
KINDS = ("exp_avg", "exp_avg_sq", "master")
STEPS, BATCH = 3, 8


def on_cpu():
    import torch
    torch.Tensor.cuda = lambda self, *a, **k: self
    torch.cuda.synchronize = lambda *a, **k: None
    torch.cuda.current_device = lambda: "cpu"
    for name in ("tensor", "zeros", "ones", "full", "empty"):
        def make(*a, _make=getattr(torch, name), **k):
            if str(k.get("device", "")).startswith("cuda"):
                k["device"] = "cpu"
            return _make(*a, **k)
        setattr(torch, name, make)
    kind = torch.Tensor.type
    torch.Tensor.type = lambda self, *a, **k: kind(self, *a, **k) if a or k else "torch.cuda." + kind(self).split(".")[-1]


def values_of(chunks):
    """For each kind each chunk's parameters, by name, as they are in the whole model."""
    out = {}
    for kind in KINDS:
        golden.fill(chunks, kind + "/")
        out[kind] = [{n: (p.detach().abs() if kind == "exp_avg_sq" else p.detach().clone()) for n, p in c.named_parameters()} for c in chunks]
    return out


def args_of(case):
    import torch
    model, _, (tp, pp, ep, vpp), sharded, dtype = CASES[case]
    a = golden.args_of(model)
    a.__dict__.update(
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=ep, virtual_pipeline_model_parallel_size=vpp,
        params_dtype=getattr(torch, dtype), bf16=dtype == "bfloat16", fp16=False, optimizer="adam", use_distributed_optimizer=sharded is not None,
        overlap_grad_reduce=False, transformer_impl="local", iteration=STEPS, consumed_train_samples=STEPS * BATCH, consumed_valid_samples=0,
        skipped_train_samples=0, seed=4321, seq_length=golden.LENGTH, global_batch_size=BATCH, lr=0.01, min_lr=0.001, lr_warmup_init=0.0, weight_decay=0.1)
    return a


def make_optimizer(chunks, dtype, sharded):
    import torch
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
    ddp = []
    for i, c in enumerate(chunks):
        c.config.bf16 = dtype == torch.bfloat16
        how = DistributedDataParallelConfig(use_distributed_optimizer=sharded is not None, grad_reduce_in_fp32=True, overlap_grad_reduce=False)
        ddp.append(DistributedDataParallel(c.config, how, c.to(dtype), disable_bucketing=i > 0))
    config = OptimizerConfig(optimizer="adam", lr=0.01, min_lr=0.001, bf16=dtype == torch.bfloat16, params_dtype=dtype,
                             use_distributed_optimizer=sharded is not None, weight_decay=0.1)
    optimizer = get_megatron_optimizer(config, ddp)
    scheduler = OptimizerParamScheduler(
        optimizer, init_lr=0.0, max_lr=0.01, min_lr=0.001, lr_warmup_steps=2 * BATCH, lr_decay_steps=10 * BATCH, lr_decay_style="cosine",
        start_wd=0.1, end_wd=0.1, wd_incr_steps=10 * BATCH, wd_incr_style="constant")
    for _ in range(STEPS):
        for c in ddp:
            for p in c.parameters():
                p.main_grad.fill_(0.01)
        assert optimizer.step()[0]
        scheduler.step(BATCH)
    return ddp, optimizer, scheduler


def put_values(ddp, optimizer, values, dtype):
    """Into the optimizer's own tensors."""
    import torch
    from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
    parts = getattr(optimizer, "chained_optimizers", [optimizer])
    for i, chunk in enumerate(ddp):
        for name, p in chunk.module.named_parameters():
            own = {kind: values[kind][i][name] for kind in KINDS}
            with torch.no_grad():
                p.copy_(own["master"].to(dtype))
            for part in parts:
                if isinstance(part, DistributedOptimizer):
                    if p not in part.model_param_gbuf_map:
                        continue
                    at = part._get_model_param_range_map(p)["param"]
                    mine = part._get_main_param_and_optimizer_states(p)
                    for kind, key in zip(KINDS, ("exp_avg", "exp_avg_sq", "param")):
                        mine[key].data.copy_(own[kind].flatten()[at.start:at.end])
                    continue
                main = getattr(p, "main_param", p) if dtype == torch.bfloat16 else p
                if main not in part.optimizer.state:
                    continue
                with torch.no_grad():
                    main.copy_(own["master"])
                for kind in ("exp_avg", "exp_avg_sq"):
                    part.optimizer.state[main][kind].copy_(own[kind])


def save_ranks(case, out, args, ddp, optimizer, scheduler, sharded, layout):
    import torch
    from megatron.core import parallel_state as ps
    tp, pp, ep, _ = layout
    folder = f"mp_rank_{ps.get_tensor_model_parallel_rank():02d}"
    if pp > 1:
        folder += f"_{ps.get_pipeline_model_parallel_rank():03d}"
    if ep > 1:
        folder += f"_{ps.get_expert_model_parallel_rank():03d}"
    folder = os.path.join(out, f"iter_{STEPS:07d}", folder)
    os.makedirs(folder, exist_ok=True)
    state = {"args": args, "checkpoint_version": 3.0, "iteration": STEPS}
    for i, chunk in enumerate(ddp):
        state["model" if len(ddp) == 1 else f"model{i}"] = chunk.module.state_dict_for_save_checkpoint()
    state["optimizer"] = optimizer.state_dict()
    state["opt_param_scheduler"] = scheduler.state_dict()
    state["rng_state"] = [{"torch_rng_state": torch.get_rng_state()[:64]}]
    torch.save(state, os.path.join(folder, "model_optim_rng.pt"))
    if sharded:
        optimizer.save_parameter_state(os.path.join(folder, "distrib_optim.pt"))


def save_dist(out, args, ddp, optimizer, scheduler, sharded):
    from megatron.core import dist_checkpointing
    folder = os.path.join(out, f"iter_{STEPS:07d}")
    os.makedirs(folder, exist_ok=True)
    state = {"args": args, "checkpoint_version": 3.0, "iteration": STEPS}
    for i, chunk in enumerate(ddp):
        state["model" if len(ddp) == 1 else f"model{i}"] = chunk.module.sharded_state_dict()
    models = {k: v for k, v in state.items() if k.startswith("model")}
    how = {"chained_optim_avoid_prefix": True}
    if sharded:
        how["distrib_optim_sharding_type"] = sharded
    state["optimizer"] = optimizer.sharded_state_dict(models if len(ddp) > 1 else models["model"], metadata=how)
    state["opt_param_scheduler"] = scheduler.state_dict()
    dist_checkpointing.save(state, folder)


def rank_main(case, out):
    import torch
    on_cpu()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    from megatron.core import parallel_state as ps
    model, how, layout, sharded, dtype = CASES[case]
    tp, pp, ep, vpp = layout if world > 1 or out else (1, 1, 1, None)
    ps.initialize_model_parallel(tp, pp, vpp, expert_model_parallel_size=ep)
    chunks = golden.build(model, tp, pp, ep, vpp)
    values = values_of(chunks)
    dtype = getattr(torch, dtype)
    ddp, optimizer, scheduler = make_optimizer(chunks, dtype, sharded)
    put_values(ddp, optimizer, values, dtype)
    args = args_of(case)
    if how == "torch":
        save_ranks(case, out, args, ddp, optimizer, scheduler, sharded, layout)
    else:
        save_dist(out, args, ddp, optimizer, scheduler, sharded)
    if rank == 0:
        with open(os.path.join(out, "latest_checkpointed_iteration.txt"), "w") as f:
            f.write(str(STEPS))
    torch.distributed.barrier()


def expected_main(case, out):
    """Of the whole model, in one process."""
    import torch
    on_cpu()
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    from megatron.core import parallel_state as ps
    ps.initialize_model_parallel(1, 1)
    model, _, _, _, dtype = CASES[case]
    values = values_of(golden.build(model, 1, 1, 1, None))
    rows = []
    for kind in KINDS:
        if kind != "master" or dtype != "float32":
            rows += golden.expected_rows(model, values[kind][0].items(), kind + "/")
    rows += golden.expected_rows(model, [(n, t.to(getattr(torch, dtype))) for n, t in values["master"][0].items()], "weight/")
    with open(os.path.join(out, "expected.tsv"), "w") as f:
        f.write("\n".join(sorted(rows)) + "\n")


def start(do, case, out, world):
    port = 29000 + os.getpid() % 900
    jobs = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, do, case, out],
                             env=dict(os.environ, RANK=str(r), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1"))
            for r in range(world)]
    assert all([j.wait() == 0 for j in jobs]), case


def main(out, only):
    for case, (_, _, (tp, pp, ep, _), _, _) in CASES.items():
        if only and case not in only:
            continue
        here = os.path.join(out, case)
        shutil.rmtree(here, ignore_errors=True)
        os.makedirs(here)
        start("rank", case, here, max(tp * pp, ep))
        start("expected", case, here, 1)


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        rank_main(sys.argv[2], sys.argv[3])
    elif sys.argv[1] == "expected":
        expected_main(sys.argv[2], sys.argv[3])
    else:
        main(sys.argv[1], sys.argv[2:])
