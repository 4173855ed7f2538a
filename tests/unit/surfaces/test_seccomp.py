"""The filter: judged by an interpreter of our own for both architectures, and by the kernel in a real sandbox for this one."""

from __future__ import annotations

import errno
import platform
import struct
from pathlib import Path

import pytest

from agent_harness.surfaces import bwrap, seccomp
from agent_harness.surfaces.sandbox import run_once

ALLOWED = 0
UNAME, GETPID = {"x86_64": 63, "aarch64": 160}, {"x86_64": 39, "aarch64": 172}
MACHINES = tuple(seccomp.ARCHITECTURES)


def verdict(machine: str, number: int, *arguments: int, audit: int | None = None) -> int:
    """The error that the filter gives this call, 0 when it lets it pass."""
    arch = seccomp.ARCHITECTURES[machine]
    code = seccomp.program(machine)
    assert code is not None
    padded = [*arguments, *([0] * (6 - len(arguments)))]
    data = struct.pack("<IIQ6Q", number, arch.audit if audit is None else audit, 0, *padded)
    accumulator, at = 0, 0
    while True:
        operation, if_true, if_false, value = struct.unpack_from("HBBI", code, at * 8)
        at += 1
        match operation:
            case seccomp.LD_ABS:
                (accumulator,) = struct.unpack_from("<I", data, value)
            case seccomp.RET:
                return ALLOWED if value == seccomp.ALLOW else value & 0xFFFF
            case seccomp.JEQ:
                at += if_true if accumulator == value else if_false
            case seccomp.JGE:
                at += if_true if accumulator >= value else if_false
            case seccomp.JSET:
                at += if_true if accumulator & value else if_false
            case _:
                raise AssertionError(f"unknown instruction {operation:#x}")


@pytest.mark.parametrize("machine", MACHINES)
def test_every_listed_call_is_refused_and_ordinary_ones_pass(machine: str) -> None:
    arch = seccomp.ARCHITECTURES[machine]
    assert {verdict(machine, number) for number in (*arch.denied, *seccomp.COMMON)} == {errno.EPERM}
    assert verdict(machine, UNAME[machine]) == ALLOWED
    assert verdict(machine, GETPID[machine]) == ALLOWED
    passing = [n for n in range(400) if verdict(machine, n, 1) == ALLOWED]
    assert len(passing) > 300


@pytest.mark.parametrize("machine", MACHINES)
def test_clone_passes_without_namespaces_and_clone3_is_not_there(machine: str) -> None:
    arch = seccomp.ARCHITECTURES[machine]
    assert verdict(machine, arch.clone, 0x01200011) == ALLOWED, "a plain fork"
    assert verdict(machine, arch.clone, 0x003D0F00) == ALLOWED, "a thread"
    for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert verdict(machine, arch.clone, flag | 17) == errno.EPERM, hex(flag)
    assert verdict(machine, arch.clone3) == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_only_four_families_of_sockets_can_be_made(machine: str) -> None:
    arch = seccomp.ARCHITECTURES[machine]
    assert [family for family in range(50) if verdict(machine, arch.socket, family, 1) == ALLOWED] == [1, 2, 10, 16]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_terminal_cannot_be_typed_into(machine: str) -> None:
    arch = seccomp.ARCHITECTURES[machine]
    assert verdict(machine, arch.ioctl, 0, 0x5412) == errno.EPERM
    assert verdict(machine, arch.ioctl, 0, 0x541C) == errno.EPERM
    assert verdict(machine, arch.ioctl, 0, (1 << 32) | 0x5412) == errno.EPERM, "the kernel looks at the low half only"
    assert verdict(machine, arch.ioctl, 0, 0x5401) == ALLOWED


def test_calls_of_another_architecture_or_numbering_are_refused() -> None:
    assert verdict("x86_64", 39, audit=0x40000003) == errno.EPERM
    assert verdict("x86_64", 39 | seccomp.X32_BIT) == errno.ENOSYS


def test_a_machine_without_numbers_gets_no_filter() -> None:
    assert seccomp.program("sparc64") is None


CALLS = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
for number in map(int, sys.argv[1:]):
    libc.syscall(number, 0, 0, 0, 0, 0, 0)
    print(number, ctypes.get_errno())
"""


@pytest.mark.anyio
async def test_the_kernel_agrees_in_a_real_sandbox(tmp_path: Path) -> None:
    arch = seccomp.ARCHITECTURES[platform.machine()]
    numbers = [str(number) for number in (*arch.denied, *seccomp.COMMON)]
    said: list[bytes] = []
    argv = ["python3", "-I", "-c", CALLS, *numbers]
    result = await run_once(bwrap.Profile(tmp_path), argv, "/workspace", 30, lambda data: said.append(data), b"")
    assert result.exit_code == 0
    assert b"".join(said).decode().split("\n") == [*(f"{number} {errno.EPERM}" for number in numbers), ""]
