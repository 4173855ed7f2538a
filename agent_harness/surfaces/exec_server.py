"""Runs inside the sandbox as its process 1: starts commands on request, reports how they ended, and lets nothing outlive them.

Standard library only; started as `python3 -I -S exec_server.py FD`. FD is one end of a SOCK_SEQPACKET pair. Each request is one
JSON object, with file descriptors beside it where it starts a command:

    {"id": N, "argv": [...], "cwd": "/..."} + stdin, output  -> {"id": N, "rc": R, "strays": S} when it has ended
    {"id": N, "signal": S}                                   sends a signal to the whole tree of that command
"""

import array
import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys

MAX_REQUEST = 1 << 20
PR_SET_DUMPABLE = 4
LIMITS = ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_NPROC, 1024), (resource.RLIMIT_FSIZE, 4 << 30))


def main() -> None:
    """Serve until the host closes its end."""
    host = socket.socket(fileno=int(sys.argv[1]))
    host.set_inheritable(False)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    for limit, value in LIMITS:
        resource.setrlimit(limit, (value, value))
    os.nice(5)
    write_once("/proc/self/oom_score_adj", b"1000")
    jobs: dict[int, int] = {}
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, ignore)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(host, select.POLLIN)
    poll.register(woken, select.POLLIN)
    host.send(b'{"ready": true}')
    while True:
        for fd, _ in poll.poll():
            if fd == woken:
                os.read(woken, 4096)
                reap(host, jobs)
            elif not serve(host, jobs):
                return


def ignore(number: int, frame: object) -> None:
    """A handler must be there for the wake-up descriptor to be written to."""
    del number, frame


def serve(host: socket.socket, jobs: dict[int, int]) -> bool:
    """Take one request; False when the host is gone."""
    fds = array.array("i")
    message, ancillary, _, _ = host.recvmsg(MAX_REQUEST, socket.CMSG_SPACE(2 * fds.itemsize), socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if not message:
        return False
    request = json.loads(message)
    if "signal" in request:
        pid = next((pid for pid, job in jobs.items() if job == request["id"]), None)
        if pid is not None:
            signal_tree(pid, request["signal"])
        return True
    try:
        pid = start(request["argv"], request["cwd"], fds[0], fds[1])
        jobs[pid] = request["id"]
    except OSError as error:
        os.write(fds[1], f"{error.filename or request['argv'][0]}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
        reply(host, {"id": request["id"], "rc": 127 if isinstance(error, FileNotFoundError) else 126})
    for fd in fds:
        os.close(fd)
    return True


def start(argv: list[str], cwd: str, stdin: int, output: int) -> int:
    """Run a program as the leader of a session of its own. `posix_spawn` copies no page tables, and only we change directory."""
    os.chdir(cwd)
    try:
        return os.posix_spawnp(
            argv[0],
            argv,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)],
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    finally:
        os.chdir("/")


def reap(host: socket.socket, jobs: dict[int, int]) -> None:
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
            reply(host, {"id": job, "rc": code if code >= 0 else 128 - code, "strays": end_strays(jobs)})


def end_strays(jobs: dict[int, int]) -> int:
    """End every process that no running command owns; returns how many there were."""
    ended = 0
    while True:
        parents = processes()
        owned = set(jobs)
        grew = True
        while grew:
            more = {pid for pid, (parent, session) in parents.items() if parent in owned or session in owned} - owned
            grew = bool(more)
            owned |= more
        strays = [pid for pid in parents if pid not in owned and pid != 1]
        if not strays:
            return ended
        for pid in strays:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for pid in strays:
            # Orphans became our children; one that is still another's is collected by that one, which is a stray too.
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                continue
        ended += len(strays)


def processes() -> dict[int, tuple[int, int]]:
    """Every living process: pid -> parent and session."""
    found: dict[int, tuple[int, int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - as above
        if name.isdigit():
            try:
                fields = read_once(f"/proc/{name}/stat").rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] != b"Z":
                found[int(name)] = (int(fields[1]), int(fields[3]))
    return found


def signal_tree(leader: int, number: int) -> None:
    """Send a signal to a command and to everything below it or in its session."""
    parents = processes()
    tree = {leader}
    grew = True
    while grew:
        more = {pid for pid, (parent, session) in parents.items() if parent in tree or session in tree} - tree
        grew = bool(more)
        tree |= more
    for pid in tree - {1}:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def read_once(path: str) -> bytes:
    """A small file. `pathlib` would cost a third of the server's start."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def write_once(path: str, data: bytes) -> None:
    """Write a small file that is there."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, data)
    os.close(fd)


def reply(host: socket.socket, answer: dict[str, object]) -> None:
    """Send one answer to the host."""
    host.send(json.dumps(answer).encode())


main()
