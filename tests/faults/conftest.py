"""The forge is started once for each file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.forge import Forge


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    """A server that forks children to do some work and be killed at it."""
    forge = Forge()
    yield forge
    forge.close()
