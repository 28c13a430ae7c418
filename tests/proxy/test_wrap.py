"""Runs a client through a proxy. The client here is a script; `make clients` runs the real ones."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from marksweep.errors import BadInput
from marksweep.proxy import wrapping
from marksweep.proxy.clients import CLIENTS, Place
from marksweep.proxy.wrapping import Supervised, Wrapped
from tests.clients.__main__ import proxies_of
from tests.clients.upstream import Upstream, serving
from tests.proxy.test_proxy import proxy, work

SCRIPT = """#!{python}
import json, os, sys, urllib.request
base = os.environ.get("ANTHROPIC_BASE_URL", "")
found = {{"arguments": sys.argv[1:], "base": base, "files": {{}}}}
for flag in ("--mcp-config", "--settings"):
    if flag in sys.argv:
        found["files"][flag] = json.load(open(sys.argv[sys.argv.index(flag) + 1]))
for body in json.load(open("bodies.json")):
    request = urllib.request.Request(base + "/v1/messages", json.dumps(body).encode())
    urllib.request.urlopen(request).read()
print(json.dumps(found))
sys.exit(7)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Make a folder with a client named claude in it."""
    script = tmp_path / "bin" / "claude"
    script.parent.mkdir()
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    history = work("a wrapped task", 30)
    bodies = [{"model": "m", "messages": history[:end]} for end in range(1, len(history) + 1, 2)]
    (tmp_path / "bodies.json").write_text(json.dumps(bodies))
    return tmp_path


LOOKING = """#!{python}
import json, os, subprocess, sys
from pathlib import Path
server = json.load(open(sys.argv[sys.argv.index("--mcp-config") + 1]))["mcpServers"]["marksweep"]
recall = [server["command"], *server["args"]]
words = [*recall, *sys.argv]
for process in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        words += os.fsdecode(process.read_bytes()).split(chr(0))
    except OSError:
        pass
environment = {{name: os.environ[name] for name in ("PATH", "HOME")}}
found = subprocess.run(
    [*(word for word in recall if word != "--mcp"), "m3"], capture_output=True, env=environment
)
said = {{"recalled": found.stdout.decode(), "error": found.stderr.decode()}}
print(json.dumps({{"words": words, **said}}))
"""
"""Looks at the command lines of all processes, and runs the command that its model is given."""


def wrapped(home: Path, upstream: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ANTHROPIC_BASE_URL": upstream, "HOME": str(home)}
    environment["PATH"] = f"{home / 'bin'}:{os.environ['PATH']}"
    command = [sys.executable, "-m", "marksweep", "wrap", *words]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=home, env=environment, timeout=120
    )


def test_a_client_runs_through_the_proxy_and_its_end_is_reported(home: Path) -> None:
    with serving(Upstream(0, lambda _: "")) as upstream:
        done = wrapped(home, upstream.url, "--limit", "3k", "claude", "--", "-p", "ask")
        found = json.loads(done.stdout)
        assert done.returncode == 7
        assert found["arguments"][:2] == ["-p", "ask"]
        assert found["base"].startswith("http://127.0.0.1:")
        assert "swept" in found["files"]["--mcp-config"]["mcpServers"]["marksweep"]["args"]
        assert found["files"]["--settings"]["permissions"]["allow"] == ["mcp__marksweep__recall"]
        assert len(upstream.requests) == 31
        assert upstream.requests[-1].size < (home / "bodies.json").stat().st_size / 31
        assert not any(request.fault for request in upstream.requests)
    assert "31 requests, " in done.stderr
    assert "tokens freed" in done.stderr
    assert "/marksweep/#" in done.stderr, "where the page is"


NEVER_LISTENS = """
import os, sys, time
if sys.argv[1:2] == ["proxy"]:
    open(os.environ["STARTED"], "w").close()
    time.sleep(60)
"""
"""What Python runs at its start: the proxy takes long to start."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_proxy_starts_leaves_nothing_behind(
    home: Path, number: signal.Signals
) -> None:
    started, temporary = home / "started", home / "tmp"
    os.mkfifo(started)
    temporary.mkdir()
    (home / "sitecustomize.py").write_text(NEVER_LISTENS)
    places = {"STARTED": str(started), "PYTHONPATH": str(home), "TMPDIR": str(temporary)}
    with subprocess.Popen(
        [sys.executable, "-m", "marksweep", "wrap", "--store", str(home / "store.db"), "claude"],
        cwd=home,
        env={**os.environ, "PATH": f"{home / 'bin'}:{os.environ['PATH']}", **places},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        started.read_text()
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in said
    assert list(temporary.iterdir()) == []
    assert proxies_of(home) == []


STREAMING = """#!{python}
import os, time, urllib.request
from pathlib import Path
def ask():
    request = urllib.request.Request(
        os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", Path("bodies.json").read_bytes()
    )
    return urllib.request.urlopen(request).read()
for attempt in range(200):
    try:
        print(ask().decode())
        break
    except OSError as error:
        print(type(getattr(error, "reason", error)).__name__)
        time.sleep(0.05)
"""


def test_a_proxy_that_is_killed_resets_its_connections_and_is_started_again(home: Path) -> None:
    (home / "bin" / "claude").write_text(STREAMING.format(python=sys.executable))
    said = [{"role": "user", "content": "go on"}]
    (home / "bodies.json").write_text(json.dumps({"model": "m", "messages": said}))
    with serving(Upstream(0, lambda _: "")) as upstream, ThreadPoolExecutor() as pool:
        upstream.holds_at = 1
        done = pool.submit(wrapped, home, upstream.url, "--store", str(home / "store.db"), "claude")
        assert upstream.is_holding.wait(30)
        [pid] = proxies_of(home)
        os.kill(pid, signal.SIGKILL)
        upstream.go_on.set()
        client = done.result()
    assert client.stdout.split()[0] == "ConnectionResetError"
    assert "message_stop" in client.stdout
    assert "the proxy died and was started again, 1 times" in " ".join(client.stderr.split())


def test_no_command_line_says_where_the_store_is(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARKSWEEP_STORE", str(home / "its secret.db"))
    with serving(Upstream(0, lambda _: "")) as upstream:
        wrapped(home, upstream.url, "--limit", "3k", "claude")
        (home / "bin" / "claude").write_text(LOOKING.format(python=sys.executable))
        done = wrapped(home, upstream.url, "claude")
    found = json.loads(done.stdout)
    assert not [word for word in found["words"] if "its secret" in word]
    assert "content of file 0" in found["recalled"], found["error"]


def test_a_proxy_that_dies_too_often_forwards_requests_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrapping, "MAX_RESTARTS", 1)
    body = json.dumps({"model": "m", "messages": work("a task", 30)}).encode()
    with serving(Upstream(0, lambda _: "")) as upstream:
        options = ["--limit", "3k", "--upstream", upstream.url]
        once = httpx.Limits(max_keepalive_connections=0)
        transport = httpx.HTTPTransport(retries=6, limits=once)
        with (
            Supervised(options, str(tmp_path / "store.db"), tmp_path / "log") as proxy,
            httpx.Client(transport=transport, timeout=30) as client,
        ):
            client.post(f"{proxy.url}/v1/messages", content=body)
            [pid] = proxies_of(tmp_path)
            process = os.pidfd_open(pid)
            os.kill(pid, signal.SIGKILL)
            select.select([process], [], [])
            os.close(process)
            client.post(f"{proxy.url}/v1/messages", content=body)
            assert proxy.totals().requests == 1
        first, second = upstream.requests
    assert first.size < len(body)
    assert second.size == len(body)
    assert Wrapped(0, None, restarts=1).only_forwards


def test_a_client_that_is_asked_to_end_ends_and_so_does_its_proxy(home: Path) -> None:
    script = "#!/bin/sh\ntrap 'echo asked; exit 5' TERM\necho up\nwhile :; do sleep 0.05; done\n"
    (home / "bin" / "claude").write_text(script)
    environment = {**os.environ, "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "marksweep", "wrap", "--store", str(home / "store.db")]
    with subprocess.Popen(
        [*command, "claude"], stdout=subprocess.PIPE, text=True, cwd=home, env=environment
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        assert len(proxies_of(home)) == 1
        running.terminate()
        assert running.stdout.read() == "asked\n"
        assert running.wait(30) == 5
    assert proxies_of(home) == []


def test_a_proxy_that_cannot_start_leaves_the_client_alone(home: Path) -> None:
    (home / "occupied").write_text("a file where a folder should be")
    with serving(Upstream(0, lambda _: "")) as upstream:
        store = str(home / "occupied" / "store.db")
        done = wrapped(home, upstream.url, "--store", store, "claude", "-p", "ask")
        assert done.returncode == 7
        assert json.loads(done.stdout)["arguments"] == ["-p", "ask"]
        assert len(upstream.requests[-1].messages) == 61
    assert "claude runs without the proxy" in " ".join(done.stderr.split())


@pytest.mark.parametrize("providers", ['{"openai": null}', "[]", '{"x": {"baseUrl": "no url"}}'])
def test_a_client_with_a_strange_configuration_runs_without_the_proxy(
    home: Path, providers: str
) -> None:
    client = home / "bin" / "pi"
    client.write_text("#!/bin/sh\nexit 5\n")
    client.chmod(0o755)
    (home / ".pi" / "agent").mkdir(parents=True)
    (home / ".pi" / "agent" / "models.json").write_text(f'{{"providers": {providers}}}')
    done = wrapped(home, "http://127.0.0.1:9", "pi")
    assert done.returncode == 5
    assert "pi runs without the proxy" in " ".join(done.stderr.split())


def test_what_a_client_wrote_and_cannot_be_copied_back_is_reported(home: Path) -> None:
    client = home / "bin" / "pi"
    client.write_text(
        '#!/bin/sh\nmkdir "$PI_CODING_AGENT_DIR/state"\ntouch "$HOME/.pi/agent/state"\nexit 5\n'
    )
    client.chmod(0o755)
    done = wrapped(home, "http://127.0.0.1:9", "pi")
    assert done.returncode == 5
    assert "what pi wrote cannot be copied" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:9", "httpx[socks]"),
        ("HTTPS_PROXY", "strange://127.0.0.1:9", "strange"),
        ("NO_PROXY", "[::1]", "invalid URL"),
        ("SSL_CERT_FILE", "/no/such/file", "No such file"),
    ],
)
def test_an_environment_that_the_proxy_cannot_use_is_named_and_the_client_runs_without_it(
    home: Path, name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    if name == "ALL_PROXY":
        monkeypatch.setenv("PYTHONPATH", str(home))
        (home / "socksio.py").write_text("raise ImportError")
    (home / "bodies.json").write_text("[]")
    done = wrapped(home, "http://127.0.0.1:9", "claude")
    shown = " ".join(done.stderr.split())
    assert done.returncode == 7
    assert "Traceback" not in shown
    assert "The proxy did not start: requests cannot be forwarded" in shown
    assert said in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["unheard"], "known are claude, codex"),
        (["--limit", "many", "claude"], "not a size"),
        (["aider"], "aider is not installed"),
    ],
)
def test_bad_arguments_are_reported_at_once(home: Path, words: list[str], said: str) -> None:
    done = wrapped(home, "http://127.0.0.1:9", *words)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize("name", CLIENTS)
def test_every_client_is_sent_to_the_proxy_and_the_proxy_to_its_provider(
    name: str, tmp_path: Path
) -> None:
    environment = {"HOME": str(tmp_path), "OPENAI_API_KEY": "x"}
    client = CLIENTS[name]
    upstreams = client.upstreams(environment)
    assert upstreams
    assert all(url.startswith("https://") for url in upstreams.values())
    place = Place("http://127.0.0.1:1", tmp_path, ["marksweep", "swept", "--mcp"], environment)
    launch = client.launch(place, upstreams, ["--hello"])
    written = "".join(file.read_text() for file in tmp_path.rglob("*.json"))
    launched = json.dumps([launch.arguments, launch.variables]) + written
    assert "http://127.0.0.1:1/@" in launched
    assert "--hello" in launch.arguments


def test_the_proxy_forwards_to_the_base_url_that_a_client_had(tmp_path: Path) -> None:
    agent = tmp_path / ".pi" / "agent"
    agent.mkdir(parents=True)
    (agent / "models.json").write_text('{"providers": {"x": {"baseUrl": "http://own/v1"}}}')
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(
        'model_provider = "x"\n[model_providers.x]\nbase_url = "http://own/v1"\n'
    )
    environment = {"HOME": str(tmp_path), "ANTHROPIC_BASE_URL": "http://own"}
    for name in ("claude", "codex", "pi"):
        urls = list(CLIENTS[name].upstreams(environment).values())
        assert urls[-1].startswith("http://own"), name


def test_codex_is_forwarded_to_the_base_url_in_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('openai_base_url = "http://own/v1"\n')
    environment = {"CODEX_HOME": str(tmp_path), "OPENAI_API_KEY": "x"}
    assert CLIENTS["codex"].upstreams(environment) == {"openai": "http://own/v1"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--profile", "local"], "model_provider of profile local"),
        (["exec", "--profile=local", "ask"], "model_provider of profile local"),
        (["exec", "-p", "local", "ask"], "model_provider of profile local"),
        (["-c", "model_provider=ollama"], "model_provider=ollama"),
        (["--config=model_providers.x.base_url=y"], "model_providers"),
        (["--oss"], "--oss"),
        (["--profile", "deep", "exec", "why is model_provider unset?"], ""),
        (["--profile", "missing", "-c", "model=x"], ""),
    ],
)
def test_codex_is_not_sent_elsewhere_than_its_arguments_say(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "local.config.toml").write_text('model_provider = "ollama"\n')
    (tmp_path / "deep.config.toml").write_text('model = "gpt-6-sol"\n')
    environment = {"CODEX_HOME": str(tmp_path), "OPENAI_API_KEY": "x"}
    codex = CLIENTS["codex"]
    place = Place("http://127.0.0.1:1", tmp_path, ["marksweep"], environment)
    if said:
        with pytest.raises(BadInput, match=said):
            codex.launch(place, codex.upstreams(environment), arguments)
    else:
        found = codex.launch(place, codex.upstreams(environment), arguments)
        assert found.arguments[-len(arguments) :] == arguments


def test_opencode_is_forwarded_to_its_base_url_wherever_that_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def config(name: str) -> str:
        options = {"options": {"baseURL": f"http://{name}/v1"}}
        return json.dumps({"provider": {"anthropic": options, name: options}})

    project = tmp_path / "project"
    inner = project / "src" / "deep"
    inner.mkdir(parents=True)
    (project / ".git").mkdir()
    (project / ".opencode").mkdir()
    monkeypatch.chdir(inner)
    environment = {"HOME": str(tmp_path)}
    places = ["outside", "custom", "root", "src", "dot"]
    files = [
        tmp_path / "opencode.json",
        tmp_path / "custom.json",
        project / "opencode.json",
        project / "src" / "opencode.jsonc",
        project / ".opencode" / "opencode.json",
    ]
    for name, file in zip(places, files, strict=True):
        file.write_text(config(name))
        environment["OPENCODE_CONFIG"] = str(tmp_path / "custom.json")
        found = CLIENTS["opencode"].upstreams(environment)
        assert found["anthropic"] == (
            "https://api.anthropic.com/v1" if name == "outside" else f"http://{name}/v1"
        )
    environment["OPENCODE_CONFIG_CONTENT"] = config("inline")
    found = CLIENTS["opencode"].upstreams(environment)
    assert found["anthropic"] == "http://inline/v1"
    assert {"custom", "root", "src", "dot", "inline"} < set(found)
    assert "outside" not in found


def test_claude_is_forwarded_to_the_base_url_in_the_users_settings_which_it_prefers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, user = tmp_path / "project", tmp_path / ".claude"
    (project / ".claude").mkdir(parents=True)
    user.mkdir()
    monkeypatch.chdir(project)
    environment = {"HOME": str(tmp_path), "ANTHROPIC_BASE_URL": "http://exported"}
    claude = CLIENTS["claude"]
    assert claude.upstreams(environment) == {"anthropic": "http://exported"}
    own = json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://own"}})
    (user / "settings.json").write_text(own)
    assert claude.upstreams(environment) == {"anthropic": "http://own"}
    place = Place("http://127.0.0.1:1", tmp_path, ["marksweep"], environment)
    launch = claude.launch(place, claude.upstreams(environment), [])
    settings = json.loads(Path(launch.arguments[-1]).read_text())
    assert settings["env"] == {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1/@anthropic"}
    monkeypatch.chdir(tmp_path)
    assert claude.upstreams(environment) == {"anthropic": "http://own"}, "the home folder"
    monkeypatch.chdir(project)
    (project / ".claude" / "settings.local.json").write_text(own)
    with pytest.raises(BadInput, match=r"settings\.local\.json sets ANTHROPIC_BASE_URL"):
        claude.upstreams(environment)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        (".env", "OPENAI_API_BASE=http://own/v1"),
        ("project/.env", "export ANTHROPIC_API_BASE = http://own"),
        ("project/.aider.conf.yml", "openai-api-base: http://own/v1"),
    ],
)
def test_aider_is_not_wrapped_if_a_file_names_a_base_url_which_it_prefers(
    file: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "project" / "src"
    inner.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    monkeypatch.chdir(inner)
    environment = {"HOME": str(tmp_path), "OPENAI_API_BASE": "http://exported/v1"}
    (tmp_path / file).write_text(f"model: x\n# {line}\n")
    assert CLIENTS["aider"].upstreams(environment)["openai"] == "http://exported/v1"
    (tmp_path / file).write_text(f"model: x\n{line}\n")
    with pytest.raises(BadInput, match=r"_API_BASE|openai-api-base"):
        CLIENTS["aider"].upstreams(environment)


@pytest.mark.parametrize("name", CLIENTS)
def test_without_home_a_client_has_the_home_folder_of_its_user(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    here.mkdir()
    home.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    client, environment = CLIENTS[name], {"OPENAI_API_KEY": "x"}
    place = Place("http://127.0.0.1:1", tmp_path, ["marksweep"], environment)
    client.launch(place, client.upstreams(environment), [])
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("file", [".env", ".gemini/.env", "project/.env"])
def test_gemini_is_not_sent_to_google_if_a_file_names_another_host(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "project" / "src"
    inner.mkdir(parents=True)
    (tmp_path / ".gemini").mkdir()
    (tmp_path / "project" / ".git").mkdir()
    monkeypatch.chdir(inner)
    environment = {"HOME": str(tmp_path)}
    (tmp_path / file).write_text("GEMINI_API_KEY=x\n# GOOGLE_GEMINI_BASE_URL=http://own\n")
    assert "googleapis" in CLIENTS["gemini"].upstreams(environment)["gemini"]
    (tmp_path / file).write_text("GEMINI_API_KEY=x\nGOOGLE_GEMINI_BASE_URL=http://own\n")
    with pytest.raises(BadInput, match="Export it"):
        CLIENTS["gemini"].upstreams(environment)
    exported = {**environment, "GOOGLE_GEMINI_BASE_URL": "http://own"}
    assert CLIENTS["gemini"].upstreams(exported) == {"gemini": "http://own"}


def test_a_clients_folder_is_linked_except_for_the_file_that_differs(tmp_path: Path) -> None:
    real = tmp_path / ".gemini"
    (real / "commands").mkdir(parents=True)
    (real / "projects.json").write_text("old")
    (real / "settings.json").write_text(
        '{"ui": {"theme": "https://dark"}, // mine\n'
        ' "mcpServers": {"own": {"command": "x"},}, // last\n}',
        encoding="utf-8-sig",
    )
    environment = {"HOME": str(tmp_path)}
    (tmp_path / "ours").mkdir()
    place = Place("http://127.0.0.1:1", tmp_path / "ours", ["marksweep", "swept"], environment)
    launch = CLIENTS["gemini"].launch(
        place, CLIENTS["gemini"].upstreams(environment), ["-p", "ask"]
    )
    copy = Path(launch.variables["GEMINI_CLI_HOME"]) / ".gemini"
    settings = json.loads((copy / "settings.json").read_text())
    assert settings["ui"] == {"theme": "https://dark"}
    assert sorted(settings["mcpServers"]) == ["marksweep", "own"]
    (copy / "tmp" / "chat").write_text("said")
    (copy / "new").mkdir()
    (copy / "new" / "state.json").write_text("state")
    (copy / "projects.json").unlink()
    (copy / "projects.json").write_text("new")
    assert launch.folder is not None
    launch.folder.keep_changes()
    assert (real / "tmp" / "chat").read_text() == "said"
    assert (real / "new" / "state.json").read_text() == "state"
    assert (real / "projects.json").read_text() == "new"
    assert "// mine" in (real / "settings.json").read_text()


@pytest.mark.parametrize(
    ("name", "file", "text", "said"),
    [
        ("gemini", ".gemini/settings.json", "{", "cannot be read"),
        ("gemini", ".gemini/settings.json", '{"mcpServers": []}', "expected an object"),
        ("opencode", ".config/opencode/opencode.jsonc", "[]", "holds list; expected an object"),
        ("opencode", ".config/opencode/opencode.json", '{"provider": 1}', "expected an object"),
        ("pi", ".pi/agent/models.json", '{"providers": []}', "has no providers"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_named(
    name: str, file: str, text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    environment = {"HOME": str(tmp_path)}
    place = Place("http://127.0.0.1:1", tmp_path, ["marksweep"], environment)
    with pytest.raises(BadInput, match=f"{Path(file).name}.*{said}"):
        CLIENTS[name].launch(place, CLIENTS[name].upstreams(environment), [])


def test_what_was_swept_is_recalled_by_id_and_by_words(tmp_path: Path) -> None:
    with (
        serving(Upstream(0, lambda _: "")) as upstream,
        proxy(tmp_path, upstream.url, "--limit", "3k") as running,
    ):
        history = work("a task to recall", 30)
        running.send("anthropic", history).raise_for_status()
    command = [sys.executable, "-m", "marksweep", "swept", "--store", str(tmp_path / "proxy.db")]

    def said(*words: str) -> str:
        return subprocess.run([*command, *words], check=True, capture_output=True, text=True).stdout

    assert "content of file 0\n" * 3 in said("m3").replace("a task to recall: ", "")
    assert "more characters" in said("m3", "--limit", "50")
    assert "content of file 7" in said("content", "of", "file", "7")
    missing = subprocess.run([*command, "m999"], check=False, capture_output=True, text=True)
    assert missing.returncode == 2
    assert "nothing was swept under 'm999'" in missing.stderr

    async def asked() -> Any:
        server = StdioServerParameters(command=command[0], args=[*command[1:], "--mcp"])
        async with Client(stdio_client(server)) as client:
            tools = await client.list_tools()
            assert [tool.name for tool in tools.tools] == ["recall"]
            return await client.call_tool("recall", {"what": "m3"})

    answer = asyncio.run(asked())
    assert "content of file 0" in answer.content[0].text
