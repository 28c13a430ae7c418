#!/bin/sh
# Find the browser that the tests use for HTML pages; install Debian's if possible.
set -eu

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then exit 0; fi
done
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "setup: installing chromium, which the tests use for HTML pages"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
else
    echo "setup: no chromium found; the browser tests will fail. Install it (Debian: apt-get install chromium)." >&2
fi
