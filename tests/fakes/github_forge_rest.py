"""The REST interface of the stand-in: the routes that opening a pull request and reading an issue need."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import parse_qs, unquote, urlencode

from agent_harness.events import JsonValue
from tests.fakes.github_forge_git import Answer
from tests.fakes.github_forge_state import IssueRecord, Level, Pull, Repo, Token, git

Json = dict[str, JsonValue]
DOCS = "https://docs.github.com/rest"
BODY_CHARS, TITLE_CHARS = 65_536, 256


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, message: str, *errors: JsonValue, **headers: str) -> None:
        super().__init__(message)
        content: Json = {"message": message, "documentation_url": DOCS, "status": str(status)}
        if errors:
            content["errors"] = list(errors)
        self.answer = answer(status, content, {name.replace("_", "-"): value for name, value in headers.items()})


def answer(status: int, content: JsonValue, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, json.dumps(content).encode(), {"Content-Type": "application/json; charset=utf-8", **(headers or {})})


def invalid(*errors: JsonValue) -> Refused:
    return Refused(422, "Validation Failed", *errors)


def custom(message: str, resource: str = "PullRequest", field: str | None = None) -> Json:
    found: Json = {"resource": resource, "code": "custom", "message": message}
    return found if field is None else {**found, "field": field}


@dataclass
class Request:
    """One request behind its authentication. `token` is None for nobody."""

    method: str
    path: str
    query: str
    body: bytes
    token: Token | None
    root: str  # of the web pages, without a slash at the end

    @property
    def api(self) -> str:
        return f"{self.root}/api/v3"

    def parameter(self, name: str, default: str) -> str:
        return parse_qs(self.query).get(name, [default])[0]

    def json(self) -> Json:
        try:
            found: JsonValue = json.loads(self.body)
        except ValueError:
            raise Refused(400, "Problems parsing JSON") from None
        if not isinstance(found, dict):
            raise Refused(400, "Body should be a JSON object")
        return found


Route = Callable[[Request, Repo, str], Answer]


def may(request: Request, repo: Repo, permission: str, level: Level) -> None:
    """Raise what GitHub answers when the token does not allow that."""
    if level == "read" and not repo.private:
        return
    if request.token is None:
        raise Refused(401, "Requires authentication")
    if not request.token.covers(repo) or not request.token.may(permission, level):
        raise Refused(403, request.token.refusal, **{"X-Accepted-GitHub-Permissions": f"{permission}={level}"})


def visible(request: Request, repo: Repo) -> bool:
    return not repo.private or (request.token is not None and request.token.covers(repo))


def route(request: Request, repo: Repo, rest: str, more: tuple[tuple[str, str, Route], ...] = ()) -> Answer:
    """Everything below a repository that the request may see; `more` are routes of other modules."""
    if request.method not in ("GET", "HEAD") and repo.archived:
        raise Refused(403, "Repository was archived so is read-only.")
    for method, pattern, handler in (*ROUTES, *more):
        found = re.fullmatch(pattern, rest)
        if found and method == request.method:
            return handler(request, repo, unquote(found[1]) if found.groups() else "")
    raise Refused(404, "Not Found")


def get_repo(request: Request, repo: Repo, _: str) -> Answer:
    return answer(200, repo_json(request, repo))


def list_pulls(request: Request, repo: Repo, _: str) -> Answer:
    may(request, repo, "pull_requests", "read")
    state, head, base = (request.parameter(name, default) for name, default in (("state", "open"), ("head", ""), ("base", "")))
    found = [pull for pull in repo.pulls.values() if state == "all" or pull.state == state]
    if ":" in head:  # without an owner the filter does not count
        owner, _, branch = head.partition(":")
        found = [pull for pull in found if owner.lower() == repo.owner.lower() and pull.head == branch]
    if base:
        found = [pull for pull in found if pull.base == base]
    found.sort(key=lambda pull: -pull.number)
    size = min(max(int(request.parameter("per_page", "30")), 1), 100)
    page = max(int(request.parameter("page", "1")), 1)
    headers: dict[str, str] = {}
    if len(found) > size * page:
        query = urlencode({**{name: values[0] for name, values in parse_qs(request.query).items()}, "page": page + 1})
        headers["Link"] = f'<{request.api}/repositories/{repo.id}/pulls?{query}>; rel="next"'
    return answer(200, [pull_json(request, repo, pull) for pull in found[size * (page - 1) : size * page]], headers)


def create_pull(request: Request, repo: Repo, _: str) -> Answer:
    may(request, repo, "pull_requests", "write")
    wanted = request.json()
    missing = [f'"{name}"' for name in ("head", "base", "title") if not isinstance(wanted.get(name), str)]
    if missing:
        raise Refused(422, f"Invalid request.\n\n{', '.join(missing)} weren't supplied.")
    if repo.empty:
        raise Refused(409, "Git Repository is empty.")
    title, body, base = cast("str", wanted["title"]), cast("str | None", wanted.get("body")), cast("str", wanted["base"])
    owner, _, head = cast("str", wanted["head"]).rpartition(":")
    draft = wanted.get("draft") is True
    if draft and not repo.drafts:
        raise Refused(422, "Draft pull requests are not supported in this repository.")
    check_texts(title, body)
    base_sha, head_sha = repo.sha(base), repo.sha(head)
    if base_sha is None:
        raise invalid({"resource": "PullRequest", "field": "base", "code": "invalid"})
    lagging = head_sha is not None and repo.head_lag > 0
    repo.head_lag -= lagging
    if head_sha is None or lagging or owner.lower() not in ("", repo.owner.lower()):
        raise invalid({"resource": "PullRequest", "field": "head", "code": "invalid"})
    if any(pull.state == "open" and (pull.head, pull.base) == (head, base) for pull in repo.pulls.values()):
        raise invalid(custom(f"A pull request already exists for {repo.owner}:{head}."))
    if not repo.related(base_sha, head_sha):
        raise invalid(custom(f"The {head} branch has no history in common with {base}"))
    if repo.ahead(base_sha, head_sha) == 0:
        raise invalid(custom(f"No commits between {base} and {head}"))
    assert request.token is not None
    pull = Pull(next(repo.numbers), title, body, head, base, head_sha, request.token.login, draft)
    repo.open_pull(pull)
    content = pull_json(request, repo, pull)
    return answer(201, content, {"Location": str(content["url"])})


def check_texts(title: str, body: str | None) -> None:
    if not title.strip():
        raise invalid({"resource": "PullRequest", "code": "missing_field", "field": "title"})
    if len(title) > TITLE_CHARS:
        raise invalid(custom(f"title is too long (maximum is {TITLE_CHARS} characters)", "Issue", "title"))
    if body is not None and len(body) > BODY_CHARS:
        raise invalid(custom(f"body is too long (maximum is {BODY_CHARS} characters)", "Issue", "body"))


def get_pull(request: Request, repo: Repo, number: str) -> Answer:
    may(request, repo, "pull_requests", "read")
    return answer(200, pull_json(request, repo, find_pull(repo, number)))


def edit_pull(request: Request, repo: Repo, number: str) -> Answer:
    may(request, repo, "pull_requests", "write")
    pull, wanted = find_pull(repo, number), request.json()
    title, body = cast("str", wanted.get("title", pull.title)), cast("str | None", wanted.get("body", pull.body))
    check_texts(title, body)
    state, base = wanted.get("state", pull.state), cast("str", wanted.get("base", pull.base))
    if state not in ("open", "closed"):
        raise invalid({"resource": "PullRequest", "field": "state", "code": "invalid"})
    if repo.sha(base) is None:
        raise invalid({"resource": "PullRequest", "field": "base", "code": "invalid"})
    if state == "open" and pull.state == "closed" and (pull.merged or repo.sha(pull.head) is None):
        raise invalid(custom("state cannot be changed. The pull request cannot be reopened.", field="state"))
    pull.title, pull.body, pull.base, pull.state = title, body, base, state
    return answer(200, pull_json(request, repo, pull))


def get_issue(request: Request, repo: Repo, number: str) -> Answer:
    may(request, repo, "issues", "read")
    found = repo.issues.get(int(number))
    if found is None:
        return answer(200, issue_of_pull(request, repo, find_pull(repo, number)))
    if found.transferred_to is not None:
        location = f"{request.api}/repos/{found.transferred_to}"
        return answer(301, {"message": "Moved Permanently", "url": location}, {"Location": location})
    return answer(200, issue_json(request, repo, found))


def get_branch(request: Request, repo: Repo, branch: str) -> Answer:
    may(request, repo, "contents", "read")
    sha = repo.sha(branch)
    if sha is None:
        raise Refused(404, "Branch not found")
    commit: Json = {"sha": sha, "url": f"{request.api}/repos/{repo.full_name}/commits/{sha}"}
    return answer(200, {"name": branch, "commit": commit, "protected": repo.is_protected(branch)})


def get_ref(request: Request, repo: Repo, name: str) -> Answer:
    may(request, repo, "contents", "read")
    if repo.empty:
        raise Refused(409, "Git Repository is empty.")
    code, sha = git("rev-parse", "-q", "--verify", f"refs/{name}", git_dir=repo.bare, ok=False)
    if code:
        raise Refused(404, "Not Found")
    url = f"{request.api}/repos/{repo.full_name}/git"
    target: Json = {"sha": sha, "type": "commit", "url": f"{url}/commits/{sha}"}
    return answer(200, {"ref": f"refs/{name}", "url": f"{url}/refs/{name}", "object": target})


def get_commit(request: Request, repo: Repo, name: str) -> Answer:
    may(request, repo, "contents", "read")
    if repo.empty:
        raise Refused(409, "Git Repository is empty.")
    code, sha = git("rev-parse", "-q", "--verify", "--end-of-options", f"{name}^{{commit}}", git_dir=repo.bare, ok=False)
    if code:
        raise Refused(422, f"No commit found for SHA: {name}")
    message = git("log", "-1", "--format=%B", sha, git_dir=repo.bare)[1]
    return answer(200, {"sha": sha, "url": f"{request.api}/repos/{repo.full_name}/commits/{sha}", "commit": {"message": message}})


def find_pull(repo: Repo, number: str) -> Pull:
    found = repo.pulls.get(int(number))
    if found is None:
        raise Refused(404, "Not Found")
    return found


def user_json(request: Request, login: str) -> Json:
    return {
        "login": login,
        "id": 1,
        "type": "Bot" if login.endswith("[bot]") else "User",
        "url": f"{request.api}/users/{login}",
        "html_url": f"{request.root}/{login}",
    }


def repo_json(request: Request, repo: Repo) -> Json:
    found: Json = {
        "id": repo.id,
        "name": repo.full_name.split("/")[1],
        "full_name": repo.full_name,
        "owner": user_json(request, repo.owner),
        "private": repo.private,
        "archived": repo.archived,
        "fork": False,
        "default_branch": repo.default_branch,
        "url": f"{request.api}/repos/{repo.full_name}",
        "html_url": f"{request.root}/{repo.full_name}",
        "clone_url": f"{request.root}/{repo.full_name}.git",
    }
    if request.token is not None:
        push = request.token.covers(repo) and request.token.may("contents", "write")
        found["permissions"] = {"admin": False, "maintain": False, "push": push, "triage": push, "pull": True}
    return found


def pull_json(request: Request, repo: Repo, pull: Pull) -> Json:
    def side(branch: str, sha: str | None) -> Json:
        return {
            "label": f"{repo.owner}:{branch}",
            "ref": branch,
            "sha": sha,
            "user": user_json(request, repo.owner),
            "repo": repo_json(request, repo),
        }

    return {
        "id": repo.id * 1000 + pull.number,
        "number": pull.number,
        "state": pull.state,
        "draft": pull.draft,
        "title": pull.title,
        "body": pull.body,
        "user": user_json(request, pull.author),
        "head": side(pull.head, pull.sha),
        "base": side(pull.base, repo.sha(pull.base)),
        "merged_at": "2026-01-01T00:00:00Z" if pull.merged else None,
        "created_at": "2026-01-01T00:00:00Z",
        "labels": [{"id": 1, "name": name} for name in pull.labels],
        "requested_reviewers": [user_json(request, name) for name in pull.reviewers],
        "requested_teams": [{"id": 1, "slug": name, "name": name} for name in pull.team_reviewers],
        "url": f"{request.api}/repos/{repo.full_name}/pulls/{pull.number}",
        "issue_url": f"{request.api}/repos/{repo.full_name}/issues/{pull.number}",
        "html_url": f"{request.root}/{repo.full_name}/pull/{pull.number}",
    }


def issue_json(request: Request, repo: Repo, issue: IssueRecord) -> Json:
    return {
        "id": repo.id * 1000 + issue.number,
        "number": issue.number,
        "state": "open",
        "title": issue.title,
        "body": issue.body,
        "user": None if issue.author is None else user_json(request, issue.author),
        "author_association": issue.association,
        "comments": len(issue.comments),
        "repository_url": f"{request.api}/repos/{repo.full_name}",
        "url": f"{request.api}/repos/{repo.full_name}/issues/{issue.number}",
        "html_url": f"{request.root}/{repo.full_name}/issues/{issue.number}",
    }


def issue_of_pull(request: Request, repo: Repo, pull: Pull) -> Json:
    found = issue_json(request, repo, IssueRecord(pull.number, pull.title, pull.body, pull.author))
    full = pull_json(request, repo, pull)
    return {**found, "html_url": full["html_url"], "pull_request": {"url": full["url"], "html_url": full["html_url"]}}


ROUTES: tuple[tuple[str, str, Route], ...] = (
    ("GET", "", get_repo),
    ("GET", "/pulls", list_pulls),
    ("POST", "/pulls", create_pull),
    ("GET", r"/pulls/(\d+)", get_pull),
    ("PATCH", r"/pulls/(\d+)", edit_pull),
    ("GET", r"/issues/(\d+)", get_issue),
    ("GET", "/branches/(.+)", get_branch),
    ("GET", "/git/refs?/(.+)", get_ref),
    ("GET", "/commits/(.+)", get_commit),
)
