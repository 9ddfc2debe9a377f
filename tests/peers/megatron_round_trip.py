#!/usr/bin/env python3
"""Has Megatron Core and torch load what mt-ckpt writes for them, and compares every tensor with the model it was made of.

    python3 tests/peers/megatron_round_trip.py BIN        needs the packages torch and megatron-core; no GPU; a minute

BIN holds mt-ckpt. The models are those of tests/golden/make_megatron.py: what Megatron saved becomes ours, ours becomes a
checkpoint of format torch and one of torch_dist again, and Megatron's own loader reads both. Every tensor must be equal. What it
printed is megatron_round_trip.tsv: model, format, tensors, the SHA-256 of what was loaded, versions of megatron-core and torch.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "golden"))
import make_megatron as golden  # noqa: E402


def numbers_of(model):
    return {k: v.detach().clone() for k, v in model.state_dict().items() if v is not None and "_extra_state" not in k}


def cleared(model):
    import torch
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(-7)
    return model


def same(name, what, expected, found):
    import torch
    for key, t in expected.items():
        a, b = t, found[key]
        if "word_embeddings" in key or "output_layer" in key:  # rows of padding are zeros in ours
            a, b = a[:golden.VOCAB], b[:golden.VOCAB]
        assert torch.equal(a, b), f"{name} {what}: {key} differs"
    import hashlib
    from importlib.metadata import version
    sums = hashlib.sha256()
    for key in sorted(found):
        rows = golden.VOCAB if "word_embeddings" in key or "output_layer" in key else None
        sums.update(found[key][:rows].contiguous().numpy().tobytes())
    print(name, what, len(expected), sums.hexdigest(), version("megatron-core"), version("torch"), sep="\t")


def check(name, work):
    import torch
    torch.Tensor.cuda = lambda self, *a, **k: self
    torch.cuda.current_device = lambda: "cpu"
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    from megatron.core import dist_checkpointing
    from megatron.core import parallel_state as ps
    ps.initialize_model_parallel(1, 1)
    model = golden.build(name, 1, 1, 1, None)[0]
    golden.fill([model])
    expected = numbers_of(model)
    state = torch.load(work / "legacy" / "iter_0000005" / "mp_rank_00" / "model_optim_rng.pt", weights_only=False)
    assert state["checkpoint_version"] == 3.0 and state["iteration"] == 5 and state["args"].num_layers == golden.MODELS[name]["layers"]
    odd = cleared(model).load_state_dict(state["model"], strict=False)
    assert not odd.unexpected_keys and all("_extra_state" in k for k in odd.missing_keys), odd
    same(name, "torch", expected, numbers_of(model))
    sharded = {k: v for k, v in cleared(model).sharded_state_dict().items() if "_extra_state" not in k}
    loaded = dist_checkpointing.load(sharded, str(work / "dist" / "iter_0000005"), strict="assume_ok_unexpected")
    assert loaded.pop("iteration") == 5 and loaded.pop("checkpoint_version") == 3.0
    assert loaded.pop("args").hidden_size == 16
    odd = model.load_state_dict(loaded, strict=False)
    assert not odd.unexpected_keys and all("_extra_state" in k for k in odd.missing_keys), odd
    same(name, "torch_dist", expected, numbers_of(model))


def main(binaries):
    tool = str(pathlib.Path(binaries) / "mt-ckpt")
    for name, model in golden.MODELS.items():
        if model.get("grouped"):  # written with a tensor an expert, which that class does not load
            continue
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            run = lambda *a: subprocess.run([tool, "convert", *map(str, a)], check=True, stdout=subprocess.DEVNULL)
            run("--load", HERE.parent / "golden/megatron" / name / "legacy", "--save", work / "native")
            run("--load", work / "native", "--save", work / "legacy", "--to", "megatron", "--transformer-impl", "local")
            run("--load", work / "native", "--save", work / "dist", "--to", "megatron-dist", "--transformer-impl", "local")
            subprocess.run([sys.executable, __file__, "check", name, folder], check=True,
                           env=dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT="29871", OMP_NUM_THREADS="1"))


if __name__ == "__main__":
    if sys.argv[1] == "check":
        check(sys.argv[2], pathlib.Path(sys.argv[3]))
    else:
        main(sys.argv[1])
