"""Containers: what runs inside one can only delete what is mounted from outside."""

from __future__ import annotations

from agent_harness.guards.machine import Handler, Invocation, Machine
from agent_harness.guards.marks import HOLE
from agent_harness.guards.options import leading, pair, values_of
from agent_harness.guards.state import State
from agent_harness.guards.targets import absolute

_TAKING = (
    "-v --volume --mount -e --env --env-file -w --workdir -u --user -p --publish --name --network "
    "--net --entrypoint -h --hostname -l --label --add-host "
    "--cpus -m --memory --platform --restart --tmpfs "
    "--device --cap-add --cap-drop --security-opt --gpus --shm-size --ulimit --pull -c --ipc --pid"
)


def _container(machine: Machine, inv: Invocation) -> list[State]:
    _, words = leading(inv.args, "--context -H --host --config -l --log-level")
    if words[:1] == ["container"]:
        words = words[1:]
    if words[:1] not in (["run"], ["create"]):
        inv.state.say(HOLE)
        return [inv.state.done(None)]
    options, rest = leading(words[1:], _TAKING)
    mounts = [mount for name, value in options if name in ("-v", "--volume", "--mount") and (mount := _mount(inv.state, value))]
    state = inv.state.copy()
    state.mounts = tuple(mounts)
    state.cwd = next(iter(values_of(words[1:], "-w --workdir", _TAKING)), "/")
    entry = next((value for name, value in options if name == "--entrypoint"), "")
    argv = ([entry] if entry else []) + rest[1:]
    if argv:
        machine.dispatch(Invocation(argv, state, inv.env))
    inv.state.say(HOLE)
    return [inv.state.done(None)]


def _mount(state: State, value: str) -> tuple[str, str] | None:
    """(folder inside, folder of the host) of one mount; None for a named volume."""
    if "=" in value:
        parts = dict(pair(part, "=") for part in value.split(","))
        source = parts.get("source") or parts.get("src") or ""
        target = parts.get("target") or parts.get("dst") or parts.get("destination") or ""
    else:
        source, _, target = value.partition(":")
        target = target.partition(":")[0]
    if not source.startswith(("/", ".", "~", HOLE)) or not target:
        return None
    return target, absolute(source, state) or HOLE


CONTAINERS: dict[str, Handler] = {"docker": _container, "podman": _container, "nerdctl": _container}
