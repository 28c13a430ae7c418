"""URLs are shown without credentials, in every error and in every spelling."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep import errors
from marksweep.errors import MarksweepError
from marksweep.urls import redacted

SECRET = "hunter2"  # noqa: S105


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:hunter2@host:6379/0", "redis://***@host:6379/0"),
        ("falkordbs://me:hunter2@[::1]:6379", "falkordbs://***@[::1]:6379"),
        ("https://hunter2@api.example/v1", "https://***@api.example/v1"),
        ("redis://me:a@hunter2@host/1", "redis://***@host/1"),
        ("redis://:a/hunter2@host/1", "redis://***@host/1"),
        ("redis://:1/hunter2@host/1", "redis://***@host/1"),
        ("redis://me:a?b#hunter2@host/1", "redis://***@host/1"),
        ("redis://me:it's\"hunter2@host/1", "redis://***@host/1"),
        ("http://h/v1?model=x&api_key=hunter2", "http://h/v1?model=x&api_key=***"),
        ("http://h/v1?X-Amz-Signature=hunter2&a=1", "http://h/v1?X-Amz-Signature=***&a=1"),
        ("redis://h?username=me&password=hunter2", "redis://h?username=***&password=***"),
        ("http://h/cb#access_token=hunter2", "http://h/cb#access_token=***"),
    ],
)
def test_credentials_are_masked_and_the_host_stays(url: str, shown: str) -> None:
    assert redacted(url) == shown
    assert redacted(f"no server at {url}, nor at '{url}'.") == (
        f"no server at {shown}, nor at '{shown}'."
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://registry.example/@scope/name?version=3",
        "redis://host:6379/0",
        "http://[::1]:8722/mcp",
        "falkordb:folder",
        "sqlite:////var/lib/store.db",
        "mail me@example.org about http://example.org",
        "marksweep doctor --store project.db --password=visible",
    ],
)
def test_what_carries_no_credentials_is_left_as_it_is(text: str) -> None:
    assert redacted(text) == text


PASSWORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"])).map(
    lambda text: f"{text}{SECRET}{text}"
)


@given(password=PASSWORDS, user=st.sampled_from(["", "me"]))
def test_no_escaped_password_is_ever_shown(password: str, user: str) -> None:
    url = f"redis://{user}:{quote(password, safe='')}@host:6379/0"
    assert redacted(f"no server at {url}: gone") == "no server at redis://***@host:6379/0: gone"


def every_error(kind: type[MarksweepError] = MarksweepError) -> Iterator[type[MarksweepError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from every_error(below)


@pytest.mark.parametrize("kind", list(every_error()))
def test_no_error_shows_a_password_even_if_whoever_raised_it_forgot(
    kind: type[MarksweepError],
) -> None:
    error = kind("no server at redis://:hunter2@host:6379. Start it.")
    assert str(error) == "no server at redis://***@host:6379. Start it."
    assert SECRET not in repr(error)
