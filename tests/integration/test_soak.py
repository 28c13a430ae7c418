"""A short soak test: servers that share databases, each killed once."""

from __future__ import annotations

from benchmarks.soak import Settings, rows


def test_nothing_acknowledged_is_lost_or_duplicated_when_servers_and_databases_die() -> None:
    found = {row.what.split(",")[0]: row for row in rows(Settings(0.1, servers=2, clients=6))}
    assert found["acknowledged and lost"].measured == "0"
    assert found["duplicated"].measured == "0"
    assert not found["… while something was away"].measured.startswith("0 calls")
