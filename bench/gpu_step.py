"""Show where a training step spends its time on a GPU: python -m bench.gpu_step [--dataset wn18rr --form 5star-conj …]

Prints seconds of some epochs, the kernels of a recorded step, and the time of a product by the number of table rows.
"""

from __future__ import annotations

import argparse

import torch
from torch.profiler import ProfilerActivity, profile

import conjoin
from conjoin.runtime.device import matmul_precision


def epochs(chosen: argparse.Namespace) -> None:
    """Train some epochs, then profile a step."""
    graph = conjoin.load(chosen.dataset)
    model = conjoin.Model(chosen.form, graph.n_entities, graph.n_relations, rank=chosen.rank, device="cuda")
    recipe = conjoin.Recipe(epochs=4, batch=chosen.batch, n3=chosen.n3, lr=chosen.lr, precision=chosen.precision)
    training = conjoin.train(model, graph, recipe)
    print("seconds per epoch", [round(epoch.seconds, 3) for epoch in training])
    (batch,) = training.step.batches(torch.from_numpy(graph.queries("train")[: chosen.batch]).cuda())
    with matmul_precision(chosen.precision), profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(20):
            training.step(batch)
        torch.cuda.synchronize()
    for kernel in sorted(seen.key_averages(), key=lambda k: -k.self_device_time_total)[:12]:
        print(f"{kernel.self_device_time_total / 20:8.1f} us a step, {kernel.count / 20:.0f} times: {kernel.key[:90]}")


def products() -> None:
    """Times of TF32 products of 1,000 queries with tables of odd and of round numbers of rows."""
    from triton.testing import do_bench

    with matmul_precision("tf32"):
        for rows in (40_943, 40_960):
            q, table = torch.randn(1000, 1000, device="cuda"), torch.randn(rows, 1000, device="cuda")
            print(f"{rows} rows: {do_bench(lambda q=q, table=table: q @ table.T):.3f} ms")


def main() -> None:
    """Both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="wn18rr")
    parser.add_argument("--form", default="5star-conj")
    parser.add_argument("--rank", type=int, default=500)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--n3", type=float, default=0.5)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--precision", default="tf32")
    epochs(parser.parse_args())
    products()


if __name__ == "__main__":
    main()
