#!/usr/bin/env python3
"""Golden numbers of tests/data/blend_test.cc: orders of samples by numpy's own generator and sums. Needs numpy."""
import math
import numpy as np


def normalised(weights):
    w = np.array(weights, dtype=np.float64)
    return (w / np.sum(w)).tolist()


def fnv(values, h=0xCBF29CE484222325):
    for v in values:
        for byte in int(v).to_bytes(8, "little", signed=True):
            h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def greedy(weights, size):
    count, order = [0] * len(weights), []
    for k in range(size):
        x = max(float(k), 1.0)
        best = 0
        for i in range(1, len(weights)):
            if weights[i] * x - count[i] > weights[best] * x - count[best]:
                best = i
        order.append((best, count[best]))
        count[best] += 1
    return order


def exhaustive(sizes):
    total, count, order = float(sum(sizes)), [0] * len(sizes), []
    left = [i for i, n in enumerate(sizes) if n > 0]
    while left:
        x = max(float(len(order)), 1.0)
        best = max(left, key=lambda i: (sizes[i] / total * x - count[i], -i))
        order.append((best, count[best]))
        count[best] += 1
        if count[best] == sizes[best]:
            left.remove(best)
    return order


def lengths_of(f, n):
    return [3 + (i * 7 + f * 5) % 11 for i in range(n)]


class Gpt:
    def __init__(self, f, n, lo, hi, wanted, seq, seed):
        lengths = lengths_of(f, n)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        docs = np.arange(int(round(lo * float(n))), int(round(hi * float(n))), dtype=np.int32)
        per = sum(lengths[d] for d in docs)
        epochs = 1
        while wanted is not None and epochs * per < wanted * seq + 1:
            epochs += 1
        apart = False
        if epochs > 1:
            sans = ((epochs - 1) * per - 1) // seq
            apart = wanted - sans < int(0.80 * ((per - 1) // seq))
        rng = np.random.RandomState(seed)

        def shuffled(e):
            a = np.concatenate([docs] * e)
            rng.shuffle(a)
            return a

        order = np.concatenate([shuffled(epochs - 1), shuffled(1)]) if apart else shuffled(epochs)
        m = (epochs * per - 1) // seq
        stream = [f * 100000 + int(starts[d]) + t for d in order for t in range(lengths[d])]
        if apart:
            a, b = np.arange(0, sans, dtype=np.uint32), np.arange(sans, m, dtype=np.uint32)
            rng.shuffle(a)
            rng.shuffle(b)
            self.shuffle = np.concatenate([a, b])
        else:
            self.shuffle = np.arange(m, dtype=np.uint32)
            rng.shuffle(self.shuffle)
        self.stream, self.seq = stream, seq

    def __len__(self):
        return len(self.shuffle)

    def __getitem__(self, k):
        at = int(self.shuffle[k]) * self.seq
        return self.stream[at : at + self.seq + 1]


def blend(files, weights, wanted, own, lo, hi, seq, seed=1234, surplus=0.005):
    """Set of `files` (number, documents); weights or None; wanted or None; own: a path for this set alone."""
    if len(files) == 1 and (weights is None or own):
        return list_of(Gpt(*files[0], lo, hi, wanted, seq, seed))
    if weights is None:
        members = [Gpt(*f, lo, hi, None, seq, seed) for f in files]
        sizes = [len(m) for m in members]
        order = exhaustive(sizes) if wanted is None else greedy(normalised(sizes), min(wanted, sum(sizes)))
    else:
        w = normalised(weights)
        target = [math.ceil(wanted * x) for x in w]
        made = [math.ceil(t * (1 + surplus)) for t in target]
        members = [Gpt(*f, lo, hi, n, seq, seed) for f, n in zip(files, made)]
        order = greedy(normalised(w), sum(target))
    return [members[m][i] for m, i in order]


def list_of(gpt):
    return [gpt[k] for k in range(len(gpt))]


print("normalised: n, first, last")
for n in (3, 7, 8, 9, 127, 128, 129, 300, 1000, 5000):
    w = normalised([((i * 7919) % 1009 + 1) / 997 for i in range(n)])
    print(f"  {{{n}, {w[0].hex()}, {w[-1].hex()}}},")
print("orders: members, samples, hash of members and ordinals")
for n, size in ((2, 50), (7, 500), (33, 2000), (100, 3000)):
    w = normalised([((i * 7919) % 1009 + 1) / 997 for i in range(n)])
    order = greedy(w, size)
    print(f"  {{{n}, {size}, 0x{fnv(x for pair in order for x in pair):016x}}},")
print("exhaustive")
for n in (2, 7, 40):
    sizes = [(i * 37) % 50 + 1 for i in range(n)]
    print(f"  {{{n}, {sum(sizes)}, 0x{fnv(x for pair in exhaustive(sizes) for x in pair):016x}}},")
print("member samples")
for wanted, weight in ((1000, 0.3), (1000, 1 / 3), (100, 0.07), (7, 1.0), (1000000, 0.123), (200, 0.5)):
    t = math.ceil(wanted * weight)
    print(f"  {{{wanted}, {weight.hex()}, {t}, {math.ceil(t * 1.005)}}},")
print("sets: samples, hash of all tokens")
A, B, C = (0, 40), (1, 25), (2, 60)
for name, args in {
    "one file": ([A], None, 100, False, 0.0, 0.9, 8),
    "one weighted file of a shared path": ([A], [1.0], 200, False, 0.0, 0.9, 8),
    "one weighted file of its own": ([A], [1.0], 200, True, 0.0, 1.0, 8),
    "three weighted": ([A, B, C], [0.2, 0.5, 0.4], 150, False, 0.0, 0.9, 8),
    "their validation part": ([A, B, C], [0.2, 0.5, 0.4], 12, False, 0.9, 1.0, 8),
    "three unweighted": ([A, B, C], None, 60, True, 0.0, 1.0, 8),
    "three exhaustive": ([A, B, C], None, None, True, 0.0, 1.0, 8),
    "a surplus": ([A, B], [0.5, 0.5], 64, False, 0.0, 1.0, 8, 1234, 0.25),
    "another seed": ([A, B], [0.5, 0.5], 64, False, 0.0, 1.0, 8, 99),
}.items():
    samples = blend(*args)
    print(f'  {{"{name}", {len(samples)}, 0x{fnv(t for s in samples for t in s):016x}}},')
