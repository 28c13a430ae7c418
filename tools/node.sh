#!/bin/sh
# Install the conformance suite and the inspector of the Model Context Protocol into .node, with a separate Node:
# they need 22.19 or newer, and the machine's Node may be older.
set -eu

node=22.23.3
suite=0.2.0-alpha.12  # the first release that supports the protocol of 2026-07-28
inspector=2.12.0

if ! command -v npm >/dev/null; then
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        echo "setup: installing npm, which installs the conformance suite"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends npm >/dev/null
    else
        echo "setup: no npm found. Install it (Debian: apt-get install npm)." >&2
        exit 1
    fi
fi

rm -rf .node
mkdir .node
cd .node
echo '{"private": true}' >package.json
echo "setup: installing Node $node, the conformance suite $suite and the inspector $inspector"
# With the machine's own Node: it has the machine's certificates, which the one installed here lacks.
timeout 240 npm install --no-fund --no-audit --no-package-lock --fetch-timeout=30000 --loglevel=error \
    "node@$node" "@modelcontextprotocol/conformance@$suite" "@modelcontextprotocol/inspector@$inspector"
found=$(node_modules/node/bin/node --version)
if [ "$found" != "v$node" ]; then
    echo "setup: expected Node $node in .node, found $found: npm did not run its install script." >&2
    exit 1
fi
