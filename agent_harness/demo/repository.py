"""Makes the demo's repository: a small real program with one bug and a test that fails because of it. The seed decides which."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from agent_harness.demo import programs
from agent_harness.inert_git import Git

EPOCH = 1_767_225_600  # 2026-01-01 UTC: the same seed makes the same commits on any day
AUTHOR = "Demo Author <author@demo.invalid>"


@dataclass(frozen=True, slots=True)
class DemoRepository:
    """Files of a repository, and what is wrong with it.

    Attributes:
        package: name of the repository and of its Python package.
        files: path -> text, as on `main`.
        buggy: path of the file with the bug.
        wrong: the line as it is.
        right: the line as it should be.
        failing: name of the test method that fails because of it.
    """

    package: str
    files: Mapping[str, str]
    buggy: str
    wrong: str
    right: str
    failing: str

    def write(self, folder: Path, *, mended: bool = False) -> None:
        """Write the files into a folder, with or without the bug."""
        for path, text in self.files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace(self.wrong, self.right) if mended and path == self.buggy else text, encoding="utf-8")


def make_repository(seed: int) -> DemoRepository:
    """The repository of that seed. Neighbouring seeds have different bugs, and names of their own."""
    program = programs.PROGRAMS[seed % len(programs.PROGRAMS)]
    random = Random(seed)
    words = {name: random.choice(values) for name, values in program.choices.items()}
    words["module"] = random.choice(program.modules)
    words["package"] = f"{random.choice(programs.FIRST_NAMES)}_{random.choice(programs.LAST_NAMES)}"

    def filled(text: str) -> str:
        return re.sub(r"@(\w+)@", lambda match: _word(match[1], words), text)

    package, module = words["package"], words["module"]
    wrong, right = filled(program.wrong), filled(program.right)
    buggy = f"{package}/{module}.py"
    tests = programs.MODULE_TESTS.replace("@TESTS@", program.tests)
    files = {
        ".gitignore": "__pycache__/\n",
        "README.md": filled(programs.README.replace("@ABOUT@", program.about)),
        f"{package}/__init__.py": "",
        f"{package}/labels.py": programs.LABELS,
        buggy: filled(program.source.replace("@LINE@", wrong)),
        "tests/__init__.py": "",
        "tests/test_labels.py": filled(programs.LABEL_TESTS),
        f"tests/test_{module}.py": filled(tests),
    }
    return DemoRepository(package, files, buggy, wrong, right, filled(program.failing))


async def make_origin(git: Git, repository: DemoRepository, path: Path) -> None:
    """Make a bare repository with two commits on `main`: the program, then its module with the bug and its tests.

    Raises:
        GitFailed: git could not.
    """
    await git.run("init", "--quiet", "--bare", "--initial-branch=main", str(path), git_dir=path)
    first = {name: text for name, text in repository.files.items() if name not in _added_later(repository)}
    stream = _commit(1, "Labels for narrow columns", first) + _commit(2, f"Add {repository.buggy}", repository.files)
    await git.run("fast-import", "--quiet", git_dir=path, stdin=stream)


def _added_later(repository: DemoRepository) -> tuple[str, ...]:
    module = Path(repository.buggy).name
    return repository.buggy, f"tests/test_{module}"


def _commit(number: int, message: str, files: Mapping[str, str]) -> bytes:
    """One commit in the format of `git fast-import`, on top of the one before."""
    when = f"{EPOCH + 3_600 * number} +0000"
    stream = f"commit refs/heads/main\nauthor {AUTHOR} {when}\ncommitter {AUTHOR} {when}\n".encode() + _data(message)
    for path, text in sorted(files.items()):
        stream += f"M 100644 inline {path}\n".encode() + _data(text)
    return stream


def _data(text: str) -> bytes:
    content = text.encode()
    return b"data %d\n%s\n" % (len(content), content)


def _word(name: str, words: Mapping[str, str]) -> str:
    """`@module@` and `@Module@`: a capital asks for a capital."""
    found = words.get(name)
    return words[name.lower()].title() if found is None else found
