"""A tab of a real browser, driven over its debugging pipe: clicks, keys, pixels, its console."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

from tests.replay.browser import FLAGS, NAMES

WAIT_MS = 20_000
"""How long to wait for a condition in a page, on a busy machine."""

WAITS = """new Promise((done, fail) => {
  const until = performance.now() + %d;
  const look = () => {
    let found;
    try { found = %s; } catch (error) { found = false; }
    if (found) done(true);
    else if (performance.now() > until) fail(new Error("the condition never held"));
    else requestAnimationFrame(look);
  };
  look();
})"""


class Tab:
    """One tab; close it when done."""

    def __init__(self, folder: Path) -> None:
        program = next(filter(None, map(shutil.which, NAMES)), None)
        assert program, f"no browser: none of {', '.join(NAMES)} is installed."
        theirs_in, ours_out = map(_high, os.pipe())
        ours_in, theirs_out = map(_high, os.pipe())
        flags = [*FLAGS, "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}"]
        self._pid = os.posix_spawn(
            program,
            [program, *flags, "about:blank"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs_in, 3),
                (os.POSIX_SPAWN_DUP2, theirs_out, 4),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb", 0)
        self._rest = b""
        self._number = 0
        self._session = ""
        self.console: list[str] = []
        """Errors, and what the page's policy refused."""
        targets = self._send("Target.getTargets")["targetInfos"]
        page = next(each["targetId"] for each in targets if each["type"] == "page")
        attached = self._send("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._send(f"{domain}.enable")

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = self._in.read(1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.console.append(str(params["exceptionDetails"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.console.append(params["entry"]["text"])
            case _:
                pass

    def size(self, width: int, height: int = 900, *, scheme: str = "light") -> None:
        """Set the size of the window, and light or dark."""
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._send("Emulation.setEmulatedMedia", features=features)

    def go(self, url: str) -> None:
        """Load a page from a blank one."""
        self._send("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")
        self._send("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """Evaluate in the page; a promise is awaited."""
        done = self._send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in done, (expression, done["exceptionDetails"])
        return done["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a condition holds in the page."""
        self.value(WAITS % (WAIT_MS, condition))

    def click(self, selector: str) -> None:
        """Click on the middle of the first element, as a user would."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"{found} && !{found}.disabled && {found}.getClientRects().length")
        x, y = self.value(
            f"(() => {{ const e = {found}; e.scrollIntoView({{block: 'center'}}); "
            "const r = e.getBoundingClientRect(); "
            "return [r.x + r.width / 2, r.y + r.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press a key at the focus."""
        codes = {"Enter": 13, "Tab": 9, "ArrowRight": 39, "Escape": 27}
        more = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self._send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=codes[key],
                **(more if kind == "keyDown" else {}),
            )

    def type(self, text: str) -> None:
        """Type text at the focus."""
        self._send("Input.insertText", text=text)

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        found: str = self.value(f"document.querySelector({json.dumps(selector)}).textContent")
        return found

    def busy_ms(self) -> float:
        """Return how long the page's thread has worked so far, whatever the machine's load."""
        self._send("Performance.enable", timeDomain="threadTicks")
        found = {m["name"]: m["value"] for m in self._send("Performance.getMetrics")["metrics"]}
        return 1000 * float(found["TaskDuration"])

    def shot(self, *, whole: bool = False) -> bytes:
        """Return a screenshot as a PNG."""
        data = self._send("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        return base64.b64decode(data)

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        self._send("Browser.close")
        os.waitpid(self._pid, 0)
        self._out.close()
        self._in.close()


def _high(number: int) -> int:
    """Move a pipe's end to a high descriptor, because the browser uses 3 and 4."""
    moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(number)
    return moved
