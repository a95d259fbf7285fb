#!/usr/bin/env python3
"""Reference numbers for whole encoders, computed with PyTorch in double precision.

Run `python3 encoder_reference.py > encoder_reference.json` (needs torch and numpy); the C++ test
tests/nn/encoder_reference_test.cpp builds the same models and compares outputs and all gradients.

Nothing is shared with the C++ code but the description of each case and the rule for weights: parameters
sorted by name, element e of parameter p is
    u = ((e * 7919 + p * 104729 + 12345)^2 mod 1000003) / 1000003 - 0.5
and the value is 1 + 0.5 u for gains, u for everything else. The loss is the sum of logits times the same
rule with p = 1000, at real tokens only.
"""
import json
import math

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


def rule(p, shape):
    count = math.prod(shape)
    values = [((e * 7919 + p * 104729 + 12345) ** 2 % 1000003) / 1000003 - 0.5 for e in range(count)]
    return torch.tensor(values).reshape(shape)


def sinusoid(positions, width, halves):
    table = torch.zeros(positions.shape + (width,))
    for t in range(width // 2):
        phase = positions * 10000.0 ** (-2 * t / width)
        s, c = (t, width // 2 + t) if halves else (2 * t, 2 * t + 1)
        table[..., s], table[..., c] = torch.sin(phase), torch.cos(phase)
    return table


def rotate(x, positions, half):
    """x (B, H, T, D), positions (B, T): each pair of lanes as a complex number, turned."""
    width = x.shape[-1]
    frequency = 10000.0 ** (-torch.arange(0, width, 2) / width)
    turn = torch.polar(torch.ones(()), positions[:, None, :, None] * frequency)
    if half:
        pairs = torch.complex(x[..., : width // 2], x[..., width // 2:]) * turn
        return torch.cat([pairs.real, pairs.imag], -1)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], width // 2, 2).contiguous()) * turn
    return torch.view_as_real(pairs).flatten(-2)


def t5_bucket(distance, buckets, max_distance, causal):
    ahead = 0
    if causal:
        distance = max(-distance, 0)
    else:
        buckets //= 2
        ahead = buckets if distance > 0 else 0
        distance = abs(distance)
    exact = buckets // 2
    if distance < exact:
        return ahead + distance
    log = math.log(distance / exact) / math.log(max_distance / exact)
    return ahead + min(buckets - 1, exact + int(log * (buckets - exact)))


class Model:
    def __init__(self, case):
        self.case = case
        self.m = case["options"]
        self.kind = case["encoding_options"]
        m, d = self.m, self.m["dim"]
        shapes = {"embedding.weight": (case["vocabulary"], d)}
        for i in range(m["layers"]):
            b = f"block.{i}."
            shapes[b + "attention.qkv.weight"] = (3 * d, d)
            shapes[b + "attention.out.weight"] = (d, d)
            shapes[b + "ffn.up.weight"], shapes[b + "ffn.up.bias"] = (m["ffn"], d), (m["ffn"],)
            shapes[b + "ffn.down.weight"], shapes[b + "ffn.down.bias"] = (d, m["ffn"]), (d,)
            if m["attention_bias"]:
                shapes[b + "attention.qkv.bias"], shapes[b + "attention.out.bias"] = (3 * d,), (d,)
        norms = [f"block.{i}.{n}" for i in range(m["layers"]) for n in ("attention_norm", "ffn_norm")]
        if m["norm"] == "pre":
            norms.append("final_norm")
        for n in norms:
            shapes[n + ".gain"] = (d,)
            if m["norm_type"] == "layer":
                shapes[n + ".bias"] = (d,)
        if not m["tied_head"]:
            shapes["head.weight"] = (case["classes"], d)
        shapes["head.bias"] = (case["classes"],)
        shapes.update(self.encoding_shapes())
        self.w = {}
        for p, name in enumerate(sorted(shapes)):
            u = rule(p, shapes[name])
            self.w[name] = (1 + 0.5 * u if name.endswith("gain") else u).requires_grad_()

    def encoding_shapes(self):
        k, d, heads = self.kind, self.m["dim"], self.m["heads"]
        layers, head_dim = range(self.m["layers"]), self.m["dim"] // heads
        if k["type"] == "learned":
            return {"encoding.table": (k["capacity"], d)}
        if k["type"] == "t5":
            return {"encoding.table": (k["buckets"], heads)}
        if k["type"] == "transformer_xl":
            return {f"encoding.layer.{i}.{n}": s for i in layers for n, s in
                    (("content_bias", (heads, head_dim)), ("position_bias", (heads, head_dim)),
                     ("position.weight", (d, d)))}
        if k["type"] == "shaw":
            return {f"encoding.layer.{i}.{n}": (2 * k["clip"] + 1, head_dim)
                    for i in layers for n in ("key", "value")}
        return {}

    def norm(self, x, name):
        gain, d = self.w[name + ".gain"], self.m["dim"]
        if self.m["norm_type"] == "rms":
            return F.rms_norm(x, (d,), gain, 1e-5)
        return F.layer_norm(x, (d,), gain, self.w[name + ".bias"], 1e-5)

    def attention(self, x, layer):
        w, k, heads = self.w, self.kind, self.m["heads"]
        batch, length, d = x.shape
        head_dim = d // heads
        name = f"block.{layer}.attention."
        qkv = F.linear(x, w[name + "qkv.weight"], w.get(name + "qkv.bias"))
        q, key, v = (part.reshape(batch, length, heads, head_dim).transpose(1, 2)
                     for part in qkv.split(d, -1))
        if k["type"] == "rope":
            half = k["pairing"] == "half"
            q, key = rotate(q, self.positions, half), rotate(key, self.positions, half)
        logits = torch.einsum("bhid,bhjd->bhij", q, key) / math.sqrt(head_dim)
        distance = self.positions[:, None, :] - self.positions[:, :, None]  # (B, i, j): p_j - p_i
        if self.m["log_n_scaling"]:
            n = self.real.sum(1)[:, None].expand(batch, length)
            if self.m["causal"]:
                n = (self.positions + 1)
            logits = logits * torch.log(n.to(torch.float64))[:, None, :, None]
        if k["type"] == "alibi":
            slopes = torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)])
            logits = logits - slopes[None, :, None, None] * distance.abs()[:, None]
        if k["type"] == "t5":
            index = [[[t5_bucket(int(x), k["buckets"], k["max_distance"], self.m["causal"]) for x in row]
                      for row in matrix] for matrix in distance.tolist()]
            logits = logits + w["encoding.table"][torch.tensor(index)].permute(0, 3, 1, 2)
        if k["type"] == "transformer_xl":
            e = f"encoding.layer.{layer}."
            u, bias = w[e + "content_bias"], w[e + "position_bias"]
            r = F.linear(sinusoid(-distance, d, True), w[e + "position.weight"])
            r = r.reshape(batch, length, length, heads, head_dim)
            logits = (torch.einsum("bhid,bhjd->bhij", q + u[:, None], key) +
                      torch.einsum("bhid,bijhd->bhij", q + bias[:, None], r)) / math.sqrt(head_dim)
        if k["type"] == "shaw":
            index = distance.long().clamp(-k["clip"], k["clip"]) + k["clip"]
            a = w[f"encoding.layer.{layer}.key"][index]
            logits = logits + torch.einsum("bhid,bijd->bhij", q, a) / math.sqrt(head_dim)
        seen = self.real[:, None, None, :].expand(batch, heads, length, length)
        if self.m["causal"]:
            seen = seen & torch.ones(length, length, dtype=torch.bool).tril()
        weights = torch.softmax(logits.masked_fill(~seen, -1e300), -1)
        out = torch.einsum("bhij,bhjd->bihd", weights, v)
        if k["type"] == "shaw":
            a = w[f"encoding.layer.{layer}.value"][index]
            out = out + torch.einsum("bhij,bijd->bihd", weights, a)
        return F.linear(out.reshape(batch, length, d), w[name + "out.weight"], w.get(name + "out.bias"))

    def ffn(self, x, layer):
        w, name = self.w, f"block.{layer}.ffn."
        x = F.linear(x, w[name + "up.weight"], w[name + "up.bias"])
        x = {"relu": F.relu, "gelu": F.gelu,
             "gelu_tanh": lambda y: F.gelu(y, approximate="tanh")}[self.m["activation"]](x)
        return F.linear(x, w[name + "down.weight"], w[name + "down.bias"])

    def forward(self):
        case, m, w, k = self.case, self.m, self.w, self.kind
        tokens = torch.tensor(case["tokens"]).reshape(case["batch"], case["length"])
        index = torch.arange(case["length"])[None]
        lengths = torch.tensor(case["lengths"])[:, None]
        first = case["length"] - lengths if case["left_padded"] else torch.zeros_like(lengths)
        self.real = (index >= first) & (index < first + lengths)
        self.positions = (index - first).clamp(min=0).to(torch.float64)
        x = w["embedding.weight"][tokens] * (math.sqrt(m["dim"]) if m["embedding_scale"] else 1)
        if k["type"] == "sinusoidal":
            x = x + sinusoid(self.positions, m["dim"], k["layout"] == "halves")
        if k["type"] == "learned":
            x = x + w["encoding.table"][self.positions.long()]
        for i in range(m["layers"]):
            b = f"block.{i}."
            if m["norm"] == "post":
                x = self.norm(x + self.attention(x, i), b + "attention_norm")
                x = self.norm(x + self.ffn(x, i), b + "ffn_norm")
            else:
                x = x + self.attention(self.norm(x, b + "attention_norm"), i)
                x = x + self.ffn(self.norm(x, b + "ffn_norm"), i)
        if m["norm"] == "pre":
            x = self.norm(x, "final_norm")
        counts = self.real
        if case["mean_pool"]:
            x = (x * self.real[..., None]).sum(1, keepdim=True) / lengths[..., None]
            counts = torch.ones(case["batch"], 1, dtype=torch.bool)
        elif case["outputs"] > 0:
            span = slice(case["output_begin"], case["output_begin"] + case["outputs"])
            x, counts = x[:, span], counts[:, span]
        head = w["embedding.weight"][: case["classes"]] if m["tied_head"] else w["head.weight"]
        logits = F.linear(x, head, w["head.bias"])
        loss = (logits * rule(1000, logits.shape) * counts[..., None]).sum()
        loss.backward()
        return logits, counts


OPTIONS = {"dim": 8, "layers": 2, "heads": 2, "ffn": 12, "norm": "post", "norm_type": "layer",
           "activation": "relu", "causal": False, "log_n_scaling": False, "attention_bias": False,
           "embedding_scale": True, "tied_head": False}
FULL, RAGGED = [7, 7, 7], [7, 5, 3]


def toml(table):
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())


def case(name, encoding, lengths=FULL, **changes):
    result = {"name": name, "vocabulary": 5, "classes": 3, "batch": 3, "length": 7, "lengths": lengths,
              "tokens": [(7 * i * i // 3 + i) % 5 for i in range(21)], "left_padded": False,
              "mean_pool": False, "output_begin": 0, "outputs": 0}
    options = dict(OPTIONS)
    for key, value in changes.items():
        (options if key in options else result)[key] = value
    result.update(options=options, encoding_options=encoding, model=toml(options), encoding=toml(encoding))
    return result


CASES = [
    case("none, post-norm, right padding", {"type": "none"}, RAGGED),
    case("sinusoidal, GELU, predictions on a span", {"type": "sinusoidal", "layout": "halves"},
         activation="gelu", output_begin=4, outputs=3),
    case("learned, pre-norm, no embedding scale", {"type": "learned", "capacity": 9}, norm="pre",
         embedding_scale=False),
    case("rope, causal, RMS norm, tanh GELU", {"type": "rope", "pairing": "interleaved"}, norm="pre",
         norm_type="rms", activation="gelu_tanh", causal=True),
    case("rope by halves, left padding, mean pooling, tied head, ln n",
         {"type": "rope", "pairing": "half"}, RAGGED, left_padded=True, mean_pool=True, tied_head=True,
         log_n_scaling=True),
    case("alibi, attention biases, right padding", {"type": "alibi", "variant": "symmetric"}, RAGGED,
         attention_bias=True),
    case("t5, pre-norm", {"type": "t5", "buckets": 8, "max_distance": 6}, norm="pre"),
    case("t5, causal, ln n", {"type": "t5", "buckets": 6, "max_distance": 5}, causal=True,
         log_n_scaling=True),
    case("transformer_xl, left padding", {"type": "transformer_xl"}, RAGGED, left_padded=True),
    case("shaw with values, causal, right padding", {"type": "shaw", "clip": 2, "values": True}, RAGGED,
         causal=True),
]


def numbers(tensor):
    return [float(f"{x:.9g}") for x in tensor.detach().flatten().tolist()]


def main():
    results = []
    for description in CASES:
        model = Model(description)
        logits, counts = model.forward()
        keep = ("name vocabulary classes batch length lengths tokens left_padded mean_pool output_begin "
                "outputs model encoding").split()
        result = {key: description[key] for key in keep}
        result["logits"] = numbers(logits)
        result["counts"] = [int(x) for x in counts.flatten()]
        result["gradients"] = {name: numbers(model.w[name].grad) for name in sorted(model.w)}
        results.append(result)
    print("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in results) + "\n]")


if __name__ == "__main__":
    main()
