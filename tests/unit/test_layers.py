"""Imports go one way, and every module has its place. Read with `ast`, so imports inside functions count too."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "agent_harness"

# From the top down; names are first-level modules or packages. A module may import from its own row and the rows below it.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"__main__"}),
    frozenset({"cli"}),
    frozenset(
        {
            "demo",
            "completion",
            "examples",
            "headless",
            "history",
            "inspection",
            "doctor",
            "republish",
            "restore",
            "settings_load",
            "settings_values",
        }
    ),
    frozenset({"build"}),
    frozenset({"session"}),
    frozenset({"loop", "publishing", "assignment", "reporting", "nested", "notify", "jobs"}),
    frozenset({"dispatcher", "model", "calls", "clip", "in_place", "origins", "guidance", "uncommitted"}),
    frozenset({"tools", "guards", "hooks"}),
    frozenset({"surfaces", "inert_git", "transport", "github_settings"}),
    frozenset({"trace", "archive"}),
    frozenset({"events", "messages", "task", "plan", "budget", "verdict", "settings", "world", "redact", "progress"}),
    frozenset({"errors", "places", "processes", "tasks", "__init__"}),
)
NOUNS = LAYERS[-2] | LAYERS[-1]
SINKS_MAY_IMPORT = NOUNS | {"trace", "sinks"}
MAY_IMPORT_SINKS = LAYERS[0] | LAYERS[1] | LAYERS[2] | {"sinks"}

Import = tuple[str, str, int]  # importing module, imported module (both dotted, without the package's name), line


def imports_of(module: str, source: str, known: set[str]) -> Iterator[Import]:
    """Every import of our own modules in the source, wherever it stands, also under TYPE_CHECKING and in functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: line {node.lineno}: relative import; write the whole name"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "agent_harness":
                yield module, resolved(name, known), node.lineno


def resolved(name: str, known: set[str]) -> str:
    """The module that `agent_harness.a.b.thing` stands for."""
    parts = name.split(".")[1:]
    while parts and ".".join(parts) not in known:
        parts.pop()
    return ".".join(parts) or "__init__"


def module_names() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = path
    return found


def all_imports() -> list[Import]:
    modules = module_names()
    known = set(modules)
    return [found for name, path in modules.items() for found in imports_of(name, path.read_text("utf-8"), known)]


def unit(module: str) -> str:
    return module.split(".")[0]


def row(name: str) -> int:
    return next((number for number, names in enumerate(LAYERS) if name in names), -1)


def unplaced(modules: Iterable[str]) -> list[str]:
    return sorted({unit(module) for module in modules} - {"sinks", *(name for names in LAYERS for name in names)})


def upward(imports: Iterable[Import]) -> list[str]:
    """Imports against the one direction, as sentences."""
    wrong: list[str] = []
    for module, imported, line in imports:
        above, below = unit(module), unit(imported)
        if above == "sinks":
            bad = below not in SINKS_MAY_IMPORT
        elif below == "sinks":
            bad = above not in MAY_IMPORT_SINKS
        else:
            bad = row(below) < row(above)
        if bad:
            wrong.append(f"{module} line {line} imports {imported}")
    return wrong


def two_way(imports: Iterable[Import], *, whole: bool) -> list[tuple[str, str]]:
    """Pairs that import each other: first-level units, or modules when `whole`."""
    edges = {(a, b) if whole else (unit(a), unit(b)) for a, b, _ in imports}
    return sorted((a, b) for a, b in edges if a < b and (b, a) in edges)


def test_every_module_has_a_place_in_the_layers() -> None:
    assert unplaced(module_names()) == []


def test_no_layer_names_a_module_that_is_gone() -> None:
    assert {name for names in LAYERS for name in names} - {unit(name) for name in module_names()} == set()


def test_no_module_imports_from_a_layer_above() -> None:
    assert upward(all_imports()) == []


def test_no_two_units_import_each_other() -> None:
    assert two_way(all_imports(), whole=False) == []


def test_no_two_modules_import_each_other() -> None:
    assert two_way(all_imports(), whole=True) == []


def test_a_planted_violation_is_caught() -> None:
    known = {"loop", "cli", "trace", "sinks", "sinks.console", "build", "surfaces", "surfaces.base"}
    hidden = "def late():\n    from agent_harness.cli import main\n"
    planted = list(imports_of("loop", hidden, known))
    assert upward(planted) == ["loop line 2 imports cli"]
    typed = "if TYPE_CHECKING:\n    import agent_harness.build\n"
    assert upward(imports_of("surfaces.base", typed, known)) == ["surfaces.base line 2 imports build"]
    assert upward(imports_of("sinks.console", "from agent_harness import build", known)) != []
    assert upward(imports_of("trace", "from agent_harness.sinks import console", known)) == ["trace line 1 imports sinks.console"]
    assert two_way([("guards.a", "hooks.b", 1), ("hooks.c", "guards.d", 1)], whole=False) == [("guards", "hooks")]
    assert two_way([("guards.a", "guards.b", 1), ("guards.b", "guards.a", 1)], whole=True) == [("guards.a", "guards.b")]
    assert unplaced(["loop", "stray.part"]) == ["stray"]


def test_an_import_downward_is_fine() -> None:
    known = {"loop", "trace", "errors"}
    assert upward(imports_of("loop", "from agent_harness.trace import Trace\nimport agent_harness.errors", known)) == []
