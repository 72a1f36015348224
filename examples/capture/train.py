#!/usr/bin/env python3
"""A toy training program for captures: ViT-L/32 (306,535,400 parameters, fp32) on synthetic images, one process a GPU.

Every step is an NVTX range "Batch N" that holds "get batch", "forward", "backward" and "optimizer step"; the profiler is
started after --warm steps and stopped after --steps more. A CUDA event recorded right after the first operation of every captured
step, and one after the last, gives the true step times; they are one line of JSON in NAME_RANK.events.json (--name NAME).
Run by torchrun, which sets RANK, LOCAL_RANK and WORLD_SIZE; runs alone as rank 0 of 1 without it.
"""
import argparse
import contextlib
import json
import os
import socket
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

WIDTH, DEPTH, HEADS, MLP, PATCH, IMAGE, CLASSES = 1024, 24, 16, 4096, 32, 224, 1000


class Block(nn.Module):
    """One encoder layer, layer norms first."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, MLP), nn.GELU(), nn.Linear(MLP, WIDTH))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """The layers and sizes of ViT-L/32, randomly initialised: nothing is downloaded."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, kernel_size=PATCH, stride=PATCH)
        self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.position = nn.Parameter(torch.empty(1, (IMAGE // PATCH) ** 2 + 1, WIDTH).normal_(std=0.02))
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--name", default="train", help="prefix of the file of step times (default: %(default)s)")
    p.add_argument("--warm", type=int, default=5, help="steps before the capture (default: %(default)s)")
    p.add_argument("--steps", type=int, default=20, help="captured steps (default: %(default)s)")
    p.add_argument("--batch", type=int, default=32, help="images a rank and micro-batch (default: %(default)s)")
    mode = p.add_mutually_exclusive_group()
    mode.add_argument("--ddp", action=argparse.BooleanOptionalAction, default=False, help="wrap the model in DistributedDataParallel")
    mode.add_argument("--fsdp", action="store_true", help="shard the model with fully_shard (PyTorch 2.6 or later)")
    p.add_argument("--static-graph", action="store_true", help="DDP's static_graph")
    p.add_argument("--gradient-as-bucket-view", action="store_true", help="DDP's gradient_as_bucket_view")
    p.add_argument("--bucket-cap-mb", type=int, default=2000, help="DDP's bucket_cap_mb; the default holds all gradients (default: %(default)s)")
    p.add_argument("--hook", choices=["none", "bf16", "powersgd"], default="none", help="DDP communication hook")
    p.add_argument("--powersgd-start", type=int, default=2, metavar="ITERATION",
                   help="PowerSGD's start_powerSGD_iter: the first iteration that is compressed (default: %(default)s; PyTorch's own is 1000)")
    p.add_argument("--powersgd-rank", type=int, default=1, help="PowerSGD's matrix_approximation_rank (default: %(default)s)")
    p.add_argument("--accumulate", type=int, default=1, metavar="N", help="micro-batches a step; gradients are exchanged in the last one only")
    p.add_argument("--no-p2p", action="store_true", help="no peer access between GPUs: NCCL_P2P_DISABLE=1, set before NCCL starts")
    p.add_argument("--slow-rank", type=int, default=None, metavar="RANK", help="the rank that --slow-ms and --slow-gemms slow down")
    p.add_argument("--slow-ms", type=float, default=0.0, help="the slow rank's host sleeps this long in every step")
    p.add_argument("--slow-gemms", type=int, default=0, help="the slow rank's GPU multiplies this many 4096 x 4096 matrices more in every step")
    a = p.parse_args()
    if a.warm < 1 or a.steps < 1 or a.batch < 1 or a.accumulate < 1:
        p.error("--warm, --steps, --batch and --accumulate are 1 or more")
    if not a.ddp and (a.static_graph or a.gradient_as_bucket_view or a.hook != "none"):
        p.error("--static-graph, --gradient-as-bucket-view and --hook are options of --ddp")
    if a.static_graph and a.accumulate > 1:
        p.error("--accumulate skips the exchange in some backward passes, which --static-graph does not allow")
    return a


def distributed(model, a, device):
    """The model as the options want it."""
    if a.fsdp:
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        return fully_shard(model)
    if not a.ddp:
        return model
    model = DistributedDataParallel(model, device_ids=[device.index], bucket_cap_mb=a.bucket_cap_mb, static_graph=a.static_graph,
                                    gradient_as_bucket_view=a.gradient_as_bucket_view)
    if a.hook == "bf16":
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

        model.register_comm_hook(None, bf16_compress_hook)
    elif a.hook == "powersgd":
        from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

        state = PowerSGDState(None, matrix_approximation_rank=a.powersgd_rank, start_powerSGD_iter=a.powersgd_start)
        model.register_comm_hook(state, powerSGD_hook)
    return model


def exchange(model, last):
    """Gradients travel in the last micro-batch of a step only."""
    if isinstance(model, DistributedDataParallel):
        return contextlib.nullcontext() if last else model.no_sync()
    if hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(last)
    return contextlib.nullcontext()


def main():
    a = arguments()
    rank, local_rank, world_size = (int(os.environ.get(k, d)) for k, d in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1)))
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    together = a.ddp or a.fsdp
    if a.no_p2p:
        os.environ["NCCL_P2P_DISABLE"] = "1"
    if together:
        if "MASTER_ADDR" not in os.environ:
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", RANK="0", WORLD_SIZE="1")
        dist.init_process_group("nccl")

    torch.manual_seed(0)
    model = VisionTransformer().to(device)
    parameters = sum(p.numel() for p in model.parameters())
    model = distributed(model, a, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(1 + rank)
    images = torch.randn(a.batch, 3, IMAGE, IMAGE).pin_memory()
    labels = torch.randint(CLASSES, (a.batch,)).pin_memory()
    x, y = torch.empty_like(images, device=device), torch.empty_like(labels, device=device)
    slow = rank == a.slow_rank
    square = torch.randn(4096, 4096, device=device) if slow and a.slow_gemms else None
    span = torch.cuda.nvtx.range
    late = []  # For each event: ms that the host took to launch the first operation and record the event, by which it may be late.

    def step(start=None, end=None):
        for micro in range(a.accumulate):
            with span("get batch"):
                launched = time.perf_counter()
                y.copy_(labels, non_blocking=True)
                # Right after the step's first operation, a copy of about a microsecond. Before it, the event would be early by as long
                # as the host takes to launch the operation whenever the GPU has nothing else to do.
                if start and micro == 0:
                    start.record()
                    late.append(round(1e3 * (time.perf_counter() - launched), 4))
                x.copy_(images, non_blocking=True)
            if slow and micro == 0:
                with span("slow rank"):
                    time.sleep(a.slow_ms / 1e3)
                    for _ in range(a.slow_gemms):
                        torch.mm(square, square)
            with exchange(model, last=micro == a.accumulate - 1):
                with span("forward"):
                    loss = F.cross_entropy(model(x), y) / a.accumulate
                if micro == 0:
                    optimizer.zero_grad(set_to_none=True)
                with span("backward"):
                    loss.backward()
            # Frees the graph here, where the GPU still has work, and not between two steps.
            loss = loss.detach()
        with span("optimizer step"):
            optimizer.step()
            if end:
                end.record()
        return loss

    names = [f"Batch {i}" for i in range(a.warm, a.warm + a.steps)]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(a.steps + 1)]
    # An event is created on the device when it is first recorded: do that before the capture.
    for event in events:
        event.record()
    for i in range(a.warm):
        with span(f"Batch {i}"):
            step()
    torch.cuda.synchronize()
    if together:
        dist.barrier(device_ids=[local_rank])
        torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for i, name in enumerate(names):
        with span(name):
            loss = step(events[i], events[-1] if i == a.steps - 1 else None)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()

    line = {
        "name": os.path.basename(a.name), "rank": rank, "world_size": world_size, "pid": os.getpid(), "hostname": socket.gethostname(),
        "gpu": torch.cuda.get_device_name(device), "torch": torch.__version__, "cuda": torch.version.cuda,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())), "parameters": parameters, "images_per_step": a.batch * a.accumulate,
        "loss": round(float(loss) * a.accumulate, 6), "steps": names,
        "late_ms": late, "step_ms": [round(x.elapsed_time(y), 4) for x, y in zip(events, events[1:])],
        "options": {k: v for k, v in vars(a).items() if k != "name"},
    }
    path = f"{a.name}_{rank}.events.json"
    with open(path + ".part", "w") as f:
        f.write(json.dumps(line) + "\n")
    os.replace(path + ".part", path)
    print(json.dumps({k: line[k] for k in ("name", "rank", "loss", "step_ms")}), flush=True)
    if together:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
