"""The page and its JSON over HTTP: one set of routes for `web`, `serve --http` and `proxy`.

The page's own files contain no user data, so anybody may load them. Its JSON is restricted:
the request must name this host, come from this page and not from another site, and carry the
bearer token if there is one. Reads are GET; changes are POST.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from marksweep.dialects.base import NO_JSON, spelled
from marksweep.errors import BadInput, MarksweepError, NotFound, Refused
from marksweep.model import Plan, Stashed, Step
from marksweep.web.bearer import BearerTokens, given_token
from marksweep.web.heaps import Heaps
from marksweep.web.picture import Shown, picture
from marksweep.web.sources import Detail, Source
from marksweep.web.tiles import By, Tile

PATH = "/marksweep"
"""Path of the page, on every server: no provider has such a path."""

LOOPBACK = ("127.0.0.1:*", "localhost:*", "[::1]:*")
"""Host headers of requests that are meant for this machine; * is any port."""

FILES = {
    "": "page.html",
    "page.css": "page.css",
    "page.js": "page.js",
    "picture.css": "picture.css",
}
"""The page's files, by the path below PATH."""

PUBLIC = frozenset({PATH, *(f"{PATH}/{name}" for name in FILES)})
"""Paths that need no token: they contain no user data."""

_PORT = re.compile(r":\d*$", re.ASCII)
"""The port in a Host header. Clients omit that of HTTP, 80."""

MAX_BODY = 100_000
"""Largest request, in bytes."""

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
"""All methods: requests below PATH are never forwarded."""

MAX_ROWS = 100
"""Rows of a list in one answer; the page asks for more."""

MAX_STEPS = 30
"""Steps of a plan that are shown, the largest first. All of them are collected."""

MAX_TEXT = 20_000
"""Characters of a text that are shown."""

MAX_SWEPT_TEXT = 600
"""Characters of a swept text that a list shows."""

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers for browsers: load nothing from elsewhere, run only our script, cache nothing."""


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a change request."""

    heap: str
    plan_id: str = ""
    names: tuple[str, ...] = ()
    target: int | None = None


class Rows(msgspec.Struct, frozen=True):
    """Some tiles of a heap."""

    tiles: tuple[Tile, ...]
    total: int


class PlanShown(msgspec.Struct, frozen=True):
    """A plan with its largest steps."""

    plan: Plan
    steps: int
    """How many the whole plan has."""
    deletes: bool
    labels: dict[str, str]
    """Label of the first segment of each step, by name, if it is live."""


class Door:
    """Decides who may use the JSON."""

    def __init__(
        self, *, hosts: Sequence[str] = LOOPBACK, tokens: BearerTokens | None = None
    ) -> None:
        """Take the Host headers to accept, `*` for any port, and the bearer tokens, if any."""
        self._hosts = tuple(hosts)
        self._tokens = tokens

    def check(self, request: Request) -> Response | None:
        """Return a refusal, or None to admit the request."""
        headers = request.headers
        host = headers.get("host", "")
        if host not in self._hosts and f"{_PORT.sub('', host)}:*" not in self._hosts:
            advice = f"Open the printed address, or start the server with --allow-host {host}."
            return _said(421, f"this is not {host!r}. {advice}")
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "none")
        own = (None, f"http://{host}", f"https://{host}")
        if origin not in own or site not in ("same-origin", "none"):
            return _said(403, "this request comes from another site. Open the page itself.")
        if self._tokens is not None and not self._tokens.admit(given_token(headers)):
            return no_valid_token()
        kind = headers.get("content-type", "").partition(";")[0].strip()
        if request.method == "POST" and kind != "application/json":
            return _said(415, f"the body is {kind or 'nothing'}; expected application/json.")
        return None


def routes(heaps: Callable[[Request], Heaps], door: Door) -> list[Route]:
    """Return the routes; `heaps` returns what the caller of a request may see."""

    def answering(work: Work) -> Endpoint:
        async def answer(request: Request) -> Response:
            refused = door.check(request)
            if refused is not None:
                return refused
            try:
                return await work(request, heaps(request))
            except MarksweepError as error:
                return _said(_status(error), str(error))

        return answer

    async def to_page(_: Request) -> Response:
        return RedirectResponse(f"{PATH}/")

    async def nothing(request: Request) -> Response:
        return _said(404, f"there is no {request.method} {request.url.path}.")

    api = f"{PATH}/api"
    return [
        Route(PATH, to_page, methods=["GET"]),
        *(Route(f"{PATH}/{name}", _file(name), methods=["GET"]) for name in FILES),
        *(Route(f"{api}/{name}", answering(work), methods=["GET"]) for name, work in LOOKS.items()),
        *(
            Route(f"{api}/{name}", answering(work), methods=["POST"])
            for name, work in CHANGES.items()
        ),
        Route(f"{PATH}/{{rest:path}}", nothing, methods=METHODS),
    ]


Asked = Mapping[str, str]
"""The parameters of a request."""
Work = Callable[[Request, Heaps], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


def _file(name: str) -> Endpoint:
    async def file(_: Request) -> Response:
        return FileResponse(Path(__file__).with_name(FILES[name]), headers=HEADERS)

    return file


def no_valid_token() -> Response:
    """Answer a request without a valid token."""
    return _said(401, "no valid token. Open the printed address, including the part after #.")


def _said(status: int, words: str) -> Response:
    return _json({"error": words}, status)


def _json(value: object, status: int = 200, **headers: str) -> Response:
    return Response(spelled(value), status, {**HEADERS, **headers}, media_type="application/json")


def _status(error: MarksweepError) -> int:
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, Refused):
        return 409
    return 400 if isinstance(error, BadInput) else 503


def _heap(asked: Asked) -> str:
    return asked.get("heap", "")


async def _view(request: Request, heaps: Heaps) -> Response:
    """Return a view, or 304 if the page already has it."""
    heap = _heap(request.query_params)
    version = await run_in_threadpool(heaps.version, heap)
    if request.headers.get("if-none-match") == f'"{version}"':
        return Response(status_code=304, headers=HEADERS)
    view = await run_in_threadpool(heaps.view, heap)
    return _json(view, ETag=f'"{view.version}"')


async def _picture(request: Request, heaps: Heaps) -> Response:
    asked = request.query_params
    by = _by(asked.get("by", By.KIND))
    width = _number(asked.get("width", "900"), "width")

    def draw() -> str:
        heap, plan_id = _heap(asked), asked.get("plan", "")
        with heaps.open(heap) as source:
            plan = source.saved(plan_id) if plan_id else None
        title = next(each.title for each in heaps.list() if each.heap == heap)
        return picture(Shown(heaps.look(heap), title, by, plan), width)

    drawn = await run_in_threadpool(draw)
    return Response(drawn, headers=HEADERS, media_type="image/svg+xml")


def _looking(work: Callable[[Asked, Heaps], object]) -> Work:
    """Look something up in a thread, and return it as JSON."""

    async def look(request: Request, heaps: Heaps) -> Response:
        return _json(await run_in_threadpool(work, request.query_params, heaps))

    return look


def _tiles(asked: Asked, heaps: Heaps) -> Rows:
    """Return tiles, largest first, or best match first for words; of one state if given."""
    offset = _number(asked.get("offset", "0"), "offset")
    words, state = asked.get("words", "").strip(), asked.get("state", "")
    tiles: Sequence[Tile] = heaps.look(_heap(asked)).tiles
    if words:
        with heaps.open(_heap(asked)) as source:
            names = source.find(words, MAX_ROWS)
        known = {tile.name: tile for tile in tiles}
        tiles = [known[name] for name in names if name in known]
    if state:
        tiles = [tile for tile in tiles if tile.state == state]
    if not words:
        tiles = sorted(tiles, key=lambda tile: (-tile.size, tile.name))
    return Rows(tuple(tiles[offset : offset + MAX_ROWS]), len(tiles))


def _segment(asked: Asked, heaps: Heaps) -> Detail:
    with heaps.open(_heap(asked)) as source:
        found = source.read(asked.get("name", ""))
    text = found.segment.text
    cut = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    return replace(found, segment=replace(found.segment, text=cut, raw=""))


def _swept(asked: Asked, heaps: Heaps) -> list[Stashed]:
    with heaps.open(_heap(asked)) as source:
        entries = source.swept(asked.get("words", "").strip(), MAX_ROWS)
    shorter = (replace(e.segment, text=e.segment.text[:MAX_SWEPT_TEXT], raw="") for e in entries)
    return [replace(e, segment=segment) for e, segment in zip(entries, shorter, strict=True)]


def _plan_by_id(asked: Asked, heaps: Heaps) -> PlanShown:
    with heaps.open(_heap(asked)) as source:
        plan = source.saved(asked.get("plan", ""))
    return _shown(plan, heaps.look(_heap(asked)).tiles)


def _shown(plan: Plan, tiles: Sequence[Tile]) -> PlanShown:
    steps: list[Step] = sorted(plan.steps, key=lambda step: -step.size)[:MAX_STEPS]
    short = tuple(replace(step, replacement=None) for step in steps)
    first = {step.segments[0] for step in short}
    labels = {tile.name: tile.label for tile in tiles if tile.name in first}
    return PlanShown(replace(plan, steps=short), len(plan.steps), plan.deletes, labels)


def _changing(work: Callable[[Source, Wanted], object]) -> Work:
    """Parse the request, and change a heap in a thread."""

    async def change(request: Request, heaps: Heaps) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                return _said(413, f"the body has more than {MAX_BODY:,} bytes.")
        try:
            wanted = msgspec.json.decode(bytes(body), type=Wanted)
        except NO_JSON as error:
            raise BadInput(f"the body cannot be read: {error}.") from error

        def changed() -> object:
            with heaps.open(wanted.heap) as source:
                done = work(source, wanted)
            return _shown(done, heaps.look(wanted.heap).tiles) if isinstance(done, Plan) else done

        return _json(await run_in_threadpool(changed))

    return change


LOOKS: dict[str, Work] = {
    "heaps": _looking(lambda _, heaps: heaps.list()),
    "view": _view,
    "picture": _picture,
    "tiles": _looking(_tiles),
    "segment": _looking(_segment),
    "swept": _looking(_swept),
    "plan": _looking(_plan_by_id),
}

CHANGES: dict[str, Work] = {
    "plan": _changing(lambda source, wanted: source.plan(wanted.target)),
    "collect": _changing(lambda source, wanted: source.collect(wanted.plan_id)),
    "undo": _changing(lambda source, wanted: source.undo(wanted.plan_id)),
    "restore": _changing(lambda source, wanted: source.restore(wanted.names)),
    "pin": _changing(lambda source, wanted: source.pin(wanted.names)),
    "unpin": _changing(lambda source, wanted: source.unpin(wanted.names)),
}


def _by(value: str) -> By:
    try:
        return By(value)
    except ValueError:
        raise BadInput(f"by is {value!r}; expected {', '.join(By)}.") from None


def _number(value: str, name: str) -> int:
    if not value.isdecimal() or len(value) > 9:
        raise BadInput(f"{name} is {value!r}; expected a whole number.")
    return int(value)
