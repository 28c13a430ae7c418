from __future__ import annotations

import pytest

from tests.mcp.support import MODES


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Each protocol in turn."""
    return str(request.param)
