"""Looks at what is about to be pushed: every commit of the range, by plumbing, with nothing checked out.

Each commit counts, not the sum alone: a file that one commit adds and a later one removes is pushed all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_harness.errors import PublishError
from agent_harness.inert_git import HOSTILE, Git
from agent_harness.publishing.base import ChangedFile
from agent_harness.publishing.leaks import find_leaks
from agent_harness.surfaces.changes import Changeable, is_workflow
from agent_harness.task import Permits

MAX_BLOB_BYTES = 100 << 20  # the largest file that the big forges take
LINK, GITLINK, EXECUTABLE, PLAIN = "120000", "160000", "100755", "100644"
EVERYTHING_USUAL = Permits()
NAMED = 5  # paths named in one remark; the rest are counted

# Files that run on the forge or in a developer's tools as soon as they are merged or opened: prefixes, or whole names.
RUNS_ELSEWHERE: dict[str, tuple[str, ...]] = {
    "actions that workflows use": (".github/actions/",),
    "settings of coding agents and editors, which act when somebody opens the repository": (
        *(".claude/", ".cursor/", ".codex/", ".vscode/", ".idea/", ".devcontainer/"),
        *(".mcp.json", "AGENTS.md", "CLAUDE.md", ".envrc"),
    ),
    "git's own configuration files": (".gitattributes", ".gitmodules", ".githooks/", ".husky/", ".pre-commit-config.yaml"),
}


@dataclass(frozen=True, slots=True)
class Scan:
    """What base..head holds.

    Attributes:
        changes: the files that differ between the two ends, by path.
        remarks: what a reviewer should look at, one sentence each.
        commits: how many commits are pushed.
    """

    changes: tuple[ChangedFile, ...]
    remarks: tuple[str, ...]
    commits: int


@dataclass(frozen=True, slots=True)
class RawChange:
    """One record of a raw diff."""

    old_mode: str
    new_mode: str
    status: str
    path: str


async def scan(
    git: Git,
    git_dir: Path,
    base: str,
    head: str,
    *,
    permits: Permits = EVERYTHING_USUAL,
    redact: Callable[[str], str] = str,
    max_blob_bytes: int = MAX_BLOB_BYTES,
) -> Scan:
    """What pushing `head` onto `base` would add.

    Args:
        git: the runner.
        git_dir: the quarantine.
        base: the commit that the work started from.
        head: the commit that is to be pushed.
        permits: what the person lets the session change.
        redact: replaces credentials, those of this session among them.
        max_blob_bytes: the largest file that is let through.

    Raises:
        PublishError: it has a path outside the scope, a workflow file or a submodule that is not permitted, a file that no forge
            takes, or a credential; names the path.
    """
    commits = (await git.run("rev-list", "--reverse", f"{base}..{head}", git_dir=git_dir, ceilings=HOSTILE)).text.split()
    each = await git.run(
        *("diff-tree", "--stdin", "--root", "-r", "-m", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-commit-id"),
        git_dir=git_dir,
        stdin="".join(f"{commit}\n" for commit in commits).encode(),
        ceilings=HOSTILE,
    )
    records, _ = _split(each.stdout)
    refuse_unpermitted([record.path for record in records], permits)
    _refuse_submodules(records, permits)
    await _refuse_big_blobs(git, git_dir, base, head, max_blob_bytes)
    leaks = await find_leaks(git, git_dir, base, commits, permits, redact)
    return Scan(await _changes(git, git_dir, base, head), (*_remarks(records), *leaks), len(commits))


async def _changes(git: Git, git_dir: Path, base: str, head: str) -> tuple[ChangedFile, ...]:
    both = await git.run(
        *("diff-tree", "-r", "-z", "--raw", "--numstat", "--no-abbrev", "--no-renames"),
        *(base, head),
        git_dir=git_dir,
        ceilings=HOSTILE,
    )
    records, rest = _split(both.stdout)
    status = {record.path: record.status for record in records}
    changes: list[ChangedFile] = []
    for field in rest:
        added, deleted, path = field.split(b"\t", 2)
        name = _name(path)
        changes.append(ChangedFile(name, status.get(name, "M"), _lines(added), _lines(deleted)))
    return tuple(sorted(changes, key=lambda change: change.path))


def _lines(count: bytes) -> int | None:
    return None if count == b"-" else int(count)


def _split(output: bytes) -> tuple[list[RawChange], list[bytes]]:
    """The records of `--raw -z` without renames, and the fields that follow them."""
    records: list[RawChange] = []
    fields = output.split(b"\0")
    at = 0
    while at < len(fields) and fields[at].startswith(b":"):
        old_mode, new_mode, _, _, status = fields[at][1:].decode("ascii").split(" ")
        records.append(RawChange(old_mode, new_mode, status, _name(fields[at + 1])))
        at += 2
    return records, [field for field in fields[at:] if field]


def _name(path: bytes) -> str:
    return path.decode("utf-8", "replace")


def refuse_unpermitted(paths: Sequence[str], permits: Permits) -> None:
    """Refuse changes outside the scope, and workflow files that nobody permitted.

    Raises:
        PublishError: names the paths, and what lets them through.
    """
    changeable = Changeable(permits)
    outside = {path for path in paths if not changeable.in_scope(path)}
    if outside:
        globs = ", ".join(f"--scope {glob!r}" for glob in permits.scope)
        raise PublishError(
            f"a commit changes what lies outside {globs}: {_listed(outside)}; nothing was pushed: if it belongs to the work,"
            " publish with --scope and a glob for it as well",
            reason="outside_scope",
        )
    workflows = {path for path in paths if is_workflow(path)}
    if workflows and not permits.workflows:
        raise PublishError(
            f"a commit changes workflow files, which the forge runs as soon as they are pushed: {_listed(workflows)}; nothing was"
            " pushed: if that is wanted, publish with --allow-workflows (GitHub's token needs the workflows permission, too)",
            reason="workflow_file",
        )


def _refuse_submodules(records: list[RawChange], permits: Permits) -> None:
    for record in records if not permits.submodules else ():
        if record.path == ".gitmodules":
            what = "changes '.gitmodules', which says where submodules come from"
        elif record.new_mode == GITLINK:
            what = f"points {record.path!r} at a commit of another repository (a submodule)"
        elif record.old_mode == GITLINK:
            what = f"removes the submodule {record.path!r}"
        else:
            continue
        raise PublishError(
            f"the work {what}; nothing was pushed: leave that out, make it by hand, or publish with --allow-submodules",
            reason="gitlink",
        )


async def _refuse_big_blobs(git: Git, git_dir: Path, base: str, head: str, most: int) -> None:
    """Sizes are looked at uncompressed: a tiny pack can hold a huge file."""
    objects = await git.run("rev-list", "--objects", head, "--not", base, git_dir=git_dir, ceilings=HOSTILE)
    sizes = await git.run(
        *("cat-file", "--batch-check=%(objecttype) %(objectsize) %(rest)"),
        git_dir=git_dir,
        stdin=objects.stdout,
        ceilings=HOSTILE,
    )
    for line in sizes.stdout.split(b"\n"):
        kind, _, rest = line.partition(b" ")
        size, _, path = rest.partition(b" ")
        if kind == b"blob" and int(size) > most:
            raise PublishError(
                f"{_name(path)!r} has {int(size):,} bytes in one of the commits, and forges take at most {most:,};"
                " nothing was pushed: leave the file out of every commit",
                reason="blob_too_big",
            )


def _remarks(records: list[RawChange]) -> Iterator[str]:
    for what, names in RUNS_ELSEWHERE.items():
        touched = {r.path for r in records if _is_one_of(r.path, names)}
        if touched:
            yield f"It touches {what}: {_listed(touched)}."
    links = {r.path for r in records if r.new_mode == LINK}
    if links:
        yield f"It adds or changes symbolic links: {_listed(links)}."
    modes = {r.path for r in records if r.old_mode != r.new_mode and r.new_mode == EXECUTABLE}
    if modes:
        yield f"It makes files executable: {_listed(modes)}."
    plain = {r.path for r in records if r.old_mode == EXECUTABLE and r.new_mode == PLAIN}
    if plain:
        yield f"It makes files no longer executable: {_listed(plain)}."
    modules = {r.path for r in records if GITLINK in (r.old_mode, r.new_mode)}
    if modules:
        yield f"It changes submodules: {_listed(modules)}."
    workflows = {r.path for r in records if is_workflow(r.path)}
    if workflows:
        yield f"It touches workflow files, which run on the forge: {_listed(workflows)}."


def _is_one_of(path: str, names: tuple[str, ...]) -> bool:
    last = path.rpartition("/")[2]
    return any(path.startswith(name) if name.endswith("/") else name in (path, last) for name in names)


def _listed(paths: set[str]) -> str:
    names = sorted(paths)
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(f"`{name}`" for name in names[:NAMED]) + rest
