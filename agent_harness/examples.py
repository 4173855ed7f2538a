"""Examples for the help page of each command. A test reads every one of them with the real parser."""

from __future__ import annotations

ALL = """examples:
  agent-harness demo                                       the whole job: no key, no account, no network
  agent-harness run https://git.example.com/shop.git "make the failing test pass"
  agent-harness run octo/shop#12                           an issue on GitHub is the task
  agent-harness run . "rename Cart.sum to Cart.total" --surface local --max-cost 0.50
  agent-harness run . "add a --dry-run flag" --surface local --json | jq -r .type
  agent-harness doctor                                     what is installed, configured and reachable
  agent-harness show last                                  read the newest session's trace

exit codes: 0 succeeded or nothing to change, 1 failed, 2 wrong usage or configuration (nothing was spent or created),
            3 a ceiling was reached, 4 needs a person, 5 provider, network or sandbox failed (try again), 130 cancelled
"""
OF = {
    "run": """examples:
  AGENT_MODEL=openai/gpt-5 OPENROUTER_API_KEY=... agent-harness run . "fix the off-by-one in paging.py" --surface local
  GITHUB_TOKEN=... agent-harness run https://github.com/octo/shop "make the failing test pass" --draft
  agent-harness run file:///srv/git/shop.git "drop Python 3.8" --base develop --max-turns 80 --max-cost 2
  agent-harness run . "tidy up" --surface local --no-pr --deny 'secrets/**' --json
  agent-harness run . "translate the messages" --surface local --instructions ~/how-i-like-it.md

Files that are not committed are not part of a session: it works on a clone. The agent has no network.
""",
    "demo": """examples:
  agent-harness demo
  agent-harness demo --seed 2                              another repository, another bug
""",
    "sessions": """examples:
  agent-harness sessions
  agent-harness sessions --json | jq -r 'select(.state == "failed") | .trace'
""",
    "show": """examples:
  agent-harness show last
  agent-harness show 20261201-0054                         the start of an id is enough
  agent-harness show last --json | jq -r 'select(.type == "tool_call") | .name'
""",
    "publish": """examples:
  agent-harness publish last                               of a session that ran with --no-pr, or whose push failed
  agent-harness publish 20261201-005449-h8ym --draft
""",
    "doctor": """examples:
  agent-harness doctor
  agent-harness doctor --json | jq -r '.[] | select(.state == "missing") | .instead'
""",
    "completion": """examples:
  source <(agent-harness completion bash)                  in ~/.bashrc
  source <(agent-harness completion zsh)                   in ~/.zshrc, after compinit
  agent-harness completion fish > ~/.config/fish/completions/agent-harness.fish
""",
}
