"""A real browser for the tests: a page's elements after its script ran, its console, its pixels."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import zlib
from collections import Counter
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)
SECONDS = 120
"""A browser on a busy machine may take a while to start."""

Pixel = tuple[int, int, int]


class Browser:
    """Chromium, restarted for each page, with a separate profile."""

    def __init__(self, folder: Path) -> None:
        found = next(filter(None, map(shutil.which, NAMES)), None)
        assert found, (
            f"no browser: none of {', '.join(NAMES)} is installed. The report must be looked at in "
            "a real one; install it, for example: apt-get install chromium"
        )
        self._program = found
        self._folder = folder
        self._looks = 0
        self.console: list[str] = []

    def elements(self, page: Path) -> str:
        """Return the document after its script ran, as text."""
        return self._look(page, "--dump-dom")

    def pixels(self, page: Path, width: int, height: int, *, scheme: str) -> Counter[Pixel]:
        """Count the pixels of each colour."""
        shot = self._folder / f"{page.stem}-{scheme}-{width}.png"
        dark = "0" if scheme == "dark" else "1"
        self._look(
            page,
            f"--screenshot={shot}",
            f"--window-size={width},{height}",
            f"--blink-settings=preferredColorScheme={dark}",
        )
        return colours(shot.read_bytes())

    def _look(self, page: Path, *more: str) -> str:
        self._looks += 1
        profile = self._folder / f"profile-{self._looks}"
        done = subprocess.run(
            [self._program, *FLAGS, f"--user-data-dir={profile}", *more, page.as_uri()],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"the browser failed: {done.stderr[-2000:]}"
        self.console += re.findall(r"CONSOLE.*", done.stderr)
        return done.stdout


def colours(png: bytes) -> Counter[Pixel]:
    """Count the colours of a PNG with eight bits per channel."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert depth == 8
    channels = {2: 3, 6: 4}[kind]
    data, at = b"", 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += size + 12
    raw, row, step = zlib.decompress(data), bytearray(width * channels), width * channels + 1
    found: Counter[Pixel] = Counter()
    for y in range(height):
        line = raw[y * step : (y + 1) * step]
        row = unfiltered(line[0], bytearray(line[1:]), row, channels)
        found.update(zip(row[0::channels], row[1::channels], row[2::channels], strict=True))
    return found


def unfiltered(kind: int, line: bytearray, above: bytearray, channels: int) -> bytearray:
    """Undo a PNG line's filter."""
    for i in range(len(line)):
        left = line[i - channels] if i >= channels else 0
        corner = above[i - channels] if i >= channels else 0
        if kind == 1:
            line[i] = (line[i] + left) & 255
        elif kind == 2:
            line[i] = (line[i] + above[i]) & 255
        elif kind == 3:
            line[i] = (line[i] + (left + above[i]) // 2) & 255
        elif kind == 4:
            line[i] = (line[i] + paeth(left, above[i], corner)) & 255
    return line


def paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda each: abs(guess - each))
