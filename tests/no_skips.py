"""A pytest plugin for CI: a test that was skipped proves nothing, so the run fails unless tests/allowed_skips.txt names it."""

from __future__ import annotations

from pathlib import Path

import pytest

ALLOWED = Path(__file__).with_name("allowed_skips.txt")


def allowed(text: str) -> set[str]:
    """The ids in the list; a line without a reason counts for nothing."""
    pairs = [line.split("  ", 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {pair[0] for pair in pairs if len(pair) == 2 and pair[1].strip()}


class NoSkips:
    def __init__(self) -> None:
        self.allowed = allowed(ALLOWED.read_text("utf-8"))
        self.refused: list[str] = []

    def note(self, node: str, outcome: str, reason: object) -> None:
        if outcome == "skipped" and node not in self.allowed:
            self.refused.append(f"{node}: {reason[2] if isinstance(reason, tuple) else reason}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.note(report.nodeid, report.outcome, report.longrepr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.note(report.nodeid, report.outcome, report.longrepr)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.refused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.refused:
            terminalreporter.write_line(f"skipped, and not in tests/allowed_skips.txt: {line}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(NoSkips(), "no-skips")
