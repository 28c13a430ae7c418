"""The process that reads files for another: requests come in, readings go out.

A message is its length in four bytes, and MessagePack. The process ends when its input does.
"""

from __future__ import annotations

import gc
import signal
import sys
from typing import IO

import msgspec

from marksweep.indexing.reading import Source, read

READY = b"ready"
"""The first message a worker sends."""

GC_THRESHOLD = 200_000
"""Objects between two passes of Python's own collector. Nothing here makes cycles."""

_LENGTH_BYTES = 4


def send(pipe: IO[bytes] | None, message: bytes) -> None:
    """Send one message."""
    if pipe is None:
        raise EOFError
    pipe.write(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
    pipe.flush()


def receive(pipe: IO[bytes] | None) -> bytes:
    """Receive one message; EOFError if the other side is gone."""
    if pipe is None:
        raise EOFError
    head = pipe.read(_LENGTH_BYTES)
    size = int.from_bytes(head, "big")
    message = pipe.read(size) if len(head) == _LENGTH_BYTES else b""
    if len(head) < _LENGTH_BYTES or len(message) < size:
        raise EOFError
    return message


def serve(seconds: float, requests: IO[bytes], replies: IO[bytes]) -> None:
    """Answer requests until there are no more."""
    gc.set_threshold(GC_THRESHOLD)
    decoder = msgspec.msgpack.Decoder(Source)
    encoder = msgspec.msgpack.Encoder()
    send(replies, READY)
    while True:
        try:
            source = decoder.decode(receive(requests))
        except EOFError:
            return
        _alarm(seconds)
        reading = read(source)
        _alarm(0)
        send(replies, encoder.encode(reading))


def _alarm(seconds: float) -> None:
    """Have the system end this process after so much processor time; 0 calls it off.

    No handler is set: a handler would have to wait for the C code to return.
    """
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the process that started us
    serve(float(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
