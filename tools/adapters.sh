#!/bin/sh
# Make .adapters/NAME-WHICH: an environment with one agent framework, at the newest or the oldest version that its
# adapter is tested with, and marksweep. The oldest is tested with the oldest Python available.
# usage: tools/adapters.sh langchain|pydantic-ai|openai-agents|litellm|google-adk|agent-framework newest|oldest
set -eu

name=${1:?usage: tools/adapters.sh NAME newest|oldest}
which=${2:?usage: tools/adapters.sh NAME newest|oldest}
case "$name $which" in
    "langchain newest") packages="langchain==1.4.7 langgraph==1.2.20" ;;
    "langchain oldest") packages="langchain==1.2.18" ;;
    "pydantic-ai newest") packages="pydantic-ai-slim==2.66.0" ;;
    "pydantic-ai oldest") packages="pydantic-ai-slim==2.0.0" ;;
    "openai-agents newest") packages="openai-agents==0.24.0" ;;
    "openai-agents oldest") packages="openai-agents==0.20.0" ;;
    "litellm newest") packages="litellm[proxy]==1.106.2" ;;
    "litellm oldest") packages="litellm[proxy]==1.100.0" ;;
    "google-adk newest") packages="google-adk==2.13.0" ;;
    "google-adk oldest") packages="google-adk==2.0.0" ;;
    "agent-framework newest") packages="agent-framework-core==1.23.0" ;;
    "agent-framework oldest") packages="agent-framework-core==1.0.0" ;;
    *) echo "adapters: no framework '$name' with a '$which' version" >&2; exit 1 ;;
esac
minors="13 12 11"
[ "$which" = oldest ] && minors="11 12 13"

pick() {
    for minor in $minors; do
        for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.$minor.*/bin/python "$(command -v python3.$minor || true)"; do
            if [ -x "$candidate" ] && "$candidate" -c 'import venv, ensurepip' 2>/dev/null; then echo "$candidate"; return; fi
        done
    done
    echo python3
}

home=.adapters/$name-$which
done="$home/.ready $packages"
[ "$(cat "$home/.ready" 2>/dev/null || true)" = "$done" ] && exit 0
python=$(pick)
echo "adapters: $packages with $("$python" --version) …" >&2
rm -rf "$home"
"$python" -m venv "$home"
PIP_DISABLE_PIP_VERSION_CHECK=1 "$home/bin/python" -m pip install --quiet -e ".[exact]" "pytest>=8.3" "pytest-timeout>=2.3" "hypothesis>=6.100" $packages
echo "$done" > "$home/.ready"
