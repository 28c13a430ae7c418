"""Everything in one workspace as plain JSON data, for a host's checkpoints."""

from __future__ import annotations

import msgspec

from marksweep.errors import BadInput, Refused
from marksweep.model import Entry, Event, Plan, Segment, Stashed
from marksweep.stores.base import Store, remove_all

STATE_VERSION = 1
"""Checkpoint format. Incremented when an older marksweep could not read a newer one."""

replace = msgspec.structs.replace


class Checkpoint(msgspec.Struct, frozen=True):
    """One workspace: live segments, stash, and the sweeps that can be undone."""

    version: int
    dialect: str
    segments: tuple[Segment, ...]
    stash: tuple[Stashed, ...]
    journal: tuple[Entry, ...]
    """Oldest first."""


def get_state(store: Store, workspace: str, dialect: str) -> object:
    """Return a workspace as plain JSON data."""
    with store.lock(workspace):
        live = store.segments.changes(workspace).put
        stash = tuple(store.stash.entries(workspace))
        swept = (Event.SWEEPING, Event.SWEPT)
        entries = store.journal.read(workspace, events=swept)
    names = {segment.segment_id for segment in (*live, *(entry.segment for entry in stash))}
    plans = {entry.plan_id for entry in stash}
    plans |= {entry.plan_id for entry in entries if entry.plan and _made_in(entry.plan) & names}
    checkpoint = Checkpoint(
        STATE_VERSION,
        dialect,
        tuple(sorted(live, key=lambda segment: (segment.position, segment.segment_id))),
        stash,
        tuple(entry for entry in reversed(entries) if entry.plan_id in plans),
    )
    return msgspec.to_builtins(checkpoint)


def forget(store: Store, workspace: str) -> None:
    """Delete everything in a workspace; its journal keeps a redacted record."""
    with store.lock(workspace):
        live = [segment.segment_id for segment in store.segments.changes(workspace).put]
        stash = list(store.stash.entries(workspace))
        remove_all(store.stash, workspace, stash)
        store.segments.write(workspace, remove=live)
        store.journal.redact(workspace, {*live, *(entry.segment.segment_id for entry in stash)})


def _made_in(plan: Plan) -> set[str]:
    return {step.replacement.segment_id for step in plan.steps if step.replacement is not None}


def put_state(store: Store, workspace: str, state: object) -> str:
    """Restore an empty workspace from a `get_state` result; return its dialect."""
    try:
        checkpoint = msgspec.convert(state, Checkpoint)
    except msgspec.ValidationError as error:
        raise BadInput(f"this is not a state of a conversation: {error}.") from error
    if checkpoint.version != STATE_VERSION:
        raise BadInput(
            f"the state has version {checkpoint.version}; this marksweep reads {STATE_VERSION}."
        )
    with store.lock(workspace):
        if store.segments.changes(workspace).put or store.stash.count(workspace, 1):
            raise Refused(f"workspace {workspace!r} is not empty. Name another one, or clear it.")
        for entry in checkpoint.journal:
            store.journal.append(workspace, replace(entry, seq=0))
        swept = [
            replace(entry, segment=replace(entry.segment, project_id=workspace))
            for entry in checkpoint.stash
        ]
        store.stash.put(workspace, swept)
        put = [replace(segment, project_id=workspace) for segment in checkpoint.segments]
        store.segments.write(workspace, put=put)
    return checkpoint.dialect
