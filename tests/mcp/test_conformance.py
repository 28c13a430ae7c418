"""Every failure that the conformance suite may report is listed with its reason."""

from __future__ import annotations

import re
from pathlib import Path

LIST = Path(__file__).parents[2] / "tools/conformance.yml"


def test_every_expected_failure_has_a_reason_and_names_one_check() -> None:
    entries = [line for line in LIST.read_text("utf-8").splitlines() if line.startswith("  - ")]
    assert entries
    for entry in entries:
        assert re.fullmatch(r"  - [a-z0-9-]+:[a-z0-9-]+ +# \S.*", entry), entry
