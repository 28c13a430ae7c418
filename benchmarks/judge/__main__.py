"""Judge strategies by a language model, on recorded runs in MARKSWEEP_DATA.

python -m benchmarks.judge                       contexts, then scores where torch finds a GPU
python -m benchmarks.judge contexts [NAME ...]   only the contexts, of these strategies
python -m benchmarks.judge others [NAME ...]     the same at 542 other steps
python -m benchmarks.judge every [NAME ...]      the same at 1,837 steps
python -m benchmarks.judge kinds [NAME ...]      kinds of runs that nothing was tuned on
python -m benchmarks.judge report SCORES.json    the tables of scores from another machine
python -m benchmarks.judge gains BEFORE.json AFTER.json NAME    what a strategy gained, in nats

Everything is written to build/judge. Where there is no GPU, the command to run on a machine that
has one is printed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.judge.contexts import (
    EVERY,
    OTHER_KINDS,
    OTHERS,
    SHARED,
    WIDER,
    WINDOW,
    Sample,
    write,
)
from benchmarks.judge.model import lay_out
from benchmarks.judge.report import gains, tables
from marksweep.replay.catalog import ECONOMY, QUALITY, canonical

FOLDER = Path("build/judge")
CONTEXTS, SCORES = FOLDER / "contexts.jsonl.xz", FOLDER / "scores.json"
COMPARED = ("truncate", ECONOMY, QUALITY, "GDSF", "superseded+mask+truncate")
SCORER = Path(__file__).with_name("score.py")
NO_GPU = """
There is no torch with a GPU here. On a machine with one (and numpy, tokenizers, gguf), in minutes,
or without a GPU in an hour or two:
  python score.py MODEL_FOLDER contexts.jsonl.xz scores.json
with {scorer}, {folder}/model.gguf, {folder}/tokenizer.json and {contexts}; then here:
  python -m benchmarks.judge report scores.json
"""


def main() -> int:
    """Run the command."""
    match sys.argv[1:]:
        case ["report", scores]:
            print(tables(Path(scores)))
        case ["gains", before, after, name]:
            print(gains(Path(before), Path(after), canonical(name)))
        case ["contexts", *names]:
            _write(names or list(COMPARED))
        case ["others", *names]:
            _write(names or list(COMPARED), OTHERS)
        case ["every", *names]:
            _write(names or list(COMPARED), EVERY)
        case ["kinds", *names]:
            _write(names or list(COMPARED), OTHER_KINDS, WIDER)
        case []:
            _write(list(COMPARED))
            lay_out(FOLDER)
            if not _has_gpu():
                print(NO_GPU.format(scorer=SCORER, folder=FOLDER, contexts=CONTEXTS))
                return 0
            command = [sys.executable, str(SCORER), str(FOLDER), str(CONTEXTS), str(SCORES)]
            subprocess.run(command, check=True)
            print(tables(SCORES))
        case _:
            print(__doc__)
            return 2
    return 0


def _write(names: list[str], samples: Mapping[str, Sample] = SHARED, window: int = WINDOW) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = write(CONTEXTS, names, window, samples)
    print(f"{rows} contexts of {', '.join(names)} and the bounds in {CONTEXTS}", flush=True)


def _has_gpu() -> bool:
    """Whether torch is installed and finds a GPU; checked in a separate process: it is large."""
    asked = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=False)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
