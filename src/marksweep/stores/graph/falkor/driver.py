"""Import the FalkorDB client packages, with a clear error if one is missing."""

from __future__ import annotations

from marksweep.errors import StoreError

try:
    from falkordb import FalkorDB  # type: ignore[import-untyped]
    from redis import exceptions as redis_errors
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as missing:
    raise StoreError(
        "a FalkorDB store needs the package falkordb: install marksweep[falkordb]."
    ) from missing

__all__ = ["FalkorDB", "NoBackoff", "Retry", "redis_errors"]
