"""Starts the forge once for each test file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.forge import Forge


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    """Start a server that forks children, which do some work and are killed."""
    forge = Forge()
    yield forge
    forge.close()
