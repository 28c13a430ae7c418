#!/bin/sh
# Install the clients that `make clients` drives into .clients, pinned, with a Node of their own: pi needs 22 or newer.
set -eu

node=22.23.3
claude=2.1.325
codex=0.166.0
pi=0.74.2

if ! command -v npm >/dev/null; then
    echo "setup: no npm found. Install it (Debian: apt-get install npm)." >&2
    exit 1
fi

rm -rf .clients
mkdir .clients
cd .clients
echo '{"private": true}' >package.json
echo "setup: installing Claude Code $claude, Codex $codex and pi $pi with Node $node, about 700 MB"
timeout 600 npm install --no-fund --no-audit --no-package-lock --fetch-timeout=60000 --loglevel=error \
    "node@$node" "@anthropic-ai/claude-code@$claude" "@openai/codex@$codex" "@earendil-works/pi-coding-agent@$pi"
found=$(node_modules/node/bin/node --version)
if [ "$found" != "v$node" ]; then
    echo "setup: the Node installed is $found and not v$node." >&2
    exit 1
fi
