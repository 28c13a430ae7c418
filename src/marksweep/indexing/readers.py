"""Who reads files: a process of its own, or this one.

Grammars are C code that is fed whatever lies on the disk. Some content makes them slow beyond
measure, and a bug in one would end the process. So they run in a worker: it is stopped when it
takes too long, the file is read as text, and the next file gets a new worker. The worker also
parses while the store writes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Protocol

import msgspec

from marksweep.errors import MarksweepError
from marksweep.indexing import worker
from marksweep.indexing.languages import language_of
from marksweep.indexing.reading import Reading, Source, read, read_as_text
from marksweep.indexing.worker import READY, receive, send

PARSE_SECONDS = 5.0
"""Processor time after which a file is read as text. Sound files of the largest size
take less than 1 s."""


ENDING_SECONDS = 5.0
"""How long a worker that closed its output may take to end by itself, and so say why."""


class Reader(Protocol):
    """Reads one file at a time."""

    def read(self, source: Source) -> Reading:
        """Read a file; never fails because of its content."""
        ...

    def close(self) -> None:
        """Let go of what it holds; it may be used again."""
        ...


class Inline:
    """Reads in this process: no start-up time, no protection. For tests and trusted files."""

    def read(self, source: Source) -> Reading:
        """Read a file."""
        return read(source)

    def close(self) -> None:
        """Nothing is held."""


class Worker:
    """Reads in a process of its own, started when first needed and again after it was stopped."""

    def __init__(self, parse_seconds: float = PARSE_SECONDS) -> None:
        self._parse_seconds = parse_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Reading)

    def read(self, source: Source) -> Reading:
        """Read a file; as text if its grammar fails."""
        if not language_of(source.path).grammar:
            return read(source)
        process = self._process or self._start()
        try:
            send(process.stdin, self._encoder.encode(source))
            return self._decoder.decode(receive(process.stdout))
        except (OSError, EOFError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDING_SECONDS)
            self.close()
            return read_as_text(source, _trouble(process.returncode, self._parse_seconds))

    def close(self) -> None:
        """Stop the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is not None:
            for pipe in filter(None, (process.stdin, process.stdout)):
                with contextlib.suppress(OSError):
                    pipe.close()
            process.kill()
            process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(  # noqa: S603  (our own module)
            [sys.executable, "-m", worker.__name__, str(self._parse_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._process = process
        with contextlib.suppress(OSError, EOFError):
            if receive(process.stdout) == READY:
                return process
        self.close()
        raise MarksweepError(
            f"the process that parses files did not start (exit code {process.returncode}); its "
            "own message is on standard error. Install marksweep[index] for this Python: "
            f"{sys.executable}."
        )


def _trouble(code: int, seconds: float) -> str:
    """Say why a worker ended."""
    if code == -getattr(signal, "SIGVTALRM", 0):
        return f"parsing took more than {seconds:.0f} s of processor time; read as text"
    return f"its grammar failed (exit code {code}); read as text"
