#!/bin/sh
# Install a client that `make clients` drives into .clients/NAME, at a pinned version. Those from npm share a separate Node:
# the newest pi needs 22.19 or newer. A client that cannot be installed is reported.
# usage: tools/clients.sh node|claude|codex|pi|opencode|gemini|aider
set -eu

name=${1:?usage: tools/clients.sh NAME}
case $name in
    node) package=node@22.23.3 ;;
    claude) package=@anthropic-ai/claude-code@2.1.327 ;;
    codex) package=@openai/codex@0.169.0 ;;
    pi) package=@earendil-works/pi-coding-agent@0.87.1 ;;  # the newest whose dependencies are all published
    opencode) package=opencode-ai@1.18.33 ;;
    gemini) package=@google/gemini-cli@0.61.0 ;;
    aider) package=aider-chat==0.86.2 ;;
    *) echo "setup: no client $name is known; known are claude, codex, pi, opencode, gemini and aider." >&2; exit 1 ;;
esac

folder=.clients/$name
rm -rf "$folder"
mkdir -p "$folder"
echo "setup: installing $package into $folder"
if [ "$name" = aider ]; then
    python=  # aider does not support 3.13
    for minor in 12 11 10; do
        for candidate in "$(command -v python3.$minor || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.$minor.*/bin/python; do
            if [ -z "$python" ] && "$candidate" -c 'import ensurepip' 2>/dev/null; then python=$candidate; fi
        done
    done
    if [ -z "$python" ]; then
        echo "setup: aider needs Python 3.10, 3.11 or 3.12, and none was found." >&2
        exit 1
    fi
    "$python" -m venv "$folder"
    timeout 600 "$folder/bin/pip" install -qqq --disable-pip-version-check "$package"
else
    if ! command -v npm >/dev/null; then
        echo "setup: no npm found. Install it (Debian: apt-get install npm)." >&2
        exit 1
    fi
    # With the machine's own Node: it has the machine's certificates, which the one installed here lacks.
    echo '{"private": true}' >"$folder/package.json"
    timeout 600 npm --prefix "$folder" install --no-fund --no-audit --no-package-lock --fetch-timeout=60000 --loglevel=error "$package"
fi
touch "$folder.ready"
