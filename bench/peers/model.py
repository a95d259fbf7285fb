"""The benchmark's models in PyTorch, written as one would for speed: fused query-key-value projection,
scaled_dot_product_attention, loss inside the compiled module. Read from the same config files.

Parameters have Longshot's names, so that a checkpoint loads (see check.py).
"""
import math
import tomllib

import torch
import torch.nn as nn
import torch.nn.functional as F

SYMBOLS = {"reverse_string": 2}  # the placeholder's id is the number of input symbols


class Config:
    def __init__(self, path):
        with open(path, "rb") as file:
            raw = tomllib.load(file)
        model, train = raw["model"], raw["train"]
        self.dim, self.layers = model["dim"], model["layers"]
        self.heads, self.ffn = model["heads"], model["ffn"]
        self.pre_norm = model["norm"] == "pre"
        self.activation = {"relu": F.relu, "gelu": F.gelu}[model["activation"]]
        self.dropout = model["dropout"]
        self.encoding = raw["encoding"]
        self.batch, self.lr = train["batch"], train["lr"]
        self.shortest, self.longest = train["lengths"]["min"], train["lengths"]["max"]
        task = raw["task"]
        self.placeholders = task["type"] != "identity"
        self.classes = SYMBOLS[task["type"]] if self.placeholders else task["symbols"]
        self.vocabulary = self.classes + (1 if self.placeholders else 0)

    def model_lengths(self):
        scale = 2 if self.placeholders else 1
        return [scale * n for n in range(self.shortest, self.longest + 1)]

    def batch_of(self, length, generator):
        """Tokens (B, T) and targets (B, outputs) of the task at a model length."""
        if not self.placeholders:
            tokens = torch.randint(self.classes, (self.batch, length), generator=generator)
            return tokens, tokens
        symbols = torch.randint(self.classes, (self.batch, length // 2), generator=generator)
        marks = torch.full_like(symbols, self.classes)
        return torch.cat([symbols, marks], 1), symbols.flip(1).contiguous()


def linear(inputs, outputs, bias):
    layer = nn.Linear(inputs, outputs, bias=bias)
    deviation = 1 / math.sqrt(inputs)
    nn.init.trunc_normal_(layer.weight, std=deviation, a=-2 * deviation, b=2 * deviation)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.qkv, self.out = linear(c.dim, 3 * c.dim, False), linear(c.dim, c.dim, False)
        self.up, self.down = linear(c.dim, c.ffn, True), linear(c.ffn, c.dim, True)
        self.attention_norm, self.ffn_norm = nn.LayerNorm(c.dim), nn.LayerNorm(c.dim)
        self.drop = nn.Dropout(c.dropout)

    def attend(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.c.heads, d // self.c.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.drop(self.out(y.transpose(1, 2).reshape(b, t, d)))

    def feed_forward(self, x):
        return self.drop(self.down(self.c.activation(self.up(x))))

    def forward(self, x):
        if self.c.pre_norm:
            x = x + self.attend(self.attention_norm(x))
            return x + self.feed_forward(self.ffn_norm(x))
        x = self.attention_norm(x + self.attend(x))
        return self.ffn_norm(x + self.feed_forward(x))


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embedding = nn.Embedding(c.vocabulary, c.dim)
        nn.init.trunc_normal_(self.embedding.weight, std=0.02, a=-0.04, b=0.04)
        if c.encoding["type"] == "learned":
            self.positions = nn.Parameter(0.02 * torch.randn(c.encoding["capacity"], c.dim))
        else:
            assert c.encoding["type"] == "sinusoidal", c.encoding
            frequency = 10000.0 ** (-torch.arange(0, c.dim, 2, dtype=torch.float64) / c.dim)
            phase = torch.arange(2 * c.longest, dtype=torch.float64)[:, None] * frequency
            table = torch.stack([phase.sin(), phase.cos()], -1).flatten(1).float()
            self.register_buffer("positions", table, persistent=False)
        self.drop = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.final_norm = nn.LayerNorm(c.dim) if c.pre_norm else nn.Identity()
        self.head = linear(c.dim, c.classes, True)

    def logits(self, tokens):
        length = tokens.shape[1]
        x = self.drop(self.embedding(tokens) * math.sqrt(self.c.dim) + self.positions[:length])
        for block in self.blocks:
            x = block(x)
        x = self.final_norm(x)
        return self.head(x[:, length // 2:] if self.c.placeholders else x)

    def forward(self, tokens, targets):
        logits = self.logits(tokens)
        return F.cross_entropy(logits.reshape(-1, self.c.classes), targets.reshape(-1))

    def parameter_count(self):
        return sum(p.numel() for p in self.parameters())

    def longshot_names(self):
        """Longshot's path names, each with the parameter it is."""
        names = {"embedding.weight": self.embedding.weight, "head.weight": self.head.weight,
                 "head.bias": self.head.bias}
        if isinstance(self.positions, nn.Parameter):
            names["encoding.table"] = self.positions
        norms = {"final_norm": self.final_norm} if self.c.pre_norm else {}
        for i, block in enumerate(self.blocks):
            path = f"block.{i}."
            names[path + "attention.qkv.weight"] = block.qkv.weight
            names[path + "attention.out.weight"] = block.out.weight
            for name, layer in (("up", block.up), ("down", block.down)):
                names[f"{path}ffn.{name}.weight"], names[f"{path}ffn.{name}.bias"] = layer.weight, layer.bias
            norms[path + "attention_norm"], norms[path + "ffn_norm"] = block.attention_norm, block.ffn_norm
        for name, norm in norms.items():
            names[name + ".gain"], names[name + ".bias"] = norm.weight, norm.bias
        return names
