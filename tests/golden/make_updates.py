#!/usr/bin/env python3
"""Makes tests/golden/updates.tsv: weights after each of five steps of torch.optim.SGD and AdamW.

Run once, with PyTorch (any version):  python3 tests/golden/make_updates.py
Rows: rule, step, learning rate, then twelve weights. Weight i starts at (i*29 % 41 - 20) / 64; the gradient of weight i in
step s (from 1) is ((i*17 + s*23) % 31 - 15) / 32. Computed in float64.
"""
import os
import torch

torch.set_default_dtype(torch.float64)
COUNT, RATES = 12, [0.1, 0.05, 0.2, 0.01, 0.1]
RULES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, weight_decay=0.125),
    "sgd-plain": lambda p: torch.optim.SGD(p, lr=1, weight_decay=0.125),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1, betas=(0.9, 0.95), eps=1e-6, weight_decay=0.125),
}

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "updates.tsv"), "w") as out:
    for name, make in RULES.items():
        weight = torch.nn.Parameter(torch.tensor([(i * 29 % 41 - 20) / 64 for i in range(COUNT)]))
        optimizer = make([weight])
        for step, rate in enumerate(RATES, 1):
            optimizer.param_groups[0]["lr"] = rate
            weight.grad = torch.tensor([((i * 17 + step * 23) % 31 - 15) / 32 for i in range(COUNT)])
            optimizer.step()
            out.write("\t".join([name, str(step), str(rate)] + [f"{w:.12g}" for w in weight.tolist()]) + "\n")
