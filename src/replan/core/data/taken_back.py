"""Whether what is said beside an answer takes it back: in words around it, in fields beside its own, in its texts for readers.

Where an answer does something, or says that something is done, all that is not known to say nothing goes back once. Said again it
is passed over, unless it says no: by value in a field, or in a sentence that refuses, orders not to, or asks first. A single word
of a sentence decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from replan.core.data.for_readers import FOR_READERS, NOTHING, as_word, folded
from replan.core.data.lead_ins import CROSSES
from replan.core.data.nothing import is_filler, says_there_is_none


def _set_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ── words ─────────────────────────────────────────────────────────────────────

_NOT = r"(?:\s+not|n['’]t|not)(?:\s+(?:\w+ly|just|even|now))?"
_DO = (
    r"(?:go ahead|proceed|run|execut\w*|perform\w*|carr(?:y|ied)\s+out|follow(?:ed)?|used?|make|made|do|done|pay|paid|send|sent|start|continue"
    r"|call(?:ed)?|submit\w*|trust\w*|appl(?:y|ied)|judge|happen)"
)
_THIS = r"(?:this|it|that|these|them|so|the\s+(?:\w+\s+)?(?:plans?|calls?|steps?|above|below|following))"
_REFUSES_IN_PLAIN_WORDS = re.compile(
    rf"\b(?:i|we)\s+(?:(?:must|have to|hereby|therefore|also)\s+)?(?:refuse|decline|reject|object|abort|withdraw|retract)\b"
    rf"|\b(?:i|we)(?:\s+(?:will|must|can|shall|should|would|could|may)|['’]ll|\s+wo|\s+ca){_NOT}\s+(?:help|comply|assist|{_DO}\s+{_THIS})\b"
    rf"|\b(?:do|must|should|may){_NOT}\s+(?:run|execute|use|perform|follow|carry\s+out)\s+{_THIS}\b"
    rf"|\bnever\s+(?:run|execute|use|do|follow)\s+{_THIS}\b"
    rf"|\b{_THIS}\s+(?:(?:must|should|may|can|is|are){_NOT}\s+(?:to\s+)?be|is\s+never\s+to\s+be)\s+(?:run|executed|used|followed|made|carried)\b"
    rf"|(?:^|[.;:!\n\u2013\u2014-])\s{{0,4}}(?:please\s+)?(?:do\s+not|don['’]t|never)\s+(?:run|execute|use|do)(?:\s+{_THIS})?\W*(?:$|[.;!\n])",
    re.IGNORECASE,
)
"""What no honest text says that only explains."""
_REFUSES = re.compile(
    # in the first person, but for what a plan cannot look at before
    rf"\b(?:i|we)(?:\s+(?:will|must|can|shall|should|would|could|may|dare)|['’]ll|\s+wo|\s+ca){_NOT}\b(?!\s+(?:check|look|test|foresee|undo|need|add|include|be needed|know in advance)\b)"
    r"|\b(?:i|we)(?:['’]m|\s+am|['’]re|\s+are)\s+(?:not\s+able|unable|not\s+allowed|not\s+permitted|not\s+going|not\s+willing|unwilling|not\s+sure|sorry)\b(?!\s+to\s+(?:check|look|test|foresee)\b)"
    r"|\b(?:i|we)\s+(?:\w+\s+)?(?:refused?|declined?|reject(?:ed)?|object(?:ed)?|disagreed?|doubt|abort(?:ed)?|withdraw|retract|discard(?:ed)?|abandon(?:ed)?)\b"
    # an order, or a rule, not to
    rf"|\b(?:do|does|must|should|may|shall|is|are|ought|can){_NOT}\s+(?:to\s+)?(?:be\s+)?(?:run|execut\w*|perform\w*|proceed\w*|carr(?:y|ied)\s+out|follow(?:ed)?\s+(?:this|it|that)|used?\s+(?:this|it|that)|do\s+(?:this|it|that)|made|paid|sent|called|trusted?)\b"
    rf"|\bnot\s+(?:to\s+)?be\s+(?:run|executed|used|performed|followed|carried|made|paid|sent|called|trusted)\b"
    rf"|\b(?:never|nobody|no\s*one)\s+(?:should\s+|must\s+|may\s+)?(?:runs?|execut\w*|do(?:es)?|uses?|follows?|make|pay|send|trust)\b"
    r"|\b(?:the|this)\s+(?:\w+\s+){0,2}(?:plan|answer|evaluation|judge?ment|verdict|object|call|json)\s+(?:\w+\s+)?(?:is|was)\s+(?:\w+\s+)?(?:wrong|bad|illegal|fake|unsafe|dangerous|harmful|a\s+mistake|only\s+an?\s+(?:example|draft))\b"
    r"|\b(?:the|this)\s+(?:\w+\s+){0,2}(?:plan|answer|evaluation|judge?ment|verdict|object|json)\s+(?:\w+\s+)?(?:is|was)\s+(?:\w+\s+)?not\b"
    r"|\b(?:this|that|it|the\s+amount)\s+(?:is|was|would\s+be)\s+(?:\w+\s+)?(?:wrong|illegal|fake|unsafe|dangerous|harmful|only\s+an?\s+(?:example|draft))\b"
    r"|^\s*(?:no|nope|stop|wait|never)\s*(?:$|[,:!]|[-\u2013\u2014]|wait|stop|do\b|don)"
    r"|\b(?:attack(?:er|s|ed)?|inject(?:ed|ion)|malicious|illegal|forbid(?:s|den)?|fraud\w*|break(?:s)?\s+the\s+rules)\b"
    r"|\b(?:bad|wrong|rejected|dangerous|unsafe|harmful|fake)\s+(?:plan|answer|evaluation|example)\b|\bexample\s+of\b|\bwould\s+have\s+been\b|\bif\s+it\s+had\b"
    # a question for a yes
    rf"|\b(?:shall|should|may|can|could|am)\s+(?:i|we)\s+(?:really\s+|now\s+|to\s+)*{_DO}\b|\b(?:if|that|whether)\s+(?:i|we)\s+(?:should|may|can|shall|am\s+to)\s+{_DO}\b"
    rf"|\b(?:like|want|wish|allow|authori[sz]e)\s+(?:me|us)\s+to\s+{_DO}\b"
    rf"|\bplease\s+(?:first\s+)?(?:confirm|approve|review|check)\b|\b(?:confirm|approve|agree)\b[^.]{{0,60}}\b(?:before|first)\b"
    rf"|\bbefore\s+(?:i|we)\s+{_DO}\b|\bbefore\s+(?:this|it)\s+is\s+{_DO}\b"
    r"|\bonly\s+after\s+(?:\w+\s+)?(?:review|approval|confirmation)\b|\b(?:unless|until)\s+[^.]{1,40}\b(?:agrees?|confirms?|approves?|says?|reviews?|is\s+\w+ed)\b"
    r"|\bonly\s+if\s+[^.]{1,40}\b(?:agrees?|confirms?|approves?|says?)\b|\bpending\s+(?:\w+\s+)?(?:approval|review|confirmation)\b|\bsuperseded\b|^\s*instead\b"
    r"|\b(?:prohibited|not\s+permitted|not\s+allowed|unauthori[sz]ed|denied|violat(?:es|ing|ion))\b|\bdisregard\b|\bignore\s+(?:this|the)\b"
    r"|\bonly\s+an?\s+\w+\s+(?:may|can|should|must)\b|\bask\s+(?:the\s+)?\w+\s+(?:before|first)\b|\bfor\s+illustration\b|\bis\s+blocked\b"
    r"|\bphishing\b|\bscam\b|\bhypothetical\w*|\bthis\s+is\s+not\s+(?:the\s+case|true|right|so|what)\b|^\s*if\s+it\s+(?:were|had)\b|^\s*not\s+this\b"
    r"|\bwait(?:s|ing)?\s+for\s+(?:\w+\s+){0,2}(?:approval|confirmation|yes|review)\b",
    re.IGNORECASE,
)  # fmt: skip
_SAYS_NOT_DONE = re.compile(
    r"\b(?:is|was|are|were|has|have|been)(?:\s+not|n['’]t)\s+(?:yet\s+|really\s+|been\s+)?(?:done|completed?|successful|finished|achieved|fulfilled|met|solved|paid|sent|made|a\s+success)\b(?!\s+twice)"
    r"|\b(?:the|this)\s+(?:\w+\s+){0,2}call\s+(?:\w+\s+)?(?:is|was)\s+(?:\w+\s+)?not\b"
    r"|\b(?:it|this|the\s+task|the\s+payment)\s+(?:has\s+)?(?:failed|did\s+not|didn['’]t)\b|\bwhich\s+it\s+did\s+not\b|\bunsuccessful\b|\bno\s+success\b|\bnot\s+(?:a\s+)?success(?:ful)?\b|\bNOT\s+done\b"
    r"|\b(?:gescheitert|fehlgeschlagen|misslungen|misslang|erfolglos)\b|(?:任务|付款|操作|执行)?失败(?:了|$)|未(?:能)?(?:完成|成功)",
    re.IGNORECASE,
)  # fmt: skip
_REFUSES_ELSEWHERE = re.compile(
    r"\b(?:no\s+(?:lo|la|los|las|se)\b|nein|nicht|kein\w*|nie|niemals|weiger\w*|ablehn\w*|aber|ne|pas|jamais|non|aucun\w*|mais|refuser?|nunca|jamás|pero|não|nao|mas|mai|ma"
    r"|не|нет|нельзя|отказыва\w*|recuso|odmawiam|niego|lehne|никогда|но|nej|ikke|inte|niet|geen|hayır|değil)\b"
    r"|不|没|沒|別|别|勿|禁止|拒|无法|無法|但|ない|ません|拒否|しかし|안|마세요|마십시오|않|못|아니|거부|없습니다|لا|ليس|لن|नहीं|मत",
    re.IGNORECASE,
)
"""Of other languages single words have to do."""
_LABELS_OF_NO = _set_of(
    """
    draft hypothetically correction superseded instead example template nein nothis notthis unauthorized unauthorised prohibited disregard
    ignore illustration forillustration disregardthis ignorethis donotrun stop
    """
)
"""What is said of an answer by a word alone."""
_SENTENCE = re.compile(r"[.!?;:。！？：；\n]+")


_ASKS = re.compile(r"[?？؟][\s*_~\"'`”’»)\]]*$")
"""The last word is a question: it waits for its answer. One that is answered in the next sentence is none."""


def takes_back(said: str, *, of_a_failure: bool = False) -> bool:
    """True if there is a sentence among the words around an answer that refuses it, orders not to follow it, or asks first.

    `of_a_failure`: the answer is about something that was not done; words that say so agree with it.
    """
    return asks(said) or any(
        _plain(sentence) in _NO | _LABELS_OF_NO
        or not CROSSES.isdisjoint(sentence)
        or (not of_a_failure and _SAYS_NOT_DONE.search(sentence))
        or _REFUSES.search(sentence) or _REFUSES_IN_PLAIN_WORDS.search(sentence) or _REFUSES_ELSEWHERE.search(sentence)
        for sentence in (one[:_READ] for one in _SENTENCE.split(said))
    )  # fmt: skip


def asks(said: str) -> bool:
    """True if the last word is a question."""
    return _ASKS.search(said[-_READ:]) is not None


def refusal_to_readers(answer: Mapping[str, Any]) -> str:
    """The text for readers, in the answer or in one of its steps, that says that it is not to be followed; empty if there is none."""
    steps = answer.get("steps")
    parts = (
        [answer, *(one for one in steps if isinstance(one, dict))] if isinstance(steps, list) else [answer]
    )
    for part in parts:
        for name, value in part.items():
            if (
                isinstance(value, str)
                and (_is_for_readers(name) or folded(name) in _OF_CAUSES)
                and _REFUSES_IN_PLAIN_WORDS.search(value[:_READ])
            ):
                return f"{name}: {value[:_TOLD]}"
    return ""


_OF_CAUSES = frozenset({"rootcause", "cause"})
"""What a diagnosis tells its readers beside what it wants."""
_READ = 2_000
"""Characters of a sentence, or of a text for readers, that are looked at."""
_TOLD = 60

# ── fields ────────────────────────────────────────────────────────────────────


_YES = _set_of("""
    success successful succeeded succeeds pass passed passes done complete completed finished achieved fulfilled satisfied met ok okay yes true
    good great excellent perfect positive valid approved accepted confirmed verified correct right fine a a+ a- none notapplicable
    ja erfolgreich erledigt fertig abgeschlossen bestanden erfüllt korrekt richtig gültig 是 成功 完成 已完成 通过 正确 有效
    allstepssucceeded alldone taskcompleted taskcomplete
    """)
_NO = _set_of("""
    failed failure fail fails error errors rejected reject refused refuse declined decline denied deny incomplete notdone notcompleted notcomplete
    unsuccessful notsuccessful nosuccess invalid notvalid wrong incorrect notcorrect aborted abort cancelled canceled cancel blocked unsafe
    forbidden illegal unfinished notapproved disapproved notpassed notok bad false no negative unacceptable notyet
    nein fehlgeschlagen gescheitert misslungen abgelehnt verweigert abgebrochen ungültig falsch unvollständig nichterfüllt nichterledigt
    nichtbestanden nochnicht erfolglos 否 不 失败 失敗 未完成 没有完成 未通过 拒绝 被拒绝 错误 无效 不正确 尚未 尚未完成
    """)
_NAMES_OF_YES = _set_of("""
    success successful succeeded successfully pass passed done complete completed completion finished achieved fulfilled satisfied met ok
    valid approved accepted confirmed verified correct enabled resolved
    """)
_NAMES_OF_NO = _set_of("""
    not fail fails failed failure failures error errors reject rejected refuse refused refusal declined denied replan retry redo wrong incorrect
    incomplete invalid problem problems issue issues missing blocked blockers aborted cancelled unsafe disabled skipped unmet unresolved
    violation violations skip dry draft simulate simulated optional async background objection objections rejection
    """)
NAMES_OF_A_NO = _set_of(
    "error errors refusal cannot objection objections rejection rejectionreason refusalreason"
)
"""What is filled under one of these is a no, whatever it says."""
_OF_WHOLES = _set_of("is was has been task overall all goal result")
_SCORES = _set_of("score rating overall total points finalscore totalscore overallrating")
_READ_ONLY = frozenset(
    map(folded, (
        *FOR_READERS, "type", "kind", "task", "task_id", "step_id", "evaluation_id", "timestamp", "$schema", "strengths", "weaknesses",
        "feedback", "assessment", "findings", "evidence", "observations", "observation", "recommendation", "recommendations",
        "limitations", "suggestions", "improvements", "details", "highlights", "positives", "evaluated_steps", "evaluator", "model",
        "criteria", "step_evaluations", "justifications", "remarks", "steps", "created_at", "evaluated_at", "date", "language",
    ))
)  # fmt: skip
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NONE_OF = re.compile(r"(?:no|none|nothing|without|zero)\b[^.;]{0,40}\.?", re.IGNORECASE)
_HAS_FAILED = re.compile(
    r"(?!(?:no|none|nothing|neither)\b)(?:\w+ ){0,4}?(?:has |have )?failed[.!]?|not done\b.*", re.IGNORECASE
)


class Beside(NamedTuple):
    """The fields beside an answer that may say otherwise than it, each with its value in short."""

    unknown: tuple[str, ...] = ()
    denying: tuple[str, ...] = ()
    """Those that say no by their value."""


def said_beside(
    raw: Mapping[str, Any], known: Collection[str], score: float | None = None, *, yes: bool = True
) -> Beside:
    """What stands beside the `known` fields of a yes, and neither agrees with it by value nor speaks to readers alone.

    `score`: that of the yes. `yes`: false where the answer itself says that something has not happened.
    """
    own = {folded(name) for name in known}
    unknown: list[str] = []
    denying: list[str] = []
    for key, value in raw.items():
        if value in NOTHING or folded(key) in own:
            continue
        says = _says(key.lstrip("_").removeprefix("x-"), value, score)
        if says is False and (yes or not _is_plain(value)):
            denying.append(_shown(key, value))
        elif not says and not key.startswith(("_", "x-")):
            unknown.append(_shown(key, value))
    return Beside(tuple(unknown), tuple(denying))


def is_as_ever(name: str, value: Any) -> bool:
    """True if the field says just what holds without it: `enabled: true`, `skip: false`, `fallback: "none"`, `error: "No errors."`."""
    if isinstance(value, bool):
        return _says(name, value, None) is True
    about_no = not _NAMES_OF_NO.isdisjoint(_words(name))
    if isinstance(value, str):
        return (
            _plain(value) in ("none", "null", "n/a", "notapplicable")
            or (about_no and says_there_is_none(value))
            or (_is_plain_no(value) and _is_of_needs(_words(name)))
        )
    if isinstance(value, list):
        return about_no and all(isinstance(one, str) and says_there_is_none(one) for one in value[:_MOST])
    return about_no and value == 0


def is_a_yes(text: str) -> bool:
    """True of one of the words by which a status says that something is done, or holds."""
    return len(text) <= _TOLD and _plain(text) in _YES


def says_no(name: str, value: Any) -> bool:
    """True if a field of a plan that only readers look at says that it is not to be followed."""
    return folded(name) not in _NAMES_AND_AIMS and _says(name, value, None) is False


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and _plain(value) in _NO)


def _plain(text: str) -> str:
    return as_word(text[:_TOLD].strip(" .!。！\"'/#*"))


def _shown(key: str, value: Any) -> str:
    return f"{key[:_TOLD]}: {str(value)[:_TOLD]}"


def _says(name: str, value: Any, score: float | None) -> bool | None:
    """True if it agrees with a yes or says nothing, False if it says no, None if it may."""
    words = _words(name)
    if value in NOTHING or (_is_plain_no(value) and (_is_of_needs(words) or _is_of_harm(words))):
        return True
    if isinstance(value, str) and _is_plain_no(value) and not _decides(name, words):
        value = False  # the same in words
    elif isinstance(value, str) and _plain(value) in _NO:
        return False
    if _is_no_number(value) and folded(name).endswith("confidence"):
        return None
    if _is_for_readers(name):
        return not (any(_denies(text) for text in _texts(value)) or _denied_by_fields(value, score))
    if isinstance(value, bool):
        about_no = not _NAMES_OF_NO.isdisjoint(words)
        if about_no or not _NAMES_OF_YES.isdisjoint(words):
            return value is not about_no
        return None
    if isinstance(value, int | float):
        if value == 0 and not _NAMES_OF_NO.isdisjoint(words):
            return True
        if value == 0 and set(words) - _OF_WHOLES and set(words) <= _NAMES_OF_YES | _OF_WHOLES:
            return False  # as false
        return True if score is not None and value == score and not _SCORES.isdisjoint(words) else None
    if isinstance(value, str):
        return _says_in_words(name, words, value)
    if isinstance(value, dict):
        return _all(_says(str(key), one, score) for key, one in value.items())
    if isinstance(value, list):
        found = _all(
            True if isinstance(one, dict | list) else _says(name, one, score) for one in value[:_MOST]
        )
        return None if found and any(isinstance(one, dict | list) for one in value[:_MOST]) else found
    return None


_MOST = 200


def _denied_by_fields(value: Any, score: float | None) -> bool:
    """True of an object that says no by a word in a field, and of a list in which each does: one step among others may have failed."""
    if isinstance(value, dict):
        return any(_is_plain(one) and _says(str(key), one, score) is False for key, one in value.items())
    parts = value[:_MOST] if isinstance(value, list) else []
    return bool(parts) and all(isinstance(one, dict) and _denied_by_fields(one, score) for one in parts)


def _is_no_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not value


def _says_in_words(name: str, words: list[str], value: str) -> bool | None:
    about_no = not _NAMES_OF_NO.isdisjoint(words)
    plain = _plain(value)
    if is_filler(value) or (about_no and (_NONE_OF.fullmatch(value.strip()) or says_there_is_none(value))):
        return True
    if about_no and plain in ("true", "yes"):
        return False
    if folded(name) in NAMES_OF_A_NO or _denies(value):
        return False
    if plain in ("true", "yes") and _NAMES_OF_YES.isdisjoint(words):
        return None  # as true
    return True if plain in _YES and not about_no else None


def _words(name: str) -> list[str]:
    return _WORD.findall(_HUMP.sub(" ", name[:_TOLD]).replace("_", " ").casefold())


def _is_plain_no(value: Any) -> bool:
    return value is False or (isinstance(value, str) and _plain(value) in _PLAIN_NOES)


_PLAIN_NOES = _set_of("no false nein 否 不 0")


def _is_of_needs(words: list[str]) -> bool:
    """`needs_human_review`, `follow_up_required`, `escalate`: nothing is missing where nothing is needed."""
    if not words or not _NAMES_OF_YES.isdisjoint(words):
        return False
    return words[0] in _NEEDS or words[-1] in _NEEDED


_NEEDS = _set_of("need needs require requires escalate escalation")
_NEEDED = _set_of("needed required necessary")


def _is_of_harm(words: list[str]) -> bool:
    """`fraud`, `data_loss`, `manual_review`, `partial_success`: what is well where there is none. Not `fraud_excluded`."""
    if not words or words[0] in ("no", "not", "without"):
        return False
    if words[0] == "partial":
        return True
    if not (_NAMES_OF_YES | {"checked"}).isdisjoint(words):
        return False
    return (
        words[-1] in _HARM
        or words[0] in _MORE
        or "_".join(words[-2:]) in _TWO_WORDS
        or words[:2] == ["follow", "up"]
    )


_HARM = _set_of("""
    hallucination hallucinations hallucinated duplicate duplicates duplicated duplication loss losses concern concerns risk risks warning
    warnings discrepancy discrepancies inconsistency inconsistencies contradiction contradictions regression regressions timeout timeouts
    anomaly anomalies partial partially overpaid underpaid fabricated fabrication assumed unverified ambiguous ambiguity
    fraud fraudulent suspected suspicious harm harmful leak leaks leaked intervention review mistake mistakes defect defects deviation
    deviations
    """)
_TWO_WORDS = _set_of("side_effects side_effect open_questions open_question open_points")
_MORE = _set_of("manual further double unexpected undesired unintended")
"""First words of what is done beyond what is well."""


def _decides(name: str, words: list[str]) -> bool:
    """True of a name under which a bare no is the answer to the whole: `verdict`, `status`, a summary."""
    return not _DECIDING.isdisjoint(words) or _is_for_readers(name)


_DECIDING = _set_of(
    "verdict status state result outcome decision judgement judgment conclusion answer final task goal"
)


def _denies(text: str) -> bool:
    """True if the text, as a whole or in one of its sentences, says that the answer does not hold."""
    said = text[:_READ].strip()
    return (
        _plain(said) in _NO
        or _HAS_FAILED.fullmatch(said) is not None
        or _REFUSES_IN_PLAIN_WORDS.search(said) is not None
        or _COULD_NOT_TELL.search(said) is not None
    )


_COULD_NOT_TELL = re.compile(
    r"\b(?:i|we)\s+(?:can|could|was|am|were|are)(?:\s*not|n['’]t)\s+(?:able\s+to\s+)?(?:judge|tell|say|verify|confirm|evaluate|assess)\b"
    r"|\bno\s+success\b|\bnot\s+a\s+success\b|\b(?:it['’]s|it\s+is|is|was|as)\s+a\s+failure\b",
    re.IGNORECASE,
)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value[:_MOST]:
            yield from _texts(one)


def _all(found: Iterable[bool | None]) -> bool | None:
    said = list(found)
    return False if False in said else None if None in said else True


def _is_for_readers(name: str) -> bool:
    """By the whole of it, or by its last word: `overall_assessment`, `score_justification`."""
    if folded(name) in _READ_ONLY:
        return True
    words = _words(name)
    return len(words) > 1 and words[-1] in _LAST_WORDS and words[0] not in _NAMES_OF_NO


_NAMES_AND_AIMS = _set_of(
    "name title label tags purpose goal objective stepname displayname planname tools toolsused requiredtools result output outputs"
)
"""What is called "Cancel", or is meant to reject something, is done."""
_LAST_WORDS = _set_of("""
    reason reasoning rationale justification justifications explanation explanations analysis comment comments note notes summary feedback
    assessment findings evidence observations recommendations description details remarks title name text
    """)
