"""Score how likely a language model finds what the agent did next, given a collector's context.

python score.py MODEL_FOLDER CONTEXTS.jsonl.xz SCORES.json

This file is self-contained: it needs torch, numpy, tokenizers and gguf and nothing of marksweep, so
that it can be copied to a machine with a GPU. There a row takes some hundredths of a second;
without a GPU it takes many seconds.

The model is a llama in a GGUF file. Its layers are implemented here because that is shorter than
using a library. A row's score is minus the log likelihood, in nats, of the message that the
agent wrote, first what it says and then its calls or code block.
"""

from __future__ import annotations

import json
import lzma
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import gguf  # type: ignore[import-not-found]
import numpy as np
import torch  # type: ignore[import-not-found]
from tokenizers import Tokenizer  # type: ignore[import-not-found]
from torch import Tensor
from torch.nn import functional  # type: ignore[import-not-found]

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NUMBERS = torch.bfloat16 if DEVICE == "cuda" else torch.float32
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

    def _rotated(self, values: Tensor) -> Tensor:
        """Rotate pairs of numbers, which are adjacent in a GGUF file, by their position."""
        length = values.shape[1]
        even, odd = values[..., 0::2].float(), values[..., 1::2].float()
        cos, sin = self._cos[:length], self._sin[:length]
        turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
        return turned.flatten(-2).to(NUMBERS)

    def _attended(self, values: Tensor, layer: str) -> Tensor:
        length = values.shape[0]

        def heads(name: str, count: int) -> Tensor:
            return self._linear(values, layer + name).view(length, count, -1).transpose(0, 1)

        query = self._rotated(heads("attn_q", self._heads))
        key = self._rotated(heads("attn_k", self._key_heads))
        value = heads("attn_v", self._key_heads)
        shared = self._heads // self._key_heads
        key, value = (each.repeat_interleave(shared, 0) for each in (key, value))
        seen = functional.scaled_dot_product_attention(
            query[None], key[None], value[None], is_causal=True
        )[0]
        return self._linear(seen.transpose(0, 1).reshape(length, -1), layer + "attn_output")

    def _hidden(self, tokens: Tensor) -> Tensor:
        values = self._weights["token_embd.weight"][tokens]
        for number in range(self._layers):
            layer = f"blk.{number}."
            values = values + self._attended(self._normed(values, layer + "attn_norm"), layer)
            normed = self._normed(values, layer + "ffn_norm")
            gate = functional.silu(self._linear(normed, layer + "ffn_gate"))
            inner = gate * self._linear(normed, layer + "ffn_up")
            values = values + self._linear(inner, layer + "ffn_down")
        return self._normed(values, "output_norm")

    def _logits(self, hidden: Tensor) -> Tensor:
        return (hidden @ self._weights["token_embd.weight"].T).float()

    def nats(self, tokens: list[int], start: int) -> list[float]:
        """Return minus the log likelihood of each token from `start` on."""
        row = torch.tensor(tokens, device=DEVICE)
        logits = self._logits(self._hidden(row)[start - 1 : -1])
        lost = functional.cross_entropy(logits, row[start:], reduction="none")
        return [float(each) for each in lost.cpu()]

    def next_token(self, tokens: list[int]) -> int:
        """Return the likeliest next token."""
        return int(self._logits(self._hidden(torch.tensor(tokens, device=DEVICE))[-1]).argmax())


def action_in(said: str, calls: list[str]) -> tuple[str, str]:
    """Split a message into what it says and what it does: its calls, else from its first fence."""
    if calls:
        return (f"{said}\n" if said else ""), "\n".join(calls)
    at = said.find(FENCE)
    return (said, "") if at < 0 else (said[:at], said[at:])


def scored(model: Llama, tokenizer: Tokenizer, file: Path) -> Iterator[dict[str, object]]:
    """Score every row of a file of contexts; skip a row longer than the model's window."""

    @cache
    def tokens_of(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    with lzma.open(file, "rt", encoding="utf-8") as lines:
        texts = json.loads(next(lines))
        for line in lines:
            row = json.loads(line)
            context: list[int] = []
            for role, key in row.pop("context"):
                known = role if role in ("system", "user", "assistant") else "tool"
                context += tokens_of(f"<|im_start|>{known}\n") + tokens_of(texts[key])
                context += tokens_of("<|im_end|>\n")
            context += tokens_of("<|im_start|>assistant\n")
            said, done = action_in(texts[row.pop("said")], row.pop("calls"))
            saying, doing = tokens_of(said), tokens_of(done)
            whole = context + saying + doing
            if len(whole) > model.window:
                print("longer than the model's window, left out:", row, flush=True)
                continue
            nats = model.nats(whole, len(context))
            yield row | {
                "said": [sum(nats[: len(saying)]), len(saying)],
                "done": [sum(nats[len(saying) :]), len(doing)],
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
    for row in scored(model, tokenizer, contexts):
        rows.append(row)
        if len(rows) % REPORT_EVERY == 0:
            out.write_text(json.dumps(rows), encoding="utf-8")
            print(f"{len(rows)} rows, {time.monotonic() - begin:.0f} s", flush=True)
    out.write_text(json.dumps(rows), encoding="utf-8")
    print(f"{len(rows)} rows, {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
