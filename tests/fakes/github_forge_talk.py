"""What people see beside a pull request or an issue: labels, requested reviewers, reviews and comments, as REST has them."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qs, unquote, urlencode

from agent_harness.events import JsonValue
from tests.fakes.github_forge_git import Answer
from tests.fakes.github_forge_rest import (
    Json,
    Refused,
    Request,
    Route,
    answer,
    find_pull,
    invalid,
    may,
    pull_json,
    user_json,
)
from tests.fakes.github_forge_state import Comment, IssueRecord, Pull, Repo

COLOUR = "ededed"


def talked_about(repo: Repo, number: str) -> Pull | IssueRecord:
    """What has that number: the two share their numbers, labels and comments."""
    found = repo.issues.get(int(number))
    return found if found is not None else find_pull(repo, number)


def may_talk(request: Request, repo: Repo) -> None:
    """Labels and comments take either of two permissions."""
    if request.token is not None and request.token.covers(repo) and request.token.may("pull_requests", "write"):
        return
    may(request, repo, "issues", "write")


def label_json(request: Request, repo: Repo, name: str) -> Json:
    url = f"{request.api}/repos/{repo.full_name}/labels/{name}"
    return {"id": 1, "name": name, "color": repo.labels.get(name, COLOUR), "default": False, "url": url}


def texts(request: Request, field: str) -> list[str]:
    given = request.json().get(field, [])
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise Refused(422, f"Invalid request.\n\nFor 'properties/{field}', the value is not an array.")
    return [str(each) for each in given]


def _labels_of(request: Request) -> list[str]:
    """A list, or an object that holds one: both are taken."""
    return texts(replace(request, body=b'{"labels":' + request.body + b"}") if request.body[:1] == b"[" else request, "labels")


def list_labels(request: Request, repo: Repo, number: str) -> Answer:
    may(request, repo, "issues", "read")
    return answer(200, [label_json(request, repo, name) for name in talked_about(repo, number).labels])


def add_labels(request: Request, repo: Repo, number: str) -> Answer:
    """Added to those that are there; one that the repository does not know is made."""
    may_talk(request, repo)
    found = talked_about(repo, number)
    for name in _labels_of(request):
        if not name.strip() or len(name) > 50:
            raise invalid({"resource": "Label", "code": "invalid", "field": "name"})
        repo.labels.setdefault(name, COLOUR)
        if name not in found.labels:
            found.labels.append(name)
    return list_labels(request, repo, number)


def create_label(request: Request, repo: Repo, _: str) -> Answer:
    may_talk(request, repo)
    name, colour = request.json().get("name"), request.json().get("color", COLOUR)
    if not isinstance(name, str) or not name.strip():
        raise invalid({"resource": "Label", "code": "missing_field", "field": "name"})
    if name in repo.labels:
        raise invalid({"resource": "Label", "code": "already_exists", "field": "name"})
    repo.labels[name] = str(colour)
    return answer(201, label_json(request, repo, name))


def request_reviewers(request: Request, repo: Repo, number: str) -> Answer:
    """All of them or, when one cannot be asked, none."""
    may(request, repo, "pull_requests", "write")
    pull = find_pull(repo, number)
    people, teams = texts(request, "reviewers"), texts(request, "team_reviewers")
    if any(name.lower() == pull.author.lower() for name in people):
        raise Refused(422, "Review cannot be requested from pull request author.")
    known = {name.lower() for name in repo.collaborators}
    if any(name.lower() not in known for name in people) or any(team not in repo.teams for team in teams):
        what = "the teams" if all(name.lower() in known for name in people) else "the users"
        raise Refused(
            422,
            f"Reviews may only be requested from collaborators. One or more of {what} you specified is not a collaborator"
            f" of the {repo.full_name} repository.",
        )
    pull.reviewers += [name for name in people if name not in pull.reviewers]
    pull.team_reviewers += [team for team in teams if team not in pull.team_reviewers]
    return answer(201, pull_json(request, repo, pull))


def list_requested(request: Request, repo: Repo, number: str) -> Answer:
    may(request, repo, "pull_requests", "read")
    found = pull_json(request, repo, find_pull(repo, number))
    return answer(200, {"users": found["requested_reviewers"], "teams": found["requested_teams"]})


def list_reviews(request: Request, repo: Repo, number: str) -> Answer:
    may(request, repo, "pull_requests", "read")
    reviews = find_pull(repo, number).reviews
    return answer(
        200,
        [
            {"id": place, "user": user_json(request, who), "state": state, "body": ""}
            for place, (who, state) in enumerate(reviews, 1)
        ],
    )


def list_comments(request: Request, repo: Repo, number: str) -> Answer:
    """Oldest first, in pages."""
    may(request, repo, "issues", "read")
    comments = talked_about(repo, number).comments
    size = min(max(int(request.parameter("per_page", "30")), 1), 100)
    page = max(int(request.parameter("page", "1")), 1)
    last = max(1, -(-len(comments) // size))
    links: list[str] = []
    for name, wanted in (("next", page + 1), ("last", last)):
        if page < last:
            query = urlencode({**{key: values[0] for key, values in parse_qs(request.query).items()}, "page": wanted})
            links.append(f'<{request.api}/repositories/{repo.id}/issues/{number}/comments?{query}>; rel="{name}"')
    shown = [comment_json(request, repo, number, place, each) for place, each in enumerate(comments, 1)]
    return answer(200, list[JsonValue](shown[size * (page - 1) : size * page]), {"Link": ", ".join(links)} if links else {})


def add_comment(request: Request, repo: Repo, number: str) -> Answer:
    may_talk(request, repo)
    found, body = talked_about(repo, number), request.json().get("body")
    if not isinstance(body, str) or not body.strip():
        raise invalid({"resource": "IssueComment", "code": "missing_field", "field": "body"})
    if len(body) > 65_536:
        raise invalid({"resource": "IssueComment", "code": "unprocessable", "field": "body"})
    assert request.token is not None
    found.comments.append(Comment(body, request.token.login, "CONTRIBUTOR"))
    return answer(201, comment_json(request, repo, number, len(found.comments), found.comments[-1]))


def comment_json(request: Request, repo: Repo, number: str, place: int, comment: Comment) -> Json:
    return {
        "id": int(number) * 1000 + place,
        "body": comment.body,
        "user": None if comment.author is None else user_json(request, comment.author),
        "author_association": comment.association,
        "created_at": "2026-01-01T00:00:00Z",
        "html_url": f"{request.root}/{repo.full_name}/issues/{number}#issuecomment-{int(number) * 1000 + place}",
    }


def remove_label(request: Request, repo: Repo, place: str) -> Answer:
    may_talk(request, repo)
    number, _, name = place.partition("/labels/")
    found = talked_about(repo, number)
    if unquote(name) not in found.labels:
        raise Refused(404, "Label does not exist")
    found.labels.remove(unquote(name))
    return list_labels(request, repo, number)


ROUTES: tuple[tuple[str, str, Route], ...] = (
    ("GET", r"/issues/(\d+)/labels", list_labels),
    ("POST", r"/issues/(\d+)/labels", add_labels),
    ("DELETE", r"/issues/(\d+/labels/.+)", remove_label),
    ("POST", "/labels", create_label),
    ("POST", r"/pulls/(\d+)/requested_reviewers", request_reviewers),
    ("GET", r"/pulls/(\d+)/requested_reviewers", list_requested),
    ("GET", r"/pulls/(\d+)/reviews", list_reviews),
    ("GET", r"/issues/(\d+)/comments", list_comments),
    ("POST", r"/issues/(\d+)/comments", add_comment),
)
