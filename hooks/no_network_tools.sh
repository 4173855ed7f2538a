#!/bin/sh
# A PreToolUse policy: no command that is there to talk to the network.
#
#     export AGENT_HOOK_PRE_TOOL_USE=/path/to/hooks/no_network_tools.sh
#
# Refuses a shell command that begins, at its start or behind ; | & ( { ` or a line break, with a program of the list below, also
# behind sudo, env, exec, command, nohup, time, xargs, timeout and assignments. Text that only mentions one (`grep -rn curl .`)
# passes. To change the list, write the names behind the command: AGENT_HOOK_PRE_TOOL_USE='.../no_network_tools.sh curl wget'
#
# A program can be reached in other ways. This keeps an agent on the path; the sandbox without a network is what stops it.
# Needs python3 (for the JSON) and a POSIX sh. Without python3 it fails, and a hook that fails refuses.

[ $# -gt 0 ] || set -- curl wget nc ncat netcat telnet ssh scp sftp rsync ftp socat

command=$(python3 -c '
import json, sys
event = json.load(sys.stdin)
if event["tool_name"] == "Bash":
    print(event["tool_input"]["command"])
') || exit 1

# One command a line, quotes and a leading path taken off, and what only passes on to another program too.
found=$(printf '%s\n' "$command" | tr ';|&(){}`' '\n' | sed -E "
    s/[\"'\\\\]//g
    :again
    s/^[[:space:]]+//
    s/^[A-Za-z_][A-Za-z0-9_]*=[^[:space:]]*[[:space:]]+//
    t again
    s/^(sudo|env|exec|command|nohup|time|xargs|then|do|else|!)[[:space:]]+(-[^[:space:]]+[[:space:]]+)*//
    t again
    s/^timeout[[:space:]]+(-[^[:space:]]+[[:space:]]+)*[^[:space:]]+[[:space:]]+//
    t again
    s/[[:space:]].*//
    s/.*\\///
" | while read -r program; do
    for refused; do
        [ "$program" = "$refused" ] && echo "$program"
    done
done | head -n 1)

[ -z "$found" ] && exit 0
echo "the policy allows no network tools here, and '$found' is one; use what is in the repository, or say what you need" >&2
exit 2
