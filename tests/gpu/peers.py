#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of torch for architectures of the zoo, on tensors of the device, in halves, with weights of its own.

    peers.py [NAME...] [--compile]

Attention is torch's scaled_dot_product_attention, convolutions run on channels_last with cuDNN's search, products of f32
without TF32. Each eagerly and as a CUDA graph; --compile: by torch.compile too, in its default mode and, for
bert_large_layer, with mode "max-autotune". Milliseconds of the device, hot, as bench.py takes them; a model that this
torch cannot build is skipped and named. Needs transformers and torchvision.
"""
import argparse
import sys

import bench
import torch
from torch.nn import functional as F

KIND = torch.float16


def random(*shape, scale=0.02):
    return torch.randn(shape, device="cuda", dtype=KIND) * scale


# ---- architectures: each gives a function and its arguments --------------------------------------------------


def bert(batch, length):
    from transformers import BertConfig, BertModel
    model = BertModel(BertConfig(attn_implementation="sdpa")).to("cuda", KIND).eval()
    ids = torch.randint(0, 30522, (batch, length), device="cuda")
    return lambda i, mask, kind: model(i, attention_mask=mask, token_type_ids=kind)[0], (ids, torch.ones_like(ids), torch.zeros_like(ids))


class Layer(torch.nn.Module):
    """An encoder layer of BERT: projections of one product, attention, two norms behind their sums."""

    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads, linear, norm = heads, torch.nn.Linear, torch.nn.LayerNorm
        self.qkv, self.out, self.up, self.down = linear(width, 3 * width), linear(width, width), linear(width, inner), linear(inner, width)
        self.first, self.second = norm(width, eps=1e-12), norm(width, eps=1e-12)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        x = self.first(x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))
        return self.second(x + self.down(F.gelu(self.up(x))))


def layer(batch, length, width, heads):
    return Layer(width, heads, 4 * width).to("cuda", KIND).eval(), (random(batch, length, width, scale=1),)


def vision(name):
    import torchvision
    model = getattr(torchvision.models, name)().to("cuda", KIND, memory_format=torch.channels_last).eval()
    return model, (random(1, 3, 224, 224, scale=1).to(memory_format=torch.channels_last),)


class Gpt(torch.nn.Module):
    """GPT-2 with a cache: one token, or the whole text where there is none."""

    def __init__(self, layers=12, width=768, words=50257):
        super().__init__()
        linear = torch.nn.Linear
        self.words, self.places = torch.nn.Embedding(words, width), torch.nn.Embedding(1024, width)
        self.blocks = torch.nn.ModuleList(torch.nn.ModuleList([torch.nn.LayerNorm(width), linear(width, 3 * width), linear(width, width),
                                                               torch.nn.LayerNorm(width), linear(width, 4 * width),
                                                               linear(4 * width, width)]) for _ in range(layers))
        self.last, self.head = torch.nn.LayerNorm(width), linear(width, words, bias=False)

    def forward(self, ids, past):
        before = past[0][0].shape[2] if past else 0
        x, kept = self.words(ids) + self.places(torch.arange(before, before + ids.shape[1], device="cuda")), []
        for n, (first, qkv, out, second, up, down) in enumerate(self.blocks):
            q, k, v = (t.unflatten(-1, (12, 64)).transpose(1, 2) for t in qkv(first(x)).chunk(3, -1))
            if past:
                k, v = torch.cat((past[n][0], k), 2), torch.cat((past[n][1], v), 2)
            x = x + out(F.scaled_dot_product_attention(q, k, v, is_causal=not past).transpose(1, 2).flatten(2))
            x = x + down(F.gelu(up(second(x)), approximate="tanh"))
            kept.append((k, v))
        return self.head(self.last(x)), kept


class Llama(torch.nn.Module):
    """The small Llama of the zoo: 12 layers, 12 heads over 4 of keys."""

    def __init__(self, layers=12, width=768, inner=2048, words=32000):
        super().__init__()
        def linear(n, m):
            return torch.nn.Linear(n, m, bias=False)
        self.words = torch.nn.Embedding(words, width)
        self.blocks = torch.nn.ModuleList(torch.nn.ModuleList([torch.nn.RMSNorm(width), linear(width, width + 512), linear(width, width),
                                                               torch.nn.RMSNorm(width), linear(width, 2 * inner),
                                                               linear(inner, width)]) for _ in range(layers))
        self.last, self.head = torch.nn.RMSNorm(width), linear(width, words)
        angle = torch.outer(torch.arange(1024.0), 1e4 ** (-torch.arange(0, 64, 2) / 64)).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def turn(self, x, at):
        half = torch.cat((-x[..., 32:], x[..., :32]), -1)
        return x * self.cos[at:at + x.shape[2]] + half * self.sin[at:at + x.shape[2]]

    def forward(self, ids, past):
        at, x, kept = past[0][0].shape[2] if past else 0, self.words(ids), []
        for n, (first, qkv, out, second, up, down) in enumerate(self.blocks):
            q, k, v = (t.unflatten(-1, (-1, 64)).transpose(1, 2) for t in qkv(first(x)).split((768, 256, 256), -1))
            q, k = self.turn(q, at), self.turn(k, at)
            if past:
                k, v = torch.cat((past[n][0], k), 2), torch.cat((past[n][1], v), 2)
            x = x + out(F.scaled_dot_product_attention(q, k, v, is_causal=not past, enable_gqa=True).transpose(1, 2).flatten(2))
            gate, value = up(second(x)).chunk(2, -1)
            x = x + down(F.silu(gate) * value)
            kept.append((k, v))
        return self.head(self.last(x)), kept


def text(model, heads, length, before):
    past = [(random(1, heads, before, 64, scale=1), random(1, heads, before, 64, scale=1)) for _ in range(12)] if before else None
    return model.to("cuda", KIND).eval(), (torch.randint(0, 32000, (1, length), device="cuda"), past)


MODELS = {
    "bert_base": lambda: bert(1, 128), "bert_base_dynamic@batch=128,seq=128": lambda: bert(128, 128),
    "bert_large_layer": lambda: layer(8, 512, 1024, 16), "resnet50": lambda: vision("resnet50"), "vit_b_16": lambda: vision("vit_b_16"),
    "gpt2_prefill": lambda: text(Gpt(), 12, 128, 0), "gpt2_decode": lambda: text(Gpt(), 12, 1, 511),
    "llama_small_prefill": lambda: text(Llama(), 4, 128, 0), "llama_small_decode": lambda: text(Llama(), 4, 1, 511)}


# ---- times --------------------------------------------------------------------------------------------------


def time_of(function, arguments):
    """Hot: eagerly, and as a CUDA graph."""
    def run():
        return function(*arguments)
    for _ in range(3):
        run()
    graph = bench.recorded(torch, run)
    return bench.hot(torch, run), bench.hot(torch, graph) if graph else float("nan")


def compare(name, make, compiled):
    function, arguments = make()
    line = "  {} {:8.4f} eager {:8.4f} as a graph"
    print(f"{name:36}", line.format("torch", *time_of(function, arguments)), end="", flush=True)
    for mode in (["default"] + ["max-autotune-no-cudagraphs"] * (name == "bert_large_layer") if compiled else []):
        torch.compiler.reset()
        print(line.format(f"compile {mode}", *time_of(torch.compile(function, mode=mode), arguments)), end="", flush=True)
    print(flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, {KIND}, ms of the device; {bench.clocks()}")
    with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
        for name in options.names or MODELS:
            try:
                compare(name, MODELS[name], options.compile)
            except Exception as error:  # whatever a library of that machine does not have
                print(f"{name:36} skipped: {type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
