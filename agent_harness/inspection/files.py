"""What files in a working tree would have run: drivers that they ask for, editors, installers and environment loaders."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from agent_harness.inert_git import Git
from agent_harness.inspection.base import Files, Finding
from agent_harness.inspection.config import judge, read_config

ATTRIBUTE = re.compile(r"(?:^|\s)(filter|diff|merge)=(\S+)")
BUILT_IN = frozenset({"binary", "text", "union", "ours"})  # drivers of git itself run no program
INSTALL_SCRIPTS = ("preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare", "prepublish")
CONTAINER_COMMANDS = (
    *("initializeCommand", "onCreateCommand", "updateContentCommand"),
    *("postCreateCommand", "postStartCommand", "postAttachCommand"),
)
COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
# Whole files that run, or make something run: name -> kind, when.
BY_NAME: Mapping[str, tuple[str, str]] = {
    ".envrc": ("direnv", "cd into the folder, with direnv once it is allowed"),
    ".pre-commit-config.yaml": ("pre-commit", "git commit, after pre-commit install"),
    "lefthook.yml": ("pre-commit", "git commit, after lefthook install"),
    "setup.py": ("install-script", "pip install"),
    "binding.gyp": ("install-script", "npm install"),
    ".pnpmfile.cjs": ("install-script", "pnpm install"),
    ".mcp.json": ("agent-settings", "a coding agent starts in the folder"),
}


async def in_files(git: Git, files: Files, drivers: Mapping[str, str]) -> list[Finding]:
    """What the files would have run; `drivers` are the configured ones, as `filter.NAME` -> command."""
    found: list[Finding] = []
    for path in await files.paths():
        name = path.rpartition("/")[2]
        if name in BY_NAME:
            kind, when = BY_NAME[name]
            found.append(Finding(kind, path, name, "", when))
        elif ".husky/" in f"/{path}" and not path.endswith((".gitignore", ".sh", ".md")):
            found.append(Finding("hook", path, name, "", f"git, as its {name} hook, after npm install"))
        elif name == ".gitattributes":
            found += attributes(path, await files.read(path), drivers)
        elif path == ".gitmodules":
            found += await _modules(git, await files.read(path))
        elif name == ".yarnrc.yml":
            found += _yarn(path, await files.read(path))
        elif name.endswith(".json"):
            found += await _json(files, path, name)
    return found


async def _json(files: Files, path: str, name: str) -> list[Finding]:
    if name == "package.json":
        return _package(path, await files.read(path))
    if path.endswith(".vscode/tasks.json"):
        return _tasks(path, await files.read(path))
    if name in ("devcontainer.json", ".devcontainer.json"):
        return _container(path, await files.read(path))
    if re.search(r"(^|/)\.(claude|cursor|codex)/(settings|settings\.local|hooks|mcp)\.json$", path):
        return [Finding("agent-settings", path, name, "", "a coding agent starts in the folder")]
    return []


def attributes(path: str, text: str, drivers: Mapping[str, str]) -> list[Finding]:
    """The drivers that an attributes file asks for, with what is configured for them."""
    asked = dict.fromkeys((kind, name) for line in text.splitlines() for kind, name in ATTRIBUTE.findall(line))
    when = {"filter": "git add, checkout", "diff": "git diff, log -p", "merge": "git merge, rebase"}
    return [
        Finding(
            "attribute",
            path,
            f"{kind}={name}",
            drivers.get(f"{kind}.{name}", ""),
            f"{when[kind]}, where such a driver is configured",
        )
        for kind, name in asked
        if name not in BUILT_IN
    ]


async def _modules(git: Git, text: str) -> list[Finding]:
    with TemporaryDirectory(prefix="agent-harness-") as scratch:
        copy = Path(scratch) / "gitmodules"
        copy.write_text(text, encoding="utf-8", errors="replace")
        entries = await read_config(git, copy)
    judged = (judge(".gitmodules", key, value) for key, value in entries or [])
    return [finding for finding in judged if finding is not None and finding.kind.startswith("submodule")]


def _package(path: str, text: str) -> list[Finding]:
    scripts = _mapping(_parsed(text).get("scripts"))
    return [
        Finding("install-script", path, name, str(scripts[name]), "npm install") for name in INSTALL_SCRIPTS if name in scripts
    ]


def _tasks(path: str, text: str) -> list[Finding]:
    tasks = _parsed(text).get("tasks")
    if not isinstance(tasks, list):
        return [Finding("editor-task", path, "tasks.json", "", "the editor opens the folder, perhaps: it could not be read")]
    found: list[Finding] = []
    for task in (_mapping(each) for each in cast("list[object]", tasks)):
        opens = _mapping(task.get("runOptions")).get("runOn") == "folderOpen"
        when = "the editor opens the folder, once it is trusted" if opens else "somebody runs the task in the editor"
        words = [str(task.get("command", "")), *(str(word) for word in _list(task.get("args")))]
        found.append(Finding("editor-task", path, str(task.get("label", "")), " ".join(words).strip(), when))
    return found


def _container(path: str, text: str) -> list[Finding]:
    settings = _parsed(text)
    return [
        Finding(
            "container", path, name, json.dumps(settings[name]),
            "the editor opens the folder in a container" + (", on this machine" if name == "initializeCommand" else ""),
        )
        for name in CONTAINER_COMMANDS
        if name in settings
    ]  # fmt: skip


def _yarn(path: str, text: str) -> list[Finding]:
    programs = re.findall(r"^yarnPath: *(\S+)", text, re.MULTILINE)
    return [Finding("install-script", path, "yarnPath", program, "every yarn command") for program in programs]


def _parsed(text: str) -> dict[str, object]:
    """A JSON object, comments and trailing commas allowed; empty when it is none."""
    clean = re.sub(r",(\s*[}\]])", r"\1", COMMENT.sub(lambda found: found[1] or "", text))
    try:
        return _mapping(json.loads(clean))
    except (ValueError, RecursionError):
        return {}


def _mapping(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
