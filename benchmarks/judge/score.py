"""Score how likely a language model finds what the agent did next, given a collector's context.

python score.py MODEL_FOLDER CONTEXTS.jsonl.xz SCORES.json

This file is self-contained: it needs torch, numpy, tokenizers and gguf and nothing of marksweep, so
that it can be copied to a machine with a GPU. There a row takes some hundredths of a second;
without a GPU it takes some seconds.

The model is a llama in a GGUF file. Its layers are implemented here because that is shorter than
using a library. A row's score is minus the log likelihood, in nats, of the message that the
agent wrote, first what it says and then its calls or code block.

The contexts of a run share their beginning. Rows are scored in an order in which neighbours share
most, and what the model computed for the shared tokens of the row before is used again.
"""

from __future__ import annotations

import json
import lzma
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

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NUMBERS = torch.bfloat16
PROBE = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
"""A question whose answer shows that the weights were read correctly."""
FENCE = "```"
REPORT_EVERY = 250
"""Rows after which a line of progress is printed and the scores so far are written."""


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
        self._last: list[int] = []
        """The tokens of the last row, whose keys and values are kept, by layer."""
        self._kept: dict[str, tuple[Tensor, Tensor]] = {}

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
        end = start + values.shape[1]
        even, odd = values[..., 0::2].float(), values[..., 1::2].float()
        cos, sin = self._cos[start:end], self._sin[start:end]
        turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
        return turned.flatten(-2).to(NUMBERS)

    def _attended(self, values: Tensor, layer: str, start: int) -> Tensor:
        length = values.shape[0]

        def heads(name: str, count: int) -> Tensor:
            return self._linear(values, layer + name).view(length, count, -1).transpose(0, 1)

        query = self._rotated(heads("attn_q", self._heads), start)
        key = self._rotated(heads("attn_k", self._key_heads), start)
        value = heads("attn_v", self._key_heads)
        if start:
            old_key, old_value = self._kept[layer]
            key = torch.cat((old_key[:, :start], key), dim=1)
            value = torch.cat((old_value[:, :start], value), dim=1)
        self._kept[layer] = key, value
        shared = self._heads // self._key_heads
        key, value = (each.repeat_interleave(shared, 0) for each in (key, value))
        mask = torch.ones(length, start + length, dtype=torch.bool, device=DEVICE).tril(start)
        seen = functional.scaled_dot_product_attention(
            query[None], key[None], value[None], attn_mask=mask
        )[0]
        return self._linear(seen.transpose(0, 1).reshape(length, -1), layer + "attn_output")

    def _hidden(self, tokens: list[int], start: int) -> Tensor:
        """Return the last layer from `start` on; what is before it is as in the last row."""
        values = self._weights["token_embd.weight"][torch.tensor(tokens[start:], device=DEVICE)]
        for number in range(self._layers):
            layer = f"blk.{number}."
            normed = self._normed(values, layer + "attn_norm")
            values = values + self._attended(normed, layer, start)
            normed = self._normed(values, layer + "ffn_norm")
            gate = functional.silu(self._linear(normed, layer + "ffn_gate"))
            inner = gate * self._linear(normed, layer + "ffn_up")
            values = values + self._linear(inner, layer + "ffn_down")
        self._last = tokens
        return self._normed(values, "output_norm")

    def _logits(self, hidden: Tensor) -> Tensor:
        return (hidden @ self._weights["token_embd.weight"].T).float()

    def nats(self, tokens: list[int], start: int) -> list[float]:
        """Return minus the log likelihood of each token from `start` on."""
        known = min(_shared(tokens, self._last), start - 1)
        logits = self._logits(self._hidden(tokens, known)[start - 1 - known : -1])
        wanted = torch.tensor(tokens[start:], device=DEVICE)
        lost = functional.cross_entropy(logits, wanted, reduction="none")
        return [float(each) for each in lost.cpu()]

    def next_token(self, tokens: list[int]) -> int:
        """Return the likeliest next token."""
        return int(self._logits(self._hidden(tokens, 0)[-1]).argmax())


def _shared(one: list[int], other: list[int]) -> int:
    """Return how many tokens two rows share at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def action_in(said: str, calls: list[str]) -> tuple[str, str]:
    """Split a message into what it says and what it does: its calls, else from its first fence."""
    if calls:
        return (f"{said}\n" if said else ""), "\n".join(calls)
    at = said.find(FENCE)
    return (said, "") if at < 0 else (said[:at], said[at:])


class Row(NamedTuple):
    """A context and what the agent did next, in tokens. Sorted, neighbours share most."""

    run: tuple[str, str]
    context: list[int]
    saying: list[int]
    doing: list[int]
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
            context: list[int] = []
            for role, key in named.pop("context"):
                known = role if role in ("system", "user", "assistant") else "tool"
                context += tokens_of(f"<|im_start|>{known}\n") + tokens_of(texts[key])
                context += tokens_of("<|im_end|>\n")
            context += tokens_of("<|im_start|>assistant\n")
            said, done = action_in(texts[named.pop("said")], named.pop("calls"))
            run = named["set"], named["id"]
            rows.append(Row(run, context, tokens_of(said), tokens_of(done), named))
    return sorted(rows, key=lambda row: (row.run, row.context, row.saying))


def scored(model: Llama, rows: list[Row]) -> Iterator[dict[str, object]]:
    """Score rows; skip those that are longer than the model's window."""
    for row in rows:
        whole = row.context + row.saying + row.doing
        if len(whole) > model.window:
            print("longer than the model's window, left out:", row.named, flush=True)
            continue
        nats = model.nats(whole, len(row.context))
        split = len(row.saying)
        yield row.named | {
            "said": [sum(nats[:split]), split],
            "done": [sum(nats[split:]), len(row.doing)],
        }


def main() -> int:
    """Score a file of contexts."""
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
    begin = time.monotonic()
    for row in scored(model, read_rows(tokenizer, contexts)):
        rows.append(row)
        if len(rows) % REPORT_EVERY == 0:
            out.write_text(json.dumps(rows), encoding="utf-8")
            print(f"{len(rows)} rows, {time.monotonic() - begin:.0f} s", flush=True)
    out.write_text(json.dumps(rows), encoding="utf-8")
    print(f"{len(rows)} rows, {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
