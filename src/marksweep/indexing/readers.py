"""Where files are parsed: in a separate process, or in this one.

Grammars are C code that gets whatever is on the disk. Some content makes them extremely slow, and
a bug in one would crash the process. So they run in a worker: it is killed when it takes too long,
the file is read as text, and the next file gets a new worker. The worker also
parses and stems while the store writes.
"""

from __future__ import annotations

import gc
import signal
import sys
from typing import Protocol

import msgspec

from marksweep.errors import MarksweepError
from marksweep.indexing.languages import language_of
from marksweep.indexing.parse import parse, parse_text
from marksweep.stores.graph.nouns import Memory, Record
from marksweep.worker import ProcessWorker, WorkerEnded, folders_of, take_pipes

PARSE_SECONDS = 5.0
"""Processor time after which a file is read as text. Valid files of the largest size
take less than 1 s."""

GC_THRESHOLD = 200_000
"""Objects between two passes of Python's own collector in a worker. Nothing there makes cycles."""

PACKAGES = ("marksweep", "msgspec", "tree_sitter")
"""What a worker imports from outside Python; the grammars are installed beside the last."""

_READY = b"ready"


class Source(msgspec.Struct, frozen=True, array_like=True):
    """A file: its memory without what parsing finds out, and its content."""

    memory: Memory
    content: bytes


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """A file's part of the graph, with the search words of its chunks."""

    record: Record
    trouble: str = ""
    """Why the grammar failed and the file was read as text; usually empty."""


class Reader(Protocol):
    """Reads one file at a time."""

    def read(self, source: Source) -> Reading:
        """Read a file; never fails because of its content."""
        ...

    def close(self) -> None:
        """Release its resources; it may be used again."""
        ...


class Inline:
    """Reads in this process: no start-up time, no protection. For tests and trusted files."""

    def read(self, source: Source) -> Reading:
        """Read a file."""
        return Reading(parse(source.memory, source.content))

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class Worker:
    """Reads in a separate process, started when first needed and restarted after it was killed."""

    def __init__(self, parse_seconds: float = PARSE_SECONDS) -> None:
        self._parse_seconds = parse_seconds
        self._process: ProcessWorker | None = None
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Reading)

    def read(self, source: Source) -> Reading:
        """Read a file; as text if its grammar fails. Texts do not start a process."""
        if self._process is None and not language_of(source.memory.relative_path).grammar:
            return Reading(parse(source.memory, source.content))
        self._process = process = self._process or self._start()
        try:
            return self._decoder.decode(process.ask(self._encoder.encode(source)))
        except WorkerEnded as ended:
            self._process = None
            text = parse_text(source.memory, source.content)
            return Reading(text, _trouble(ended.code, self._parse_seconds))

    def close(self) -> None:
        """Kill the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _start(self) -> ProcessWorker:
        process = ProcessWorker(__name__, str(self._parse_seconds), path=folders_of(*PACKAGES))
        try:
            process.greeting()
        except WorkerEnded as ended:
            raise MarksweepError(
                f"the process that parses files did not start ({ended}); its own message is on "
                f"standard error. Install marksweep[index] for this Python: {sys.executable}."
            ) from None
        return process


def _trouble(code: int, seconds: float) -> str:
    """Describe why a worker ended."""
    if code == -getattr(signal, "SIGVTALRM", 0):
        return f"parsing took more than {seconds:.0f} s of processor time; read as text"
    return f"its grammar failed (exit code {code}); read as text"


def main(seconds: str) -> None:
    """Read the files that the parent process sends, as its worker."""
    gc.set_threshold(GC_THRESHOLD)
    decoder = msgspec.msgpack.Decoder(Source)
    encoder = msgspec.msgpack.Encoder()
    requests, answer = take_pipes()
    answer(_READY)
    for request in requests:
        source = decoder.decode(request)
        _alarm(float(seconds))
        reading = Reading(parse(source.memory, source.content))
        _alarm(0)
        answer(encoder.encode(reading))


def _alarm(seconds: float) -> None:
    """Let the system kill this process after so much processor time; 0 cancels it.

    No handler is set: a handler would have to wait for the C code to return.
    """
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
