"""Runs inside the sandbox as its process 1: starts commands on request, reports how they ended, and lets nothing outlive them.

Standard library only; started as `python3 -I -S exec_server.py FD MOST`. FD is one end of a SOCK_SEQPACKET pair, MOST
the number of processes from which on all are ended. A request is fields
with a NUL between them, with two file descriptors beside it where it starts a command; an answer is a JSON object:

    run, N, folder, argv...  + stdin, output  -> {"id": N, "rc": R, "strays": S} when it has ended
    signal, N, S                                 sends a signal to the whole tree of that command

`socket` and `json` would double the time that this takes to start: of the one only the C half is used, the other is hand-made.
"""

import ctypes
import os
import resource
import select
import signal
import sys
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOL_SOCKET, socket
from time import monotonic

MAX_REQUEST = 1 << 18
PR_SET_DUMPABLE = 4
LIMITS = ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 4 << 30))
COUNT_MS = 250  # between two counts of the processes while a command runs: the kernel keeps no limit for root
JOB = b"AGENT_JOB"
FAREWELL_S = 0.1  # what a command left running may still end by itself, such as `tee` behind a process substitution
LAST_S = 5.0


def main() -> None:
    """Serve until the host closes its end."""
    host = socket(fileno=int(sys.argv[1]))
    os.set_inheritable(host.fileno(), False)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # process 1 ignores what it has no handler for, and Python has one
    most = int(sys.argv[2])
    for limit, value in ((resource.RLIMIT_NPROC, most), *LIMITS):
        resource.setrlimit(limit, (value, value))
    os.nice(5)
    write_once("/proc/self/oom_score_adj", b"1000")
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # last: from now on /proc/self is not ours
    jobs: dict[int, int] = {}
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, ignore)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(host.fileno(), select.POLLIN)
    poll.register(woken, select.POLLIN)
    host.send(b'{"ready": true}')
    counted = 0.0
    while True:
        ready = poll.poll(COUNT_MS if jobs else None)
        if jobs and monotonic() - counted > COUNT_MS / 1000:
            counted = monotonic()
            if sum(map(str.isdigit, os.listdir("/proc"))) > most:  # noqa: PTH208 - as below
                kill(-1, signal.SIGKILL)
        for fd, _ in ready:
            if fd == woken:
                os.read(woken, 4096)
                reap(host, jobs)
            elif not serve(host, jobs):
                return


def ignore(number: int, frame: object) -> None:
    """A handler must be there for the wake-up descriptor to be written to."""
    del number, frame


def serve(host: socket, jobs: dict[int, int]) -> bool:
    """Take one request; False when the host is gone."""
    fds: list[int] = []
    message, ancillary, _, _ = host.recvmsg(MAX_REQUEST, CMSG_SPACE(2 * 4), MSG_CMSG_CLOEXEC)
    for level, kind, data in ancillary:
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            fds += [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data) - 3, 4)]
    if not message:
        return False
    what, number, *rest = message.split(b"\0")
    job = int(number)
    if what == b"signal":
        signal_tree([pid for pid, other in jobs.items() if other == job], job, int(rest[0]))
        return True
    try:
        jobs[start(rest[1:], rest[0], job, fds[0], fds[1])] = job
    except OSError as error:
        name = os.fsencode(error.filename) if error.filename else rest[1]
        os.write(fds[1], name[:4096] + b": " + os.strerror(error.errno or 0).encode() + b"\n")
        reply(host, job, 127 if isinstance(error, FileNotFoundError) else 126, 0)
    for fd in fds:
        os.close(fd)
    return True


def start(argv: list[bytes], folder: bytes, job: int, stdin: int, output: int) -> int:
    """Run a program as the leader of a session of its own. `posix_spawn` copies no page tables, and only we change directory."""
    os.chdir(folder)
    try:
        return os.posix_spawnp(
            argv[0],
            argv,
            {**os.environb, JOB: b"%d" % job},
            file_actions=[(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)],
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    finally:
        os.chdir("/")


def reap(host: socket, jobs: dict[int, int]) -> None:
    """Collect every child that ended; a command's own end is reported after what it left running was ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        job = jobs.pop(pid, None)
        if job is not None:
            code = os.waitstatus_to_exitcode(status)
            reply(host, job, code if code >= 0 else 128 - code, end_strays(jobs))


def end_strays(jobs: dict[int, int]) -> int:
    """End every process that no running command owns; returns how many there were."""
    strays = find_strays(jobs)
    rounds = 10
    while strays and rounds:
        pause(FAREWELL_S / 10)
        strays = find_strays(jobs)
        rounds -= 1
    ended: set[int] = set()
    rounds = 1000
    while strays and rounds:
        ended |= strays
        if not jobs:
            kill(-1, signal.SIGKILL)  # the kernel reaches all of them at once, so no fork outruns it
        else:
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in strays:
                    kill(pid, number)
        for pid in strays:
            collect(pid)
        strays = find_strays(jobs)
        if strays:
            pause(LAST_S / 1000)
        rounds -= 1
    return len(ended)


def pause(seconds: float) -> None:
    """Wait for nothing."""
    select.select([], [], [], seconds)


def kill(pid: int, number: int) -> None:
    """Send a signal to what may be gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def collect(pid: int) -> None:
    """Collect a child that was killed; orphans became our children, what is still another's goes with that one."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def find_strays(jobs: dict[int, int]) -> set[int]:
    """Every living process that is neither below a running command, nor in its session, nor carries its mark."""
    found = processes()
    strays = found.keys() - grow(set(jobs), found) - {1}
    marks = {b"%d" % job for job in jobs.values()}
    marked = {pid for pid in strays if marks and mark(pid) in marks}
    return strays - grow(marked, found)


def grow(owned: set[int], found: dict[int, tuple[int, int]]) -> set[int]:
    """These processes, with everything below them or in their sessions."""
    while True:
        more = {pid for pid, (parent, session) in found.items() if parent in owned or session in owned} - owned
        if not more:
            return owned
        owned = owned | more


def processes() -> dict[int, tuple[int, int]]:
    """Every living process: pid -> parent and session."""
    found: dict[int, tuple[int, int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - `pathlib` would cost a third of the server's start
        if name.isdigit():
            fields = read_once(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if fields and fields[0] not in (b"Z", b"X"):
                found[int(name)] = (int(fields[1]), int(fields[3]))
    return found


def mark(pid: int) -> bytes:
    """The number of the command that a process was started for, as long as it keeps it in its environment."""
    for entry in read_once(f"/proc/{pid}/environ").split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == JOB:
            return value
    return b""


def signal_tree(leaders: list[int], job: int, number: int) -> None:
    """Send a signal to a command and to everything that belongs to it."""
    if not leaders:
        return
    found = processes()
    apart = found.keys() - grow(set(leaders), found)
    tree = grow(set(leaders) | {pid for pid in apart if mark(pid) == b"%d" % job}, found)
    for pid in tree - {1}:
        kill(pid, number)


def read_once(path: str) -> bytes:
    """The start of a file, empty when it can't be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 1 << 17)
    except OSError:
        return b""
    finally:
        os.close(fd)


def write_once(path: str, data: bytes) -> None:
    """Write a small file that is there."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, data)
    os.close(fd)


def reply(host: socket, job: int, code: int, strays: int) -> None:
    """Send one answer to the host."""
    host.send(b'{"id": %d, "rc": %d, "strays": %d}' % (job, code, strays))


main()
