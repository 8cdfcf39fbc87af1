"""What an error says about itself: may it pass, is it about the pace, about the call, or out of the call's reach.

The status comes first, since it is an answer to exactly this question. Words in the code and the message decide
where the status is vague (400, none at all) and outweigh it where they are specific. They are the words of
English error texts, in families, never the codes of one service; Chinese ones are read as the English words that they
stand for (`core.failures.chinese`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from replan.core.failures.text import words

ErrorClass = Literal["transient", "throttled", "caller", "outside"]


def _family(*phrases: str) -> re.Pattern[str]:
    """Any of the phrases. `~` stands for up to four words of the same sentence, `*` for any ending."""
    any_of = "|".join(phrases).replace("*", r"\w*").replace(" ~ ", r" (?:\w+ ){0,4}")
    return re.compile(rf"\b(?:{any_of})\b")


_ASKED = (
    "(requests|calls|queries|connections|attempts|operations|transactions|messages|sessions|logins|clients)"
)
_OVER = "(exceed*|reach*|exhaust*|hit|used up|depleted)"
_PACE = "(rate|throughput|bandwidth|frequency|tps|qps|rps|rpm|tpm|concurrency|burst|traffic)"
PACE = _family(
    "throttl*",
    "(?<!invalid )rate ?limit*",
    f"too many ((?!in |of |for |on )\\w+ ){{0,2}}{_ASKED}",
    "slow ?down",
    "too (quickly|frequently|fast|often)",
    f"{_PACE} ~ (limit|quota|capacity|{_OVER}|too high)",
    f"{_OVER} ~ {_PACE}",
    f"{_OVER} ~ {_ASKED}",
    f"(number|maximum|allowed|request|call|concurrent*|limit|quota) ~ {_ASKED} ~ {_OVER}",
    f"(request|call|concurrent*|connection) (limit|quota) ~ {_OVER}",
    f"(limit*|maximum|more|allowed|{_OVER}) ~ per (unit of time|second|minute|hour)",
    "(reduce|lower|limit) ~ (rate|requests|calls|frequency|concurrency)",
)

# Tokens that are no credentials: those of paging, of idempotency and of locks.
_OPAQUE = (
    "next page pagination continuation client idempotency creation change sequence lock upload resume sync"
)
_TOKEN = "".join(f"(?<!{word} )" for word in _OPAQUE.split()) + "(token|jwt)"
_SECRET = f"(credentials?|api ?key|access key|secret key|signature|client secret|licen[cs]e|{_TOKEN})"
_RIGHTS = "(permissions?|privileges?|entitlements?|authori[sz]ation|access rights?|scopes?|roles?)"
IDENTITY = _family(
    f"(invalid|expired|missing|incomplete|revoked|incorrect|wrong|bad|no|unrecogni[sz]ed|unable to (load|locate|find)) ~ {_SECRET}",
    f"{_SECRET} ~ (invalid|not valid|expired|missing|revoked|incorrect|wrong|inactive|required|disabled|not match|mismatch|not found|not exist|not recogni[sz]ed)",
    "(token|session|credentials?) ~ expired",
    "(invalid|unknown|unrecogni[sz]ed) client(?! token)",
    "(invalid|missing|no|bad) auth",
    "unauth*",
    "(not|no) ~ (authori[sz]ed|authenticated|authed|logged in|signed in|entitled)",
    "(authenticat*|auth|login|log in|sign in|signing in) ~ (fail*|error|required|missing|needed|first|incorrect)",
    "(fail*|error|missing|require[sd]?|incomplete|without|invalid|unable) ~ (authenticat*|authori[sz]ation|to log ?in)",
    "please (log|sign) in",
)
RIGHTS = _family(
    "forbidden",
    "access ~ (denied|restricted|revoked|not allowed)",
    "denied access",
    "(do|does|did|is|are) not have ~ (access|permissions?)",
    f"(no|not|without|lacks?|lacking|insufficient|missing|requires?|needs?|denied|grant) ~ {_RIGHTS}",
    f"{_RIGHTS} ~ (denied|required|insufficient|missing|not granted)",
    "insufficient access",
    "operation not permitted",
    f"(due to|because of) ~ {_RIGHTS}",
)
_PARTY = (
    "(account|api ?key|access key|subscription|project|organi[sz]ation|tenant|workspace|service|api|feature)"
)
PAYMENT = _family(
    "billing",
    "payment (is )?required",
    "(unpaid|overdue|past due)",
    "(insufficient|not enough|out of|no|remaining) (credits?|quota)",
    "credits? ~ (exhausted|used up|depleted|ran out|expired)",
    "(upgrade|change) ~ (plan|tier|subscription)",
    "(trial|subscription|plan) ~ (ended|expired|over|required|inactive|cancell?ed)",
    "not (been )?(subscribed|opted|signed up|enrolled|onboarded)",
    "(opt in|subscription|sign up) required",
    "spend(ing)? limit",
    f"{_PARTY} ~ (suspended|disabled|deactivated|blocked|locked|terminated|banned|inactive|not (been )?(enabled|activated))",
    f"(suspended|disabled|deactivated|blocked|terminated|banned) ~ {_PARTY}",
)
QUOTA = _family(
    f"(quotas?|(service|account|resource|usage|storage) limits?) ~ {_OVER}",
    f"{_OVER} ~ (quotas?|(service|account|resource|usage|storage) limits?)",
    "quota ~ (error|exceeded|exception)",
    "(maximum|max|limit) ~ (per|for|in) ~ (account|user|project|region|subscription|organi[sz]ation)",
    f"(account|user|project|organi[sz]ation) ~ {_OVER} ~ (maximum|limit)",
)
_PIECE = "(module|library|dependency|executable|binary)"
_SOFTWARE = (
    "(module|library|package|dependency|driver|plugin|extension|executable|binary|program|command|daemon)"
)
PIECE = _family(
    "no module named",
    "can not import name",
    f"no such (process|command|{_PIECE})",
    f"(command|{_PIECE}) not (found|available)",
    f"{_PIECE} ~ (missing|failed|failure|not ~ (found|available|loaded))",
    f"(missing|requires?|needs?) ~ {_PIECE}",
    f"{_SOFTWARE} ~ (not (been )?installed|is not running)",
    f"(please|pip|must|needs? to) (be )?install* ~ {_SOFTWARE}",
    f"(not|unable to) (find|locate|load|open|reach|connect to) ~ ({_PIECE}|daemon|shared object)",
    "not installed",
    "not recogni[sz]ed as an internal or external",
)
GONE = _family(
    "(external|third party|downstream|dependent) (resource|service|system|provider) ~ (error*|fail*|not)",
    "(service|endpoint|api|version|method|operation|feature|model|product) ~ "
    "(discontinued|retired|decommissioned|sunset|shut down|end of life|no longer (available|supported|offered|exists?))",
)

LATER = _family(
    "(re)?try ~ (later|shortly|soon|in (a|an|few|some|\\d+)|after (a|an|few|some|\\d+))",
    "(later|shortly|soon) (re)?try",
    "wait ~ (and|then|before|until) ~ (re)?try*",
    "(temporar*|transient*|momentaril*)",
    "retryable",
    "not yet (ready|available|finished|complete*)",
    "not ready",
)
_THEIRS = "(service|server|system|backend|host|gateway|cluster|node|database|api|endpoint|upstream)"
BREAKDOWN = _family(
    "internal ~ (error|failure|fault|exception|problem|issue)",
    "internal (server|service)",
    f"{_THEIRS} (error|exception|fault|failure|failed|problem)",
    f"{_THEIRS} ~ (unavailable|not available|unreachable|down|offline|overload*|not responding|under maintenance)",
    "unavailable",
    "(is|are|currently|too|service|server|system|backend|resource) busy",
    "(deadlock*|(database|table|row|file|resource) is locked)",
    "over ?load*",
    "(over|insufficient|no|not enough|at|lacks?|out of) ~ capacity",
    "unexpected (error|failure|exception|internal)",
    "unknown (error|failure)",
    "unhandled (error|exception)",
    "(timed|time|times) ?out(?! (must|should|value|parameter|is (invalid|not valid|too)))",
    "deadline ~ exceeded",
    "connection ~ (reset|closed|lost|aborted|refused|broken|dropped|terminated|interrupted|failed|error)",
    "(broken pipe|bad gateway|socket hang up|econn*|etimedout|network error|network unreachable)",
)

COMPLAINT = (
    "(must|should|required|requires|missing|invalid*|not (a )?valid|unexpected|expected|unknown|unrecogni[sz]ed|"
    "unsupported|not (supported|allowed|permitted|accepted|recogni[sz]ed|exist|found|one of|a|an|in|match*|be)|"
    "out of range|at (most|least)|too (long|short|large|big|small|many|few)|exceed*|larger|greater|smaller|less|"
    "malformed|wrong|bad|illegal|empty|null|blank|duplicate|already|outside|positional|keyword|can not)"
)
CALL = _family(
    COMPLAINT,
    "valid*",
    "no such",
    "(no longer |non ?)?exist*",
    "(concurrent|concurrently|being|been) (modif*|changed|deleted)",
    "(condition*|prior|previous) ~ (fail*|not)",
    "(conflict*|mismatch*|in use|in progress|precondition*|not implemented|not applicable|unprocessable|incompatible)",
    "(syntax|format|parse|parsing|state)",
)
_SLOT = "(parameters?|arguments?|params?|args?)"
SLOT = _family(f"{_SLOT} ~ {COMPLAINT}", f"{COMPLAINT} ~ {_SLOT}")


_Families = tuple[re.Pattern[str], ...]


def error_class(
    *,
    status: int | None,
    code: str = "",
    message: str = "",
    retry_after: float | None = None,
    parameters: Iterable[str] = (),
) -> ErrorClass | None:
    """The class of an error; None where nothing tells it, which a status of 400 or more always does.

    `code`: its name at its service, `parameters`: the names of what can be given to the call.
    """
    told, said = words(code), words(message)
    named = names_parameter(message, parameters)
    if status is None or not 400 <= status <= 599:
        return _by_words(told, said, _HERE, named=named)
    if status == 429:
        return "outside" if retry_after is None and _any(PAYMENT, told, said) else "throttled"
    if PACE.search(told):
        return "throttled"
    if status >= 500:
        return _broken(status, said, named=named)
    if status in (408, 425):
        return "transient"
    if retry_after is not None and status in (403, 409, 413, 423):
        return "throttled"
    if status in (401, 402, 407, 424, 451):
        return "outside"
    if status == 403:
        return "throttled" if PACE.search(said) else "outside"
    if status in (400, 409, 418, 423) or status > 431:
        return _by_words(told, said, _ANSWERED, named=named) or "caller"
    if PACE.search(said):
        return "throttled"
    return "outside" if any(family.search(told) for family in _ANSWERED) else "caller"


def _broken(status: int, said: str, *, named: bool) -> ErrorClass:
    """An answer of 500 or more is a breakdown, whatever the word for it, unless a parameter is named."""
    if named or status in (501, 505):
        return "caller"
    if status in (507, 511):
        return "outside"
    return "throttled" if PACE.search(said) else "transient"


_ANSWERED = (IDENTITY, PAYMENT, RIGHTS, GONE, QUOTA)
_HERE = (*_ANSWERED, PIECE)
"""A missing piece is one of this machine: with a status, a service speaks of its own things (`ModuleNotFound`)."""


def _by_words(told: str, said: str, outside: _Families, *, named: bool) -> ErrorClass | None:
    """The code is a name that somebody chose for this: what it says outweighs the message."""
    if found := _by_family(told, outside):
        return found
    if PACE.search(said):
        return "throttled"
    if named:
        return "caller"
    if CALL.search(told) and not _any(IDENTITY, said) and not _any(PAYMENT, said):
        return "transient" if LATER.search(said) else "caller"
    return _by_family(said, outside) or ("caller" if CALL.search(said) else None)


def _by_family(text: str, outside: _Families) -> ErrorClass | None:
    if PACE.search(text):
        return "throttled"
    if any(family.search(text) for family in outside):
        return "outside"
    return "transient" if LATER.search(text) or BREAKDOWN.search(text) else None


def _any(family: re.Pattern[str], *texts: str) -> bool:
    return any(family.search(text) for text in texts)


def names_parameter(message: str, parameters: Iterable[str] = ()) -> bool:
    """True if the message complains about a parameter: one of these, or what it calls one."""
    said = words(message)
    if SLOT.search(said):
        return True
    return any(_complaint_about(name).search(said) for each in parameters if (name := words(each)))


@lru_cache(maxsize=1_024)
def _complaint_about(name: str) -> re.Pattern[str]:
    name = re.escape(name)
    return _family(f"{name} ~ {COMPLAINT}", f"{COMPLAINT} ~ {name}")
