"""Selects the frameworks whose tests run: `make adapters` runs each in its own environment."""

from __future__ import annotations

import os
from importlib.util import find_spec

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no network access

FRAMEWORKS = {
    "test_agent_framework.py": "agent_framework",
    "test_google_adk.py": "google.adk",
    "test_langchain.py": "langchain",
    "test_litellm.py": "litellm",
    "test_openai_agents.py": "agents",
    "test_pydantic_ai.py": "pydantic_ai",
}


def _is_here(module: str) -> bool:
    package, _, inner = module.partition(".")
    found = find_spec(package)
    return found is not None and (not inner or find_spec(module) is not None)


collect_ignore = [name for name, module in FRAMEWORKS.items() if not _is_here(module)]
