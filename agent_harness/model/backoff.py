"""How long to wait before a request is sent again."""

from __future__ import annotations

import random

FIRST_S = 1.0
CEILING_S = 60.0
LONGEST_ASKED_S = 300.0  # a provider that asks for more is asked again after this, and answers with a new wait


def wait_s(attempt: int, retry_after_s: float | None) -> float:
    """Seconds to wait after the failed attempt of that number, from 1.

    Without a wish of the provider it doubles from one second up to a minute, and each wait is a random part (half to all) of
    that, so that sessions which failed together do not come back together. A wish of the provider is kept, up to five minutes,
    and only ever lengthened (by up to a tenth).
    """
    if retry_after_s is not None:
        return min(max(retry_after_s, 0.0), LONGEST_ASKED_S) * random.uniform(1.0, 1.1)
    whole = min(FIRST_S * 2.0 ** min(attempt - 1, 30), CEILING_S)
    return random.uniform(whole / 2, whole)
