"""Runs the detectors of `detect-secrets` over a patch, in a process of its own: a line that makes a pattern hang costs one push.

Run as a program. Standard input: the patch. Standard output: a JSON list of `[path, line, rule, SHA-1 of the secret]` of
what is new in the range. Nothing is verified, so nothing is asked over the network: each detector's patterns alone are used.
"""

from __future__ import annotations

import hashlib
import json
import re
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from types import ModuleType
from typing import Protocol

from agent_harness.publishing.patch import Line, only_new, read_patch

CPU_S = 120
MEMORY = 1 << 30
WINDOW, OVERLAP = 2_000, 400  # characters that are looked at together: some patterns take the square of them
KEYWORD_CHARS = 300  # of a line that is searched for words such as "password": those patterns take the cube
KEYWORD = re.compile(r"key|pass|pwd|secret|contrase", re.IGNORECASE)
PRINTABLE = re.compile(r"[^\0-\x08\x0e-\x1f\x7f-\x9f\ufffd]{8,}")  # what may be text in a file that is none
MAX_FOUND = 1_000
# Randomness alone says little about code (hashes, identifiers, test data), and addresses are no credentials.
LEFT_OUT = ("Base64 High Entropy String", "Hex High Entropy String", "Public IP (ipv4)")
SLOW = "Secret Keyword"

Row = tuple[str, int, str, str]


class Detector(Protocol):
    """What is used of a detector of the package."""

    @property
    def secret_type(self) -> str:
        """What it looks for."""
        ...

    def analyze_string(self, string: str) -> Iterator[str]:
        """The secrets in one line."""
        ...


class NoNetwork(ModuleType):
    """Stands for the HTTP client that the package imports to verify what it finds: that takes most of the start-up time."""

    Response = object


class Detectors:
    """One of each detector that is used."""

    def __init__(self) -> None:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
        from detect_secrets.filters import heuristic

        self._no_secret: tuple[Callable[[str], bool], ...] = (
            *(heuristic.is_sequential_string, heuristic.is_potential_uuid, heuristic.is_templated_secret),
            *(heuristic.is_prefixed_with_dollar_sign, heuristic.is_not_alphanumeric_string),
        )
        kinds = get_mapping_from_secret_type_to_class()
        self._all: Sequence[Detector] = [kind() for name, kind in kinds.items() if name not in LEFT_OUT]

    def found_in(self, text: str) -> Iterator[tuple[str, str]]:
        """(rule, secret) of everything in one line that looks like a credential."""
        for detector in self._all:
            for secret in _secrets(detector, text):
                if secret and "EXAMPLE" not in secret and not any(harmless(secret) for harmless in self._no_secret):
                    yield detector.secret_type, secret

    def may_hold(self, block: str) -> bool:
        """Whether one of the lines may hold something; much faster than asking line by line."""
        quick = (detector for detector in self._all if detector.secret_type != SLOW)
        return any(next(detector.analyze_string(block), None) is not None for detector in quick)


def _secrets(detector: Detector, text: str) -> Iterator[str]:
    if detector.secret_type == SLOW:
        if len(text) <= KEYWORD_CHARS and KEYWORD.search(text):
            yield from detector.analyze_string(text)
        return
    for start in range(0, max(1, len(text) - OVERLAP), WINDOW - OVERLAP):
        yield from detector.analyze_string(text[start : start + WINDOW])


def suspects(lines: Iterable[Line], detectors: Detectors) -> Iterator[Line]:
    """The lines that are worth a closer look, in their order."""
    block: list[Line] = []
    size = 0

    def sift() -> Iterator[Line]:
        some = detectors.may_hold("\n".join(line.text for line in block))
        yield from (line for line in block if some or KEYWORD.search(line.text))

    for whole in lines:
        line = whole if whole.text.isprintable() else replace(whole, text=" ".join(PRINTABLE.findall(whole.text)))
        if len(line.text) > WINDOW // 2:
            yield from sift()
            block, size = [], 0
            yield line
            continue
        if size + len(line.text) > WINDOW:
            yield from sift()
            block, size = [], 0
        block.append(line)
        size += len(line.text) + 1
    yield from sift()


def scan(lines: Iterable[Line]) -> list[Row]:
    """What the range adds."""
    detectors = Detectors()
    found = (
        (line, rule, hashlib.sha1(secret.encode("utf-8", "replace"), usedforsecurity=False).hexdigest())
        for line in suspects(lines, detectors)
        for rule, secret in detectors.found_in(line.text)
    )
    rows = ((line.path, line.number, rule, digest) for line, rule, digest in only_new(found))
    return list(dict.fromkeys(islice(rows, MAX_FOUND)))


def main() -> None:
    """Answer one request."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.modules["requests"] = NoNetwork("requests")
    sys.stdout.write(json.dumps(scan(read_patch(sys.stdin.buffer))))


if __name__ == "__main__":
    main()
