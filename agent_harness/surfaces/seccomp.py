"""The system calls that nothing in the sandbox may make, as a classic BPF program for `bwrap --seccomp`.

The rest of the profile already takes away what these calls would reach; this closes the kernel's surface itself. Most answer
EPERM; `clone3` answers ENOSYS, because its flags cannot be read from here and libc then falls back to `clone`, whose flags can.
Numbers are the kernel's own, per architecture.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

LD_ABS, JEQ, JGE, JSET, RET = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NUMBER_AT, ARCH_AT, ARG0_AT, ARG1_AT = 0, 4, 16, 24  # offsets in struct seccomp_data; the low halves of the arguments
NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* flag that clone() takes
FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink
TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
X32_BIT = 0x40000000

COMMON = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 443, 467)
"""io_uring, the new mount calls, pidfd_getfd, quotactl_fd: the same numbers everywhere."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """Numbers of one architecture: its audit id, the calls that are denied, and those whose arguments decide."""

    audit: int
    denied: tuple[int, ...]
    clone: int
    socket: int
    ioctl: int
    clone3: int = 435


ARCHITECTURES = {
    "x86_64": Architecture(
        audit=0xC000003E,
        denied=(
            *(165, 166, 155, 161, 272, 308),  # mount, umount2, pivot_root, chroot, unshare, setns
            *(101, 310, 311),  # ptrace, process_vm_readv, process_vm_writev
            *(248, 249, 250, 321, 298, 323, 304),  # keys, bpf, perf_event_open, userfaultfd, open_by_handle_at
            *(175, 313, 176, 246, 320, 169, 167, 168),  # modules, kexec, reboot, swap
            *(164, 227, 305, 159, 179, 163, 103, 172, 173, 212, 153),  # clocks, quota, acct, syslog, ports, dcookie, vhangup
        ),
        clone=56,
        socket=41,
        ioctl=16,
    ),
    "aarch64": Architecture(
        audit=0xC00000B7,
        denied=(
            *(40, 39, 41, 51, 97, 268),
            *(117, 270, 271),
            *(217, 218, 219, 280, 241, 282, 265),
            *(105, 273, 106, 104, 294, 142, 224, 225),
            *(170, 112, 266, 171, 60, 89, 116, 18, 58),
        ),
        clone=220,
        socket=198,
        ioctl=29,
    ),
}


def program(machine: str = platform.machine()) -> bytes | None:
    """The filter for that architecture; None where we have no numbers for it."""
    arch = ARCHITECTURES.get(machine)
    if arch is None:
        return None
    denied = (*arch.denied, *COMMON)
    code: list[tuple[int, int, int, int]] = [
        (LD_ABS, 0, 0, ARCH_AT),
        (JEQ, 1, 0, arch.audit),
        (RET, 0, 0, ERRNO | errno.EPERM),  # another architecture's calls are not ours to number
        (LD_ABS, 0, 0, NUMBER_AT),
    ]
    if machine == "x86_64":
        code += [(JGE, 0, 1, X32_BIT), (RET, 0, 0, ERRNO | errno.ENOSYS)]
    code += [(JEQ, 0, 1, arch.clone3), (RET, 0, 0, ERRNO | errno.ENOSYS)]
    code += [
        *((JEQ, 0, 3, arch.clone), (LD_ABS, 0, 0, ARG0_AT), (JSET, 0, 1, NEW_NAMESPACES)),
        *((RET, 0, 0, ERRNO | errno.EPERM), (LD_ABS, 0, 0, NUMBER_AT)),
    ]
    families = [(JEQ, len(FAMILIES) - position, 0, family) for position, family in enumerate(FAMILIES)]
    code += [
        (JEQ, 0, len(families) + 2, arch.socket),
        (LD_ABS, 0, 0, ARG0_AT),
        *families,
        (RET, 0, 0, ERRNO | errno.EPERM),
        (LD_ABS, 0, 0, NUMBER_AT),
    ]
    code += [
        *((JEQ, 0, 4, arch.ioctl), (LD_ABS, 0, 0, ARG1_AT)),
        *((JEQ, 1, 0, TERMINAL_INPUT[0]), (JEQ, 0, 1, TERMINAL_INPUT[1])),
        *((RET, 0, 0, ERRNO | errno.EPERM), (LD_ABS, 0, 0, NUMBER_AT)),
    ]
    code += [(JEQ, len(denied) - position, 0, number) for position, number in enumerate(denied)]
    code += [(RET, 0, 0, ALLOW), (RET, 0, 0, ERRNO | errno.EPERM)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)
