"""Repositories, bundles and packs for tests: made by plain git in an environment of its own, or byte by byte."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "a"), ("EMAIL", "a@example.invalid"))
}
BRANCH = "agent/s1"
REF = f"refs/heads/{BRANCH}"


def git(*args: str, cwd: Path, stdin: bytes = b"", ok: bool = True) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8", **IDENTITY}
    done = subprocess.run(["git", *args], cwd=cwd, input=stdin, capture_output=True, env=env, check=False)
    if ok and done.returncode:
        raise AssertionError(f"git {args}: {done.stderr.decode()}")
    return done.stdout.decode("utf-8", "replace").strip() if ok else f"{done.returncode} {done.stderr.decode()}"


@dataclass(frozen=True)
class Origin:
    """A bare origin, a working clone of it on the agent's branch, and the commit that both start from."""

    bare: Path
    clone: Path
    base: str

    @property
    def url(self) -> str:
        return self.bare.as_uri()

    def commit(self, files: Mapping[str, str | None], message: str = "work") -> str:
        for name, text in files.items():
            path = self.clone / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        git("add", "-A", cwd=self.clone)
        git("commit", "-q", "--allow-empty", "-m", message, cwd=self.clone)
        return git("rev-parse", "HEAD", cwd=self.clone)

    def bundle(self, path: Path, *revisions: str) -> Path:
        git("bundle", "create", "-q", str(path), *(revisions or (f"{self.base}..{REF}",)), cwd=self.clone)
        return path

    def refs(self) -> dict[str, str]:
        lines = git("for-each-ref", "--format=%(refname) %(objectname)", cwd=self.bare).splitlines()
        return {line.split(" ")[0]: line.split(" ")[1] for line in lines}


def make_origin(folder: Path, files: dict[str, str] | None = None) -> Origin:
    clone, bare = folder / "clone", folder / "origin.git"
    clone.mkdir(parents=True)
    git("init", "-q", "-b", "main", cwd=clone)
    made = Origin(bare, clone, "")
    base = made.commit(files or {"a.py": "one\n", "b.txt": "b\n"}, "base")
    git("clone", "-q", "--bare", str(clone), str(bare), cwd=folder)
    git("checkout", "-q", "-b", BRANCH, cwd=clone)
    return Origin(bare, clone, base)


OBJECT_KINDS = {"commit": 1, "tree": 2, "blob": 3}


def object_id(kind: str, data: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


def pack(objects: list[tuple[str, bytes]]) -> bytes:
    out = b"PACK" + struct.pack(">II", 2, len(objects))
    for kind, data in objects:
        size, number = len(data), OBJECT_KINDS[kind]
        byte = (number << 4) | (size & 15)
        size >>= 4
        head = bytearray()
        while size:
            head.append(byte | 0x80)
            byte = size & 0x7F
            size >>= 7
        head.append(byte)
        out += bytes(head) + zlib.compress(data)
    return out + hashlib.sha1(out, usedforsecurity=False).digest()


def tree(*entries: tuple[str, str, str]) -> bytes:
    return b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(oid) for mode, name, oid in entries)


def commit(tree_id: str, parent: str | None) -> bytes:
    who = "a <a@example.invalid> 1700000000 +0000"
    parents = f"parent {parent}\n" if parent else ""
    return f"tree {tree_id}\n{parents}author {who}\ncommitter {who}\n\nforged\n".encode()


def forged_bundle(path: Path, base: str, tree_data: bytes, *more: tuple[str, bytes], parent: str | None = None) -> str:
    """A bundle with one commit on top of the base whose tree is given byte by byte; returns the commit's id."""
    made = commit(object_id("tree", tree_data), parent or base)
    head = object_id("commit", made)
    header = f"# v2 git bundle\n-{base} base\n{head} {REF}\n\n".encode()
    path.write_bytes(header + pack([("commit", made), ("tree", tree_data), *more]))
    return head
