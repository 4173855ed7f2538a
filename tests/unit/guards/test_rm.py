"""The rm guard, by kind of command."""

from __future__ import annotations

import pytest

from tests.fakes.data_world import HOME, ROOT, DataWorld
from tests.fakes.judging import git_verdict, refused, verdict

LINKS = DataWorld(links={f"{ROOT}/data": "/srv/data", f"{ROOT}/up": "..", f"{ROOT}/near": "build"})
BELOW = DataWorld(cwd=f"{ROOT}/src")

OUTSIDE = [
    "rm -rf ~",
    "rm -rf $HOME/.config",
    'rm -rf "$HOME"',
    "rm -r /opt/tools",
    "rm -rf /work",
    "rm -rf /code/project-old",
    "rm -rf build/../../other",
    "rm -rf / srv/cache",
    "rm -f ~/.profile",
    "rm -rf ~nobody/files",
    "rm -rf ~+/..",
    "rm notes.txt ~/notes.txt",
    "rm -- -x /etc/hosts",
    "rm -rf $UNSET/lib",
    "rm -rf ${UNSET:-/srv}",
    "rm -rf ${PWD%/*}",
    "rm -rf /{opt,srv}",
    "rm -rf ../*",
    "cd ..; rm -rf x",
    "cd /srv && rm -rf *",
    "cd; rm -rf .cache",
    "pushd /srv; rm -rf old; popd",
    "cd build && cd ../.. && rm -rf other",
    "cd nowhere; cd ..; rm -rf project",
    "D=/srv; rm -rf $D",
    "D=~; rm -rf $D/x",
    "D=srv; rm -rf /$D",
    "set -- /srv; rm -rf $1",
    "d=(build /srv); rm -rf ${d[@]}",
    "for d in build /srv; do rm -rf $d; done",
    "printf -v T %s /srv; rm -rf $T",
    "if test -d x; then D=build; else D=/srv; fi; rm -rf $D",
    "case $1 in a) D=/srv;; *) D=build;; esac; rm -rf $D",
    "D=build; false || D=/srv; rm -rf $D",
    "N=build; while true; do rm -rf $N; N=/srv; done",
    "rm -rf $(echo /srv)",
    "rm -rf `printf /srv`",
    "x=$(echo /srv) && rm -rf $x",
    "rm -rf $(dirname $PWD)",
    "rm -rf $(cat <<< /srv)",
    "D=/srv/x; rm -rf ${D%/x}",
    "D=xsrv; rm -rf /${D#x}",
    "D=//srv; rm -rf ${D/\\/\\//\\/}",
    "IFS=,; D=build,/srv; rm -rf $D",
    "unlink ~/.profile",
    "shred -u /etc/hosts",
    "rmdir /srv/empty",
    "truncate -s 0 /etc/hosts",
    "mv ~/notes build/",
    "mv -t build ~/notes",
    "rsync -a --delete src/ ~/backup/",
    "rsync -a --remove-source-files ~/notes/ build/",
    "dd if=/dev/zero of=/dev/nvme0n1",
    "mkfs.ext4 /dev/sdb1",
    "tar czf a.tgz --remove-files /srv/x",
    "cp /dev/null ~/.profile",
    ": > ~/.profile",
    "find / -name '*.o' -delete",
    "find ~ /srv -type f -exec rm {} +",
    "find . -name x -exec rm -rf /srv \\;",
    "find /srv -print0 | xargs -0 rm",
    "fd . /srv -X rm -rf",
    "echo /srv | xargs rm -rf",
    "printf '%s\\n' a /srv | while read -r d; do rm -rf \"$d\"; done",
    "xargs -I% rm -rf /%  <<< srv",
    "parallel rm -rf {} ::: build /srv",
    "GIT_WORK_TREE=/srv git clean -fd",
    "git -C /srv clean -fdx",
    "git worktree remove --force ../elsewhere",
    "docker run -v /srv:/data alpine rm -rf /data/x",
    "env --chd=/srv rm -rf x",
    "env -iC /srv rm -rf x",
    "ls\n\\rm -rf /srv",
    "ls $(date)\n  \\rm -rf /srv",
    "A=1 B=/srv\nrm -rf $B",
    "python3 -c \"import shutil; shutil.rmtree('/srv/x')\"",
    "python3 -c \"import os, glob; [os.remove(f) for f in glob.glob('/srv/*')]\"",
    "python3 -c \"import subprocess; subprocess.run(['rm', '-rf', '/srv'])\"",
    "perl -e 'unlink glob \"~/*\"'",
    "docker run --mount type=bind,source=/,target=/host alpine sh -c 'rm -rf /host/srv'",
]

WORKTREE = [
    "ls -a | xargs rm -rf",
    "rm -rf .",
    "rm -rf ./",
    'rm -rf "$PWD"',
    f"rm -rf {ROOT}",
    "rm -rf *",
    "rm -rf ./*",
    "rm -rf $(git rev-parse --show-toplevel)",
    "rm -rf .git",
    "rm -rf .git/objects .git/refs",
    "rm -f .git/hooks/pre-push",
    "rm -rf .g*",
    "cd .git && rm -rf hooks",
    "find . -delete",
    "find . -type f -delete",
    "find . ! -path './src/*' -delete",
    "find . -name .git -prune -o -delete",
    "mv .git /code/project/old-git",
    "rsync -a --delete empty/ ./",
    "> .git/config",
    "shopt -s dotglob; rm -rf *t",
    "rm -rf **/*",
    "rm -rf [a-z]*",
    "cd build & rm -rf *",
]

UNKNOWN = [
    "find build -exec rm -rf {}/../../../srv \\;",
    "rm -rf $(some-program)",
    "read D; rm -rf $D",
    "read D < list; rm -rf $D",
    "cat list | xargs rm -rf",
    "cd $(some-program) && rm -rf build",
    "rm -rf $UNSET",
    'find "$UNSET" -delete',
    "for d in $(cat list); do rm -rf $d; done",
    "D=$(some-program); rm -rf build/$D",
    "while read -r d; do rm -rf $d; done < list",
]

ALLOWED = [
    "rm -rf build dist *.egg-info",
    "rm -f src/app.o",
    f"rm -rf {ROOT}/build",
    "rm -rf ../project/build",
    "rm -rf build/*",
    "rm -rf build/.??*",
    "rm -rf **/__pycache__",
    "rm -rf '~' \"~\" \\~",
    "rm -rf ./..hidden",
    "rm -f .git/index.lock",
    "rm -rf .git/rebase-merge",
    "D=build; rm -rf $D ${D}-old",
    "D=build; rm -rf ${D:?}/lib",
    "rm -rf ${UNSET:?}/lib",
    "for d in build dist; do rm -rf $d; done",
    "for n in $(seq 3); do rm -rf build/$n; done",
    'for f in src/*.o; do rm -f "$f"; done',
    "cd build && rm -rf *",
    "(cd /srv && ls); rm -rf build",
    "cd /srv || exit 1; cd -; rm -rf build",
    "cd nowhere || exit 1; rm -rf build",
    "set -e; cd nowhere; rm -rf build",
    "cd /srv && ls && cd - && rm -rf build",
    'rm -rf "$(pwd)/build"',
    'rm -rf "$(git rev-parse --show-toplevel)/build"',
    "find . -name __pycache__ -type d -exec rm -rf {} +",
    "find . -name '*.pyc' -delete",
    "find . \\( -name '*.pyc' -o -name '*.pyo' \\) -delete",
    "find build -type f -delete",
    "find src -name '*.o' | xargs rm -f",
    "find src -name '*.o' | while read -r f; do rm -f \"$f\"; done",
    "git ls-files -o -z | xargs -0 rm -f",
    "git clean -fdx",
    "git rm -r --cached .",
    "mv build old-build",
    "mv src/app.py /code/project/app.py",
    "rsync -a --delete src/ build/",
    "truncate -s 0 logs/a.log",
    "echo x > /tmp/out; make > /dev/null 2>&1",
    "docker run --rm alpine rm -rf /tmp/x",
    "docker run --rm -v $PWD:/w alpine rm -rf /w/build",
    "T=$(mktemp -d -p build) && rm -rf $T",
    "rm --help",
    "npm rm left-pad; docker rm -f web; git rm README.md",
    "trap 'rm -rf build' EXIT; make",
    "ls /; cat /etc/hosts; find / -name rm",
    "python3 -c \"import shutil; d = 'build'; shutil.rmtree(d)\"",
    "python3 -c \"import os; os.remove('build/x'); print('/a/b')\"",
    "node -e \"require('fs').rmSync('build', {recursive: true})\"",
    "A=1 B=build\nrm -rf $B",
]


@pytest.mark.parametrize("command", OUTSIDE)
def test_what_deletes_outside_is_refused(command: str) -> None:
    found = verdict(command)
    assert found.rule in ("rm.outside", "rm.root", "rm.disk", "rm.code"), found
    assert found.by == "guard:rm"
    assert found.instead


@pytest.mark.parametrize("command", WORKTREE)
def test_what_deletes_the_worktree_or_its_history_is_refused(command: str) -> None:
    assert verdict(command).rule in ("rm.root", "rm.git", "rm.outside"), verdict(command)


@pytest.mark.parametrize("command", UNKNOWN)
def test_a_target_that_nobody_can_know_is_refused(command: str) -> None:
    assert verdict(command).rule in ("rm.unknown", "rm.outside"), verdict(command)


@pytest.mark.parametrize("command", ALLOWED)
def test_cleaning_up_inside_passes(command: str) -> None:
    assert not refused(command), verdict(command)


@pytest.mark.parametrize("command", ["rm -rf data/*", "rm -rf data/x", "rm -rf data/", "cd data && rm -rf x", "rm -rf up/other"])
def test_a_link_that_leads_out_is_followed(command: str) -> None:
    assert refused(command, LINKS)


@pytest.mark.parametrize("command", ["rm -rf data", "rm -f up near", "rm -rf near/*", "unlink data"])
def test_removing_a_link_itself_passes(command: str) -> None:
    assert not refused(command, LINKS), verdict(command, LINKS)


def test_a_link_made_by_the_same_line_is_followed() -> None:
    assert refused("ln -s /srv l && rm -rf l/")
    assert not refused("ln -s build l && rm -rf l/*")


def test_paths_are_relative_to_where_the_command_starts() -> None:
    assert refused("rm -rf ..", BELOW)
    assert refused("rm -rf ../..", BELOW)
    assert not refused("rm -rf ../build", BELOW)
    assert not refused("rm -rf *", BELOW)


def test_the_environment_decides_what_a_variable_means() -> None:
    world = DataWorld(env={"HOME": HOME, "OUT": "/srv/out", "INNER": f"{ROOT}/build", "TMPDIR": f"{ROOT}/.agent/tmp"})
    assert refused("rm -rf $OUT", world)
    assert not refused("rm -rf $INNER", world)
    assert not refused('d=$(mktemp -d); rm -rf "$d"', world)
    assert refused('d=$(mktemp -d); rm -rf "$d"')


def test_a_prefix_assignment_is_not_seen_by_its_own_words() -> None:
    assert refused('D=build rm -rf "$D/"')


def test_a_child_sees_only_what_is_exported() -> None:
    assert refused("D=build; bash -c 'rm -rf $D/x'")
    assert not refused("export D=build; bash -c 'rm -rf $D/x'")


def test_the_verdict_names_the_rule_the_words_and_the_target() -> None:
    found = verdict("cd build && rm -rf ../../other")
    assert (found.rule, found.words, found.target) == ("rm.outside", ("../../other",), "/code/other")
    assert "/code/other" in found.reason


@pytest.mark.parametrize(
    "argv",
    [
        ("--work-tree=/srv", "clean", "-fdx"),
        ("-C", "/srv", "clean", "-fd"),
        ("-c", "core.worktree=/srv", "clean", "-fd"),
        ("-c", "alias.x=!rm -rf /srv", "x"),
        ("worktree", "remove", "../other"),
    ],
)
def test_the_git_tool_is_judged_too(argv: tuple[str, ...]) -> None:
    assert git_verdict(*argv).by == "guard:rm"


@pytest.mark.parametrize("argv", [("clean", "-fdx"), ("commit", "-m", "rm -rf /"), ("checkout", "--", "."), ("grep", "rm -rf ~")])
def test_git_work_inside_passes(argv: tuple[str, ...]) -> None:
    assert not git_verdict(*argv).rule
