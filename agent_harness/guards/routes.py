"""Other ways to a protected branch: GitHub's command line and API, other version control front ends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import cast
from urllib.parse import unquote

from agent_harness.guards.machine import Finding, Invocation, Machine
from agent_harness.guards.marks import plain_list, show, unknown, vague
from agent_harness.guards.options import operands, pair, values_of
from agent_harness.guards.refspecs import protected

_MUTATIONS = re.compile(
    r"\b(createCommitOnBranch|mergePullRequest|enablePullRequestAutoMerge|updateRef|updateRefs|createRef|deleteRef|mergeBranch|deleteRepository"
    r"|updateRepository|enqueuePullRequest|revertPullRequest)\b"
)
_WRITES = frozenset(("POST", "PUT", "PATCH", "DELETE"))
_REPOSITORY = r"/?repos/[^/]*/[^/?]*"


def check_route(machine: Machine, inv: Invocation) -> None:
    """Refuse what would land on a protected branch without git."""
    judge = _ROUTES.get(inv.name)
    if judge is not None:
        judge(machine, inv)


def _refuse(machine: Machine, reason: str, inv: Invocation, target: str = "") -> None:
    advice = (
        f"leave merging to people: the harness opens a pull request from {machine.git().own_branch} when the session succeeds"
    )
    machine.block(Finding("push.route", reason, advice, tuple(show(word) for word in inv.argv[:12]), target))


def _gh(machine: Machine, inv: Invocation) -> None:
    words = operands(plain_list(inv.args), "-R --repo --hostname")
    match words[:2]:
        case ["pr", "merge"]:
            _refuse(machine, "it merges a pull request into its base branch", inv)
        case ["pr", "revert"]:
            return
        case ["repo", ("sync" | "delete" | "archive" | "rename") as what]:
            _refuse(machine, f"`gh repo {what}` changes a repository's protected state", inv)
        case ["repo", "edit"] if any(word.startswith("--default-branch") for word in inv.args):
            _refuse(machine, "it changes which branch is the default one", inv)
        case ["api", *_]:
            _gh_api(machine, inv)
        case _:
            pass


def _gh_api(machine: Machine, inv: Invocation) -> None:
    words = plain_list(inv.args)
    words = words[words.index("api") + 1 :]
    taking = "-X --method -f -F --field --raw-field -H --header --input -q --jq -t --template --hostname --cache -p --preview"
    endpoint = next(iter(operands(words, taking)), "")
    fields: dict[str, str] = {}
    for item in values_of(words, "-f -F --field --raw-field", taking):
        key, _, value = item.partition("=")
        fields[key] = value
    body = values_of(words, "--input", taking)
    method = next(iter(values_of(words, "-X --method", taking)), "POST" if fields or body else "GET").upper()
    _judge_request(machine, inv, method, endpoint, None if body else fields)


def _judge_request(machine: Machine, inv: Invocation, method: str, url: str, fields: dict[str, str] | None) -> None:
    """Judge one API request.

    Args:
        machine: refuses.
        inv: the command that sends it.
        method: in capitals.
        url: path or whole URL.
        fields: of the body; None when they cannot be known.
    """
    whole = re.search(r"(?:^|/)(repos/.*|graphql)$", unquote(url).partition("?")[0], re.DOTALL)
    path = whole.group(1) if whole else unquote(url)
    if path == "graphql":
        query = " ".join((fields or {}).values())
        if fields is None or unknown(query) or _MUTATIONS.search(query) or fields.get("query", "").startswith("@"):
            _refuse(machine, "this GraphQL call can change a branch", inv)
        return
    if method not in _WRITES and not unknown(method):
        return
    if unknown(path) and "repos" in path:
        _refuse(machine, "which API it calls cannot be known before it runs", inv)
        return
    _judge_path(machine, inv, method, path, fields)


def _judge_path(machine: Machine, inv: Invocation, method: str, path: str, fields: dict[str, str] | None) -> None:
    given = fields or {}
    if match := re.fullmatch(_REPOSITORY + r"/git/refs/(heads/.+)", path):
        _named(machine, inv, match.group(1))
    elif re.fullmatch(_REPOSITORY + r"/git/refs/?", path):
        _named(machine, inv, given.get("ref", ""))
    elif re.fullmatch(_REPOSITORY + r"/contents/.*", path):
        _named(machine, inv, given.get("branch", ""))
    elif re.fullmatch(_REPOSITORY + r"/(merges|merge-upstream)", path):
        _named(machine, inv, given.get("base", "") or given.get("branch", ""))
    elif re.fullmatch(_REPOSITORY + r"/pulls/[^/]+/merge", path):
        _refuse(machine, "it merges a pull request into its base branch", inv)
    elif match := re.fullmatch(_REPOSITORY + r"/branches/([^/]+)/(rename|protection.*)", path):
        _named(machine, inv, match.group(1))
    elif re.fullmatch(_REPOSITORY, path) and (method == "DELETE" or "default_branch" in given or fields is None):
        _refuse(machine, "it changes the repository itself", inv)


def _named(machine: Machine, inv: Invocation, ref: str) -> None:
    if not ref or vague(ref):
        _refuse(machine, "it does not name a branch, so it could change the default one", inv)
    elif branch := protected(machine, ref):
        _refuse(machine, f"it changes {branch!r} through the API", inv, branch)


_CURL = (
    "-X --request -d --data --data-raw --data-binary --data-urlencode --json -H --header -u --user -o --output "
    "-F --form -A --user-agent -e --referer -b --cookie -c --cookie-jar -T --upload-file -w --write-out -m --max-time "
    "--url --connect-timeout --retry -x --proxy -E --cert --key --cacert"
)
_WGET = "--method --body-data --body-file --post-data --post-file --header -O -o -P --user --password -U -t -T --timeout --tries"


def _curl(machine: Machine, inv: Invocation) -> None:
    words = plain_list(inv.args)
    urls = [
        word for word in [*operands(words, _CURL), *values_of(words, "--url", _CURL)] if "/repos/" in word or "graphql" in word
    ]
    data = values_of(words, "-d --data --data-raw --data-binary --data-urlencode --json", _CURL)
    upload = values_of(words, "-T --upload-file", _CURL)
    method = next(iter(values_of(words, "-X --request", _CURL)), "PUT" if upload else "POST" if data else "GET")
    for url in urls:
        _judge_request(machine, inv, method.upper(), url, _body(data) if not upload else None)


def _wget(machine: Machine, inv: Invocation) -> None:
    words = plain_list(inv.args)
    data = values_of(words, "--body-data --post-data", _WGET)
    files = values_of(words, "--body-file --post-file", _WGET)
    method = next(iter(values_of(words, "--method", _WGET)), "POST" if data or files else "GET")
    for url in operands(words, _WGET):
        if "/repos/" in url or "graphql" in url:
            _judge_request(machine, inv, method.upper(), url, _body(data) if not files else None)


def _httpie(machine: Machine, inv: Invocation) -> None:
    words = operands(plain_list(inv.args), "-a --auth -o --output --verify --session")
    method = words[0] if words and re.fullmatch(r"[A-Z]+", words[0]) else ""
    rest = words[1:] if method else words
    if rest and ("/repos/" in rest[0] or "graphql" in rest[0]):
        fields = dict(pair(item, ":=" if ":=" in item else "=") for item in rest[1:] if "=" in item)
        _judge_request(machine, inv, method or ("POST" if fields else "GET"), rest[0], fields)


def _body(data: list[str]) -> dict[str, str] | None:
    """The fields of a request's body; None when it is in a file or unknown."""
    fields: dict[str, str] = {}
    for text in data:
        if unknown(text) or text.startswith("@"):
            return None
        try:
            value = cast("object", json.loads(text))
        except ValueError:
            fields.update(pair(part, "=") for part in text.split("&"))
            continue
        if isinstance(value, dict):
            fields.update({str(key): str(each) for key, each in cast("dict[object, object]", value).items()})
    return fields


def _glab(machine: Machine, inv: Invocation) -> None:
    words = operands(plain_list(inv.args), "-R --repo")
    if words[:2] in (["mr", "merge"], ["mr", "accept"], ["repo", "delete"]):
        _refuse(machine, "it merges into, or deletes, what is protected", inv)


def _jj(machine: Machine, inv: Invocation) -> None:
    words = operands(plain_list(inv.args), "-R --repository --config")
    if words[:2] != ["git", "push"]:
        return
    names = values_of(inv.args, "-b --bookmark --branch --named", "-R --repository --remote -r -c --change")
    wide = any(word in ("--all", "--tracked", "--deleted") for word in inv.args)
    if wide or not (names or values_of(inv.args, "-c --change")):
        _refuse(machine, "it pushes bookmarks that it does not name", inv)
    for name in names:
        _named(machine, inv, name.partition("=")[0].removeprefix("exact:") if "*" not in name else "")


def _other(machine: Machine, inv: Invocation) -> None:
    """Mercurial and Sapling push heads, not branches that could be told apart."""
    words = operands(plain_list(inv.args), "-R --repository --cwd --to")
    if words[:1] == ["push"]:
        targets = values_of(inv.args, "--to")
        _named(machine, inv, targets[0] if targets else "")


_ROUTES: dict[str, Callable[[Machine, Invocation], None]] = {
    "gh": _gh,
    "glab": _glab,
    "curl": _curl,
    "wget": _wget,
    "http": _httpie,
    "https": _httpie,
    "xh": _httpie,
    "jj": _jj,
    "hg": _other,
    "sl": _other,
}
