"""Credentials in what is about to be pushed. Those planted here are made up, and put together at run time."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from agent_harness.errors import PublishError
from agent_harness.inert_git import Git
from agent_harness.publishing.scan import Scan, scan
from agent_harness.redact import Redactor
from agent_harness.task import Permits
from tests.unit.publishing.repos import Origin, git

pytestmark = pytest.mark.anyio

OWN = "s3ss10n-0wn-Cr3dential"
AWS = "AKIA" + "QYLPMN5HNM4OQ7FG"
GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SLACK = "xoxb-" + "123456789012-1234567890123-" + "AbCdEfGhIjKlMnOpQrStUvWx"
STRIPE = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
KEY_HEAD = "-----BEGIN RSA " + "PRIVATE KEY-----"
KEY = f"{KEY_HEAD}\n" + "\n".join("MIIEpAIBAAKCAQEA" + c * 48 for c in "abcdef") + "\n-----END RSA PRIVATE KEY-----\n"


async def look(inert: Git, origin: Origin, head: str, permits: Permits | None = None) -> Scan:
    redact = Redactor([OWN]).text
    return await scan(inert, origin.clone / ".git", origin.base, head, permits=permits or Permits(), redact=redact)


async def refused(inert: Git, origin: Origin, head: str, permits: Permits | None = None) -> str:
    with pytest.raises(PublishError) as refusal:
        await look(inert, origin, head, permits)
    assert refusal.value.reason == "secret_found"
    return str(refusal.value)


@pytest.mark.parametrize("secret", [AWS, GITHUB, SLACK, STRIPE, KEY, OWN])
async def test_a_credential_in_an_added_line_is_refused_by_file_line_and_rule_but_never_repeated(
    inert: Git, origin: Origin, secret: str
) -> None:
    head = origin.commit({"conf/app.py": f"one\ntwo\nkey = '{secret}'\n"})
    said = await refused(inert, origin, head)
    assert '"conf/app.py" line 3 (' in said
    assert "nothing was pushed" in said
    assert all(line not in said for line in secret.splitlines() if line)
    shown = git("show", head, cwd=origin.clone)
    assert secret.splitlines()[0] in shown, "the control: the secret is in what would be pushed"
    assert not (origin.clone / ".git" / "added.patch").exists()


async def test_one_that_a_later_commit_removes_again_is_refused_all_the_same(inert: Git, origin: Origin) -> None:
    origin.commit({"x.txt": f"{GITHUB}\n"})
    head = origin.commit({"x.txt": None})
    assert '"x.txt" line 1' in await refused(inert, origin, head)


@pytest.mark.parametrize("secret", [GITHUB, OWN])
async def test_one_in_a_message_a_name_a_binary_or_behind_attributes_is_found(inert: Git, origin: Origin, secret: str) -> None:
    base = git("rev-parse", "HEAD", cwd=origin.clone)
    places = {
        "message of commit": lambda: origin.commit({"a.py": "two\n"}, f"Use the key\n\nIt is {secret}\n"),
        "the name of": lambda: origin.commit({f"{secret}.txt": "x\n"}),
        '"blob.bin" line 1': lambda: origin.commit({"blob.bin": f"\0\1{' '}{secret}\0\n"}),
        '"hidden.txt" line 2': lambda: origin.commit({".gitattributes": "* -diff binary\n", "hidden.txt": f"x\n{secret}\n"}),
        '"na\\tme \\"q\\".txt" line 1': lambda: origin.commit({'na\tme "q".txt': f"{secret}\n"}),
    }
    for place, make in places.items():
        git("reset", "-q", "--hard", base, cwd=origin.clone)
        said = await refused(inert, origin, make())
        assert place in said.replace('\\"q\\"', '"q"').replace('"na\\tme "q".txt"', '"na\\tme \\"q\\".txt"'), said
        assert secret not in said.replace(f'the name of "{secret}', "")


async def test_what_was_there_before_may_be_moved_but_what_the_range_added_may_not(inert: Git, tmp_path: Path) -> None:
    from tests.unit.publishing.repos import make_origin

    origin = make_origin(tmp_path / "old", {"tests/old.py": f"T = '{GITHUB}'\n"})
    moved = origin.commit({"tests/old.py": None, "tests/new.py": f"T = '{GITHUB}'\n"})
    assert (await look(inert, origin, moved)).remarks == ()
    origin.commit({"b": f"{AWS}\n"})
    head = origin.commit({"b": None, "c": f"{AWS}\n"})
    said = await refused(inert, origin, head)
    assert '"b" line 1' in said
    assert '"c" line 1' in said


async def test_a_file_may_be_let_through_by_name_but_never_with_this_session_s_own(inert: Git, origin: Origin) -> None:
    head = origin.commit({"tests/data/fake.py": f"T = '{GITHUB}'\n"})
    assert "--allow-secrets" in await refused(inert, origin, head)
    found = await look(inert, origin, head, Permits(secrets=("tests/data/**",)))
    assert found.remarks == ('It adds what looks like a credential: "tests/data/fake.py" line 1 (github-token).',)
    assert "fake.py" in await refused(inert, origin, head, Permits(secrets=("src/**",)))
    head = origin.commit({"tests/data/own.py": f"T = '{OWN}'\n"})
    said = await refused(inert, origin, head, Permits(secrets=("tests/data/**",)))
    assert "a credential of this session" in said
    assert "nothing lets it through" in said


async def test_the_base_s_own_baseline_counts_and_one_that_the_agent_writes_does_not(inert: Git, tmp_path: Path) -> None:
    from tests.unit.publishing.repos import make_origin

    digest = hashlib.sha1(AWS.encode(), usedforsecurity=False).hexdigest()
    baseline = json.dumps({"results": {"x": [{"type": "AWS Access Key", "hashed_secret": digest}]}})
    plain = make_origin(tmp_path / "plain")
    head = plain.commit({".secrets.baseline": baseline, "k.py": f"k = '{AWS}'  # pragma: allowlist secret\n"})
    assert '"k.py" line 1' in await refused(inert, plain, head)


async def test_what_only_looks_like_one_is_a_remark(inert: Git, origin: Origin) -> None:
    head = origin.commit({"t.py": 'password = "correct-horse-9"\n', "u.md": "https://ann:opensesame1@forge.invalid/x\n"})
    remarks = (await look(inert, origin, head)).remarks
    assert len(remarks) == 1
    assert '"t.py" line 1 (Secret Keyword)' in remarks[0]
    assert '"u.md" line 1' in remarks[0]
    assert "opensesame1" not in remarks[0]


async def test_code_that_names_credentials_without_holding_one_passes(inert: Git, origin: Origin) -> None:
    code = (
        f'if "{KEY_HEAD}" in text:\n    pass\nprefixes = ("ghp_", "AKIA", "xoxb-", "sk_live_")\n'
        f'example = "AKIA{"IOSFODNN7EXAMPLE"}"\nsha = "{hashlib.sha1(b"x", usedforsecurity=False).hexdigest()}"\n'
    )
    head = origin.commit({"scanner.py": code})
    remarks = (await look(inert, origin, head)).remarks
    assert all("Private Key" in remark for remark in remarks), remarks


async def test_lines_made_to_hang_a_pattern_are_searched_in_time(inert: Git, origin: Origin) -> None:
    evil = "".join(f"{piece * (40_000 // len(piece))}\n" for piece in ("sk-", "password", "eyJ", "aws", "AKIA", "://:"))
    head = origin.commit({"evil.txt": evil, "last.txt": f"{GITHUB}\n"})
    assert '"last.txt" line 1' in await refused(inert, origin, head)
