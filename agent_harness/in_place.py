"""A task on a person's own checkout: looked at, held against other sessions, and fit for a pull request when one is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio.to_thread

from agent_harness.archive import is_running, stored_sessions
from agent_harness.errors import ConfigError
from agent_harness.inert_git import Git, Transport
from agent_harness.origins import Origin, Reach, find_repository, look, origin_url
from agent_harness.surfaces.checkout import Checkout, Hold, HoldTaken, find_checkout
from agent_harness.surfaces.host import Place
from agent_harness.surfaces.host_facts import HostFacts, read_facts
from agent_harness.surfaces.host_profile import refuse_unusable
from agent_harness.surfaces.private_repo import PrivateRepository

OTHERWISE = "or use --surface local, which works on a clone"


async def take_place(git: Git, path: Path, sessions: Path, environ: Mapping[str, str], *, confined: bool) -> Place:
    """Look at the checkout and hold it; nothing is written.

    Args:
        git: the inert runner.
        path: the checkout, or a folder in it.
        sessions: where sessions are kept.
        environ: of the person.
        confined: commands will run in bubblewrap.

    Raises:
        ConfigError: it is none, another session works in it, or its place forbids it.
    """
    top, git_dir = find_repository(path)
    if top == git_dir:
        raise ConfigError(f"{str(top)!r} is a bare repository: there are no files to work on in place; use --surface local")
    checkout = find_checkout(top)
    home, private = _real_places(environ, sessions)
    refuse_unusable(checkout, home, private, confined=confined)
    try:
        hold = Hold(checkout.root, "this one")
    except HoldTaken as taken:
        other = await anyio.to_thread.run_sync(who_works_in, checkout.root, sessions)
        raise ConfigError(f"{other} {taken}") from taken
    try:
        return Place(checkout, hold, await read_facts(git, checkout, home, environ), home, private, environ)
    except BaseException:
        hold.release()
        raise


def _real_places(environ: Mapping[str, str], sessions: Path) -> tuple[Path, tuple[Path, ...]]:
    return Path(environ.get("HOME") or Path.home()).resolve(), (sessions.resolve(),)


def who_works_in(root: Path, sessions: Path) -> str:
    """The session that does, as the beginning of a sentence."""
    for session in stored_sessions(sessions):
        if session.started.get("surface") == "host" and session.task("repo") == str(root) and is_running(session):
            return f"session {session.id}"
    return "another session"


async def origin_of(git: Git, place: Place, base: str | None, transport_of: Reach, *, publishes: bool) -> Origin:
    """What the session starts from, and with `publishes` where its work goes.

    Args:
        git: the inert runner.
        place: the checkout.
        base: the branch to propose to.
        transport_of: how git gets to the URL of the `origin`.
        publishes: a pull request is wanted.

    Raises:
        ConfigError: a pull request is wanted, and the checkout is not what the origin has.
    """
    checkout, facts = place.checkout, place.facts
    here = Transport(str(checkout.git_dir))
    branch = facts.branch or "HEAD"
    if not publishes:
        if base is not None:
            raise ConfigError(f"--base {base!r} is where a pull request would go, and work in place opens none without --pr")
        default = facts.symrefs.get("refs/remotes/origin/HEAD", "").removeprefix("refs/remotes/origin/")
        return Origin(here, None, "HEAD", facts.head, branch, default or facts.branch, checkout.root)
    if not facts.head:
        raise ConfigError(f"{str(checkout.root)!r} has no commits yet; make a first commit and push it, then delegate")
    url = await origin_url(git, checkout.root, checkout.git_dir)
    if not url:
        raise ConfigError(f"{str(checkout.root)!r} has no remote 'origin' to push to; add one, or leave --pr out")
    target = await transport_of(url)
    refs = await look(git, target)
    wanted = base or (facts.branch if f"refs/heads/{facts.branch}" in refs.refs else refs.default_branch)
    if wanted is None or f"refs/heads/{wanted}" not in refs.refs:
        raise ConfigError(f"the origin {target.safe_url!r} has no branch {wanted or branch!r}; push it first, {OTHERWISE}")
    await _refuse_what_is_not_there(git, place, wanted, refs.refs[f"refs/heads/{wanted}"])
    return Origin(here, target, "HEAD", facts.head, wanted, refs.default_branch or wanted, checkout.root)


async def _refuse_what_is_not_there(git: Git, place: Place, base: str, remote_head: str) -> None:
    """A pull request shows HEAD plus what the session changed: both must be told from what the person has not pushed."""
    checkout, facts = place.checkout, place.facts
    with TemporaryDirectory(prefix="agent-harness-") as folder:
        private = PrivateRepository(git, Path(folder) / "look.git", checkout)
        await private.create(facts.whole, place.home, place.environ)
        on_origin = facts.head == remote_head or await private.contains(
            facts.head, (remote_head, await _tracking(git, checkout, base))
        )
        if not on_origin:
            raise ConfigError(
                f"HEAD of {str(checkout.root)!r} ({facts.head[:12]}) is not on {base!r} of its origin, so a pull request would "
                f"carry your own commits, too; push it first, {OTHERWISE}"
            )
        if not await private.is_clean(facts.head):
            raise ConfigError(
                f"{str(checkout.root)!r} has changes that are not committed, which a pull request could not be told from the "
                f"agent's; commit and push them, undo an earlier session's with `agent-harness restore`, {OTHERWISE} of HEAD"
            )


async def _tracking(git: Git, checkout: Checkout, base: str) -> str:
    found = await git.run(
        "rev-parse", "-q", "--verify", f"refs/remotes/origin/{base}^{{commit}}", git_dir=checkout.git_dir, ok=(0, 1, 128)
    )
    return found.text or "0" * 40


def without_bubblewrap(error: ConfigError) -> ConfigError:
    """The refusal when the sandbox does not work, with the way that is left on a person's own checkout."""
    return ConfigError(f"{error}; --no-confine works without it, and then nothing but the guards' reading confines commands")


def describe_unconfined(facts: HostFacts) -> str:
    """What a person is told at the start when nothing confines commands."""
    where = f" on {facts.branch!r}" if facts.branch else ""
    return (
        f"NOT CONFINED (--no-confine): the agent's commands run{where} with your own rights. They can read your home, keys and "
        "tokens, speak to your ssh agent and other sockets, write anywhere that you can, also .git, and use the network. What is "
        "left are the guards, which only read commands, and the snapshot of the checkout"
    )
