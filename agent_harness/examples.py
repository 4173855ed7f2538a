"""Examples for the help page of each command. A test reads every one of them with the real parser."""

from __future__ import annotations

ALL = """examples:
  agent-harness demo                                       the whole job: no key, no account, no network
  agent-harness run https://git.example.com/shop.git "make the failing test pass"
  agent-harness run octo/shop#12                           an issue on GitHub is the task
  agent-harness run . "rename Cart.sum to Cart.total" --max-cost 0.50       in place, in your own checkout
  agent-harness restore last                               give it back as it was
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
  agent-harness run . "speed up the parser" --surface local --scope 'src/**' --scope 'tests/**'
  agent-harness run . "translate the messages" --surface local --instructions ~/how-i-like-it.md

A path is worked on in place: nothing is committed, and `agent-harness restore SESSION` gives everything back. For a URL, and with
--surface local, a session works on a clone without network, and what is not committed is not part of it.
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
  agent-harness publish last --allow-secrets 'tests/data/**'   what was refused as a credential is made up
""",
    "inspect": """examples:
  agent-harness inspect ./checkout                         before you run git, an editor or an installer in it
  agent-harness inspect https://git.example.com/shop.git   the files of its default branch
  agent-harness inspect . --json | jq -r '.findings[] | [.kind, .where, .command] | @tsv'
""",
    "restore": """examples:
  agent-harness restore last                               undo the newest session
  agent-harness restore last --undo                        undo that

HEAD, index, stash and branches are never touched. What you changed in other files since then stays. What a restore replaces is
kept in the session's folder first. Running it twice does nothing more. It needs no network.
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
