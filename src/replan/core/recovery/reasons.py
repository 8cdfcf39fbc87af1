"""Whether words may be a reason why an effect is not needed: the field asks why, and is answered as if it asked whether."""

from __future__ import annotations

import re

from replan.core.data.nothing import is_filler
from replan.core.data.taken_back import asks, says_no

_WORD = re.compile(r"[^\W\d_]+")
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_A_NO = re.compile(r"\W*(?:no|nope|yes|nein|doch|ja|否|不是|是)\s*[,.;:!?，。；：！–—-]", re.IGNORECASE)
"""An answer to whether it is needed: "No, it still is."; not "No payment was due."."""
_AS_EVER = r"(?:still|yet|indeed|also|certainly|definitely|really|very\s+much)"
_IS_NEEDED = re.compile(
    rf"(?:it|this|that|they|the\s+\w+)\s+(?:is|are|was|were|remains?)\s+(?:{_AS_EVER}\s+)*"
    r"(?:needed|required|necessary|outstanding|due|owed|unpaid|missing|pending|open)"
    rf"|(?:{_AS_EVER}\s+)+(?:needed|required|necessary|outstanding|due|owed|unpaid|missing|pending|open)"
    r"|(?:er|sie|es|das|(?:der|die|das)\s+\w+)\s+(?:ist|war|bleibt|wird)\s+(?:(?:noch|weiterhin|immer|doch|sehr\s+wohl)\s+)*(?:nötig|notwendig|erforderlich|offen|fällig|gebraucht)"
    r"|(?:\w{0,4})?(?:仍然?|还是?|依然|确实)(?:是)?(?:需要|必要|必须)的?",
    re.IGNORECASE,
)
_STILL = re.compile(
    r"\b(?:is|are|was|were|remains?)\s+still\s+(?:needed|required|necessary|outstanding|owed|unpaid)\b",
    re.IGNORECASE,
)
_NOT_TO_BE_HAD = re.compile(
    r"(?:(?:it|this|that)\s+)?(?:(?:is|was)\s+)?(?:not\s+possible|impossible|not\s+feasible|not\s+available|unavailable)"
    r"|(?:(?:it|this|that)\s+)?(?:cannot|can\s+not|can['’]t|could\s+not)\s+be\s+(?:done|made|had|executed)"
    r"|(?:nicht|un)\s*möglich|不可能|无法(?:完成|执行)",
    re.IGNORECASE,
)
"""Why it was not had, and not why it is not needed."""
_LEAST_CHINESE = 3


def is_a_reason(text: str) -> bool:
    """False of one word, of an answer to whether it is needed, of a question, of a no, and of what says that it is needed.

    Everything else is for whoever said it to answer for.
    """
    said = text.strip()
    plain = said.strip(" .!。！\"'")
    words = len(_WORD.findall(plain))
    if is_filler(said) or (words < 2 and len(_CHINESE.findall(plain)) < _LEAST_CHINESE):
        return False
    if _A_NO.match(said) or asks(said) or _STILL.search(said) or says_no("reason", said):
        return False
    return not (_IS_NEEDED.fullmatch(plain) or _NOT_TO_BE_HAD.fullmatch(plain))
