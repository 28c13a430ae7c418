"""Score how likely a language model finds what the agent did next, given a collector's context.

python score.py MODEL_FOLDER CONTEXTS.jsonl.xz SCORES.json

This file is self-contained: it needs torch, numpy, tokenizers and gguf and nothing of marksweep, so
that it can be copied to a machine with a GPU. There a row takes some thousandths of a second;
without a GPU it takes some seconds.

The model is a llama in a GGUF file. Its layers are implemented here because that is shorter than
using a library. A row's score is minus the log likelihood, in nats, of the message that the
agent wrote, first what it says and then its calls or code block.

The rows of a run begin alike: what they share is computed once. Rows of about the same length are
scored together, and the shorter ones are filled up at their end, where no token that counts can see
it.
"""

from __future__ import annotations

import json
import lzma
import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import gguf  # type: ignore[import-not-found]
import numpy as np
import torch  # type: ignore[import-not-found]
from tokenizers import Tokenizer  # type: ignore[import-not-found]
from torch import Tensor
from torch.nn import functional  # type: ignore[import-not-found]
from torch.nn.attention.bias import causal_lower_right  # type: ignore[import-not-found]

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NUMBERS = torch.bfloat16
QUERIES_AT_ONCE = 256
"""Tokens of a row whose attention is computed together. More needs more memory."""
PROBE = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
"""A question whose answer shows that the weights were read correctly."""
FENCE = "```"
TOKENS_AT_ONCE = 2**18 if DEVICE == "cuda" else 2**11
"""Tokens of a batch. More needs more memory; a GPU that is not busy is slow."""
REPORT_SECONDS = 20
"""Seconds after which a line of progress is printed and the scores so far are written."""


Seen = dict[str, tuple[Tensor, Tensor]]
"""Keys and values of the tokens so far, by layer."""


class Llama:
    """A small language model on one device."""

    def __init__(self, file: Path) -> None:
        reader = gguf.GGUFReader(file)
        self._weights = {tensor.name: self._load(tensor) for tensor in reader.tensors}
        fields = {
            name.removeprefix("llama."): field.contents() for name, field in reader.fields.items()
        }
        self.window = fields["context_length"]
        self._layers = fields["block_count"]
        self._heads = fields["attention.head_count"]
        self._key_heads = fields["attention.head_count_kv"]
        self._epsilon = fields["attention.layer_norm_rms_epsilon"]
        size = fields["rope.dimension_count"]
        steps = torch.arange(0, size, 2, device=DEVICE, dtype=torch.float32) / size
        angles = torch.outer(
            torch.arange(self.window, device=DEVICE, dtype=torch.float32),
            fields["rope.freq_base"] ** -steps,
        )
        self._cos, self._sin = angles.cos(), angles.sin()

    @staticmethod
    def _load(tensor: gguf.ReaderTensor) -> Tensor:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        shape = tensor.shape.tolist()[::-1]
        return torch.tensor(np.ascontiguousarray(values.reshape(shape)), dtype=NUMBERS).to(DEVICE)

    def _linear(self, values: Tensor, name: str) -> Tensor:
        return values @ self._weights[f"{name}.weight"].T

    def _normed(self, values: Tensor, name: str) -> Tensor:
        wide = values.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self._epsilon)
        return (wide * self._weights[f"{name}.weight"].float()).to(NUMBERS)

    def _rotated(self, values: Tensor, start: int) -> Tensor:
        """Rotate pairs of numbers, which are adjacent in a GGUF file, by their position."""
        at = slice(start, start + values.shape[-2])
        even, odd = values[..., 0::2].float(), values[..., 1::2].float()
        cos, sin = self._cos[at], self._sin[at]
        turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
        return turned.flatten(-2).to(NUMBERS)

    def _attended(self, values: Tensor, layer: str, start: int, seen: Seen) -> Tensor:
        rows, length, _ = values.shape

        def heads(name: str, count: int) -> Tensor:
            return self._linear(values, layer + name).view(rows, length, count, -1).transpose(1, 2)

        query = self._rotated(heads("attn_q", self._heads), start)
        key = self._rotated(heads("attn_k", self._key_heads), start)
        value = heads("attn_v", self._key_heads)
        if start:
            before = [each.expand(rows, -1, -1, -1) for each in seen[layer]]
            key, value = (torch.cat(pair, dim=2) for pair in zip(before, (key, value), strict=True))
        else:
            seen[layer] = key, value
        mixed = attention(query, key, value)
        return self._linear(mixed.transpose(1, 2).reshape(rows, length, -1), layer + "attn_output")

    def _hidden(self, rows: list[list[int]], start: int, seen: Seen) -> Tensor:
        """Return the last layer for rows that follow `start` tokens that were seen.

        Shorter rows are filled up at their end. Without such tokens, what is computed is written to
        `seen`.
        """
        longest = max(map(len, rows))
        filled = [row + [0] * (longest - len(row)) for row in rows]
        values = self._weights["token_embd.weight"][torch.tensor(filled, device=DEVICE)]
        for number in range(self._layers):
            layer = f"blk.{number}."
            normed = self._normed(values, layer + "attn_norm")
            values = values + self._attended(normed, layer, start, seen)
            normed = self._normed(values, layer + "ffn_norm")
            gate = functional.silu(self._linear(normed, layer + "ffn_gate"))
            inner = gate * self._linear(normed, layer + "ffn_up")
            values = values + self._linear(inner, layer + "ffn_down")
        return self._normed(values, "output_norm")

    def _logits(self, hidden: Tensor) -> Tensor:
        return (hidden @ self._weights["token_embd.weight"].T).float()

    def read(self, tokens: list[int]) -> Seen:
        """Compute what rows that begin with these tokens need of them."""
        seen: Seen = {}
        self._hidden([tokens], 0, seen)
        return seen

    def nats(
        self, rows: list[list[int]], starts: list[int], begin: int, seen: Seen
    ) -> list[list[float]]:
        """Return minus the log likelihood of each token of each row from its start on.

        The rows have their first `begin` tokens in common, which were read.
        """
        hidden = self._hidden([row[begin:] for row in rows], begin, seen)
        out = []
        for row, start, values in zip(rows, starts, hidden, strict=True):
            logits = self._logits(values[start - 1 - begin : len(row) - 1 - begin])
            wanted = torch.tensor(row[start:], device=DEVICE)
            out.append(functional.cross_entropy(logits, wanted, reduction="none"))
        return [lost.tolist() for lost in out]

    def next_token(self, tokens: list[int]) -> int:
        """Return the likeliest next token."""
        return int(self._logits(self._hidden([tokens], 0, {})[0, -1]).argmax())


def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Mix the values by how well their keys fit each query; a query sees no later key.

    The queries are those of the last keys, and several of their heads share one of the keys. On a
    GPU by the library; without one, plain steps, some queries at a time, are twice as fast.
    """
    rows, heads, length, size = query.shape
    groups, start = key.shape[1], key.shape[2] - length
    if DEVICE == "cuda":
        each = heads // groups
        key, value = key.repeat_interleave(each, dim=1), value.repeat_interleave(each, dim=1)
        seen = causal_lower_right(length, key.shape[2])
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    query = (query / size**0.5).view(rows, groups, -1, length, size)
    mixed = []
    for first in range(0, length, QUERIES_AT_ONCE):
        some = query[..., first : first + QUERIES_AT_ONCE, :]
        last, known = first + some.shape[3], start + first
        fits = some.flatten(2, 3) @ key[:, :, : start + last].transpose(-1, -2)
        later = torch.ones(last - first, last - first, dtype=torch.bool, device=DEVICE).triu(1)
        fits.view(*some.shape[:-1], -1)[..., known:].masked_fill_(later, -torch.inf)
        mixed.append((fits.softmax(-1) @ value[:, :, : start + last]).view(some.shape))
    return torch.cat(mixed, dim=3).view(rows, heads, length, size)


def action_in(said: str, calls: list[str]) -> tuple[str, str]:
    """Split a message into what it says and what it does: its calls, else from its first fence."""
    if calls:
        return (f"{said}\n" if said else ""), "\n".join(calls)
    at = said.find(FENCE)
    return (said, "") if at < 0 else (said[:at], said[at:])


class Row(NamedTuple):
    """A context and what the agent did next, in tokens."""

    tokens: list[int]
    says_at: int
    """Where what the agent says begins: all before it is the context."""
    acts_at: int
    """Where its calls or code begin."""
    named: dict[str, object]
    """Its set, run, step and collector."""


def read_rows(tokenizer: Tokenizer, file: Path) -> list[Row]:
    """Read a file of contexts."""

    @cache
    def tokens_of(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    rows = []
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        texts = json.loads(next(lines))
        for line in lines:
            named = json.loads(line)
            tokens: list[int] = []
            for role, key in named.pop("context"):
                known = role if role in ("system", "user", "assistant") else "tool"
                tokens += tokens_of(f"<|im_start|>{known}\n")
                tokens += tokens_of(texts[key])
                tokens += tokens_of("<|im_end|>\n")
            tokens += tokens_of("<|im_start|>assistant\n")
            said, done = map(tokens_of, action_in(texts[named.pop("said")], named.pop("calls")))
            says_at, acts_at = len(tokens), len(tokens) + len(said)
            rows.append(Row(tokens + said + done, says_at, acts_at, named))
    return rows


def runs(rows: list[Row], window: int) -> Iterator[list[Row]]:
    """Group rows by run, shortest first; leave out what is longer than the model's window."""
    found: dict[tuple[object, object], list[Row]] = {}
    for row in sorted(rows, key=lambda row: len(row.tokens)):
        if len(row.tokens) > window:
            print("longer than the model's window, left out:", row.named, flush=True)
        else:
            found.setdefault((row.named["set"], row.named["id"]), []).append(row)
    yield from found.values()


def shared_by(rows: list[Row]) -> int:
    """Return how many tokens of their contexts all rows begin with; the last is not counted."""
    first, last = min(row.tokens for row in rows), max(row.tokens for row in rows)
    most = min(row.says_at for row in rows) - 1
    return next((at for at in range(most) if first[at] != last[at]), most)


def batches(rows: list[Row], begin: int) -> Iterator[list[Row]]:
    """Group rows of about the same length."""
    batch: list[Row] = []
    for row in rows:
        if batch and (len(batch) + 1) * (len(row.tokens) - begin) > TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def scored(model: Llama, rows: list[Row]) -> Iterator[dict[str, object]]:
    """Score rows, run by run."""
    for run in runs(rows, model.window):
        begin = shared_by(run)
        seen = model.read(run[0].tokens[:begin]) if begin else {}
        for batch in batches(run, begin):
            tokens, starts = [row.tokens for row in batch], [row.says_at for row in batch]
            for row, nats in zip(batch, model.nats(tokens, starts, begin, seen), strict=True):
                split = row.acts_at - row.says_at
                yield row.named | {
                    "said": [sum(nats[:split]), split],
                    "done": [sum(nats[split:]), len(nats) - split],
                }


def main() -> int:
    """Score a file of contexts."""
    # Batches differ in size: without this a GPU's memory is freed and allocated for each.
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    torch.set_grad_enabled(False)
    if len(sys.argv) != 4:
        print(__doc__)
        return 2
    folder, contexts, out = map(Path, sys.argv[1:])
    model = Llama(folder / "model.gguf")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    asked = tokenizer.encode(PROBE, add_special_tokens=False).ids
    answer: list[int] = []
    for _ in range(8):
        answer.append(model.next_token(asked + answer))
    print(f"on {DEVICE}; the capital of France: {tokenizer.decode(answer)!r}", flush=True)
    rows: list[dict[str, object]] = []
    begin = reported = time.monotonic()
    for row in scored(model, read_rows(tokenizer, contexts)):
        rows.append(row)
        if time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            out.write_text(json.dumps(rows), encoding="utf-8")
            print(f"{len(rows)} rows, {reported - begin:.0f} s", flush=True)
    out.write_text(json.dumps(rows), encoding="utf-8")
    print(f"{len(rows)} rows, {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
