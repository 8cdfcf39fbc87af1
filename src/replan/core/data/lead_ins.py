"""Words and names that only introduce an answer, or close it.

What is none of them may take the answer back, so whoever reads it asks once more. A word that is missing here costs a request,
and one too many might cost an effect: what says yes or no, may, would or should, or what something is about, is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple


def _set_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NOUNS = _set_of("""
    plan plans execution answer answers reply output outputs result results response object json jsonc json5 evaluation assessment
    judgement judgment verdict selection diagnosis reflection analysis repair replan replanning solution completion overall
    """)
_KINDS = _set_of("""
    final new updated revised corrected fixed mended repaired complete completed full whole entire valid validated proper requested
    required structured detailed formatted generated selected raw clean simple short brief concise initial proposed single
    """)
_OF_CALLS = _set_of("""
    tool tools tool_use function functions call calls arguments args parameters params input inputs content message data value
    properties body payload return step steps choices
    """)
_GLUE = _set_of("""
    sure certainly course absolutely definitely understood okay ok alright right great perfect excellent thanks thank you yes hi hello
    here there go goes is are am was it its s this that these those the a an my your our their i ve ll m we re us me us let below above following as follows
    for to of in on at by from with and so all now then first second third next finally lastly step steps task tasks goal request
    requests query question user schema format formatted formatting instructions requirements specification specified based per
    according accordance matching matches match conforming adhering follow have has had made make makes created create creates built
    build generated generate produced produce produces prepared prepare provided provide provides give given gives giving wrote
    written write will be been use uses using used tool tools call calls available each every only just exactly in
    form code block markdown text syntax type started begin begins starting done end ends end-of complete think thought thoughts
    reasoning reason description after review reviewing considering account into details information context carefully
    javascript js python py yaml txt plaintext inst sys s im end start assistant channel final of eos bos eot id eom pre br p div
    """)
_LOCAL = _set_of("""
    hier ist sind der die das ein eine mein unser ergebnis antwort plan ausführungsplan als json objekt gern gerne natürlich folgende folgender
    voici le la les un une votre ma mon notre réponse résultat objet bien sûr plan d exécution demandé au format
    aquí aqui está este esta el los del plan de ejecución respuesta resultado objeto en formato claro solicitado
    ecco il lo piano di esecuzione risposta risultato oggetto certo certamente formato richiesto o plano execução resposta
    """)
_WORDS = _NOUNS | _KINDS | _GLUE | _LOCAL
_CLOSING = _WORDS | _set_of("""
    know if or need needs any anything something else more further additional other changes change adjustments modifications
    questions clarification help assistance assist happy glad d would like feel free please ask hope helps want wish
    """)
_CLOSES = re.compile(r"\s*(?:please\s+)?(?:let me know if|feel free to|i hope|hope|if you (?:need|have)|happy to|i'?m happy to)\b", re.I)  # fmt: skip
_MORE = re.compile(
    r"\b(?:any\w*|something|else|further|additional|more|other|changes|adjustments|modifications|questions|clarification|help\w*|assist\w*)\b",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"\b(?:task|tasks|steps?|plans?|request|requests|query|question|user|result|results|it|everything)\b[^.,]{0,40}?\b(?:is|are|was|were|has|have|had|been)\b"
    r"[^.,]{0,40}?\b(?:done|completed|complete(?!\s+\w)|finished|requested|created|made|executed|used)\b"
    r"|\b(?:plan|answer|evaluation|result)\s+(?:was|that|is\s+the\s+first)\b|\brequest\s+(?:is|was|has)\b|\bi\s+(?:was|object)\b|\byou\s+requested\b|\bonly\b|\bafter\s+review\b|\breview\s+this\b",
    re.IGNORECASE,
)
"""What is said of a plan or of a task, in the words of introductions."""
_OFFERS = re.compile(
    r"\b(?:me|us)\s+to\b(?!\s+(?:make|add|change|explain|adjust|help)\s+(?:any|some|more|further|other|changes|you|with))|\bfirst\b|\b(?:this|these|those|to\s+be|make\s+these)\b(?!\s+helps)",
    re.IGNORECASE,
)
"""What a closing word leaves to be said yes to."""
_PHRASES = re.compile(
    r"以下(?:は|が)(?:計画|回答|結果|JSON|です|の|:|：|\s)*|(?:以下|下面|这|這|此)(?:是|為|为)?(?:您|你|最终|执行|計画|計劃|计划|的|答案|结果|結果|評価|评估|回答|json|JSON|对象|格式|：|:|\s)*"
    r"|好的|当然"
    r"|\bis there anything else (?:that )?(?:you(?:['’]d| would)? (?:like|need|want)|i can)(?: me)?(?: to)?(?: (?:do|help(?: you)? with))?"
    r"|\\boxed\b",
    re.IGNORECASE,
)
CROSSES = frozenset("❌❎🚫⛔✗✘🛑👎")
"""Signs that take back without a word."""
_SENTENCE = re.compile(r"([.!?:;。！？：；؟\n]+)")
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_TAG = re.compile(
    r"<(?P<bar>[|｜]?)(?P<close>/?)(?P<said>[^<>\n]{0,60}?)/?[|｜]?>|\[(?P<boxed_close>/?)(?P<boxed>[A-Za-z][A-Za-z_ ]{2,40})\]"
)


def more_than_introduces(said: str) -> str:
    """The sentences around an answer that do more than introduce or close it; of their signs only that of a question is kept."""
    pieces = _SENTENCE.split(_PHRASES.sub(" ", said))
    asked = [_asks(*one) for one in zip(pieces[::2], [*pieces[1::2], ""], strict=True)]
    kept = [
        f"{sentence}?" if asks else sentence
        for sentence, asks in zip(pieces[::2], asked, strict=True)
        if asks or not _introduces(sentence)
    ]
    return ". ".join(kept)


def _asks(sentence: str, sign: str) -> bool:
    """True if it is a question that is left open; an offer of more is none."""
    if not any(mark in sign for mark in "?？؟") or not _WORD.search(sentence):
        return False
    return _MORE.search(sentence) is None or _OFFERS.search(sentence) is not None


def _introduces(sentence: str) -> bool:
    if not CROSSES.isdisjoint(sentence):
        return False
    if _CLOSES.match(sentence):
        known = frozenset() if _OFFERS.search(sentence) or not _MORE.search(sentence) else _CLOSING
    else:
        known = frozenset() if _STATES.search(sentence) else _WORDS
    words = {word for word in _WORD.findall(sentence.casefold()) if not word.isdecimal()}
    return words <= known and not _of_a_tool(words)


@lru_cache(maxsize=512)
def is_wrapper(name: str) -> bool:
    """True if an object or a tag of this name only wraps an answer: `final_plan`, `arguments`, `toolCall`.

    `bad_plan`, `example` and `tool_response` say of what they hold that it is something else.
    """
    words = _words_of(name)
    return bool(words) and words <= _WRAPPING and not _of_a_tool(words)


def is_call_of_answer(name: str) -> bool:
    """True if a call of this name only gives an answer: `execution_plan`, `submit_plan`; `refuse` and `rejected_plan` do not."""
    words = _words_of(name)
    known = _WRAPPING | _GIVING
    return words <= known and not (words - {"tool", "tools"}).isdisjoint(known) and not _of_a_tool(words)


_GIVING = _set_of(
    "submit create make give provide respond generate write set save return finish emit produce build plan json"
)


def _words_of(name: str) -> set[str]:
    return set(_WORD.findall(_HUMP.sub(" ", name).replace("_", " ").casefold()))


def _of_a_tool(words: set[str]) -> bool:
    """What a tool has answered is not what the model does."""
    return not words.isdisjoint(("tool", "tools", "function")) and not words.isdisjoint(_ANSWERED)


_ANSWERED = ("response", "result", "results", "output", "outputs", "content", "message", "data")
_WRAPPING = _NOUNS | _KINDS | _OF_CALLS | {"the", "my", "your", "a", "execution", "is"}


class Tag(NamedTuple):
    """A tag that calls what is in it something else than an answer."""

    start: int
    end: int
    name: str
    closes: bool
    barred: bool
    """It is a token of a model's template: nobody has to close it."""


def strange_tags(text: str) -> Iterator[Tag]:
    """The tags of a text that do not only wrap, in order."""
    for found in _TAG.finditer(text):
        name = _strange(found)
        if name:
            words = name.split()
            closes = bool(found["close"] or found["boxed_close"]) or words[-1] in ("end", "close")
            base = " ".join(word for word in words if word not in ("begin", "start", "end", "open", "close"))
            yield Tag(found.start(), found.end(), base or name, closes, bool(found["bar"]))


def without_tags(text: str) -> tuple[str, bool]:
    """The text without the tags that only wrap; and whether there are others, which stay."""
    strange = False

    def plain(found: re.Match[str]) -> str:
        nonlocal strange
        if found["boxed"] is not None and not _strange(found):
            return found[0]
        if (found["said"] or "").startswith("!"):
            return f" {found['said']} "  # a comment
        if not _strange(found):
            return " "
        strange = True
        return f" {found['said'] or found['boxed']} "

    return _TAG.sub(plain, text), strange


def _strange(tag: re.Match[str]) -> str:
    """What the tag calls what is in it, in plain words; empty where it is a part of the form."""
    said = (tag["boxed"] or tag["said"] or "").strip()
    name = said if tag["bar"] else said.partition(" ")[0]
    words = _words_of(name)
    plain = " ".join(_WORD.findall(_HUMP.sub(" ", name).replace("_", " ").casefold()))
    if not words or _of_a_tool(words):
        return plain
    if tag["boxed"]:
        return plain if words <= _TAKEN_BACK else ""
    if tag["bar"]:
        return "" if words <= _TOKENS else plain
    return "" if is_wrapper(name) or name.casefold() in _OF_FORM else plain


_TAKEN_BACK = _set_of("rejected discarded old previous superseded untrusted quote quoted example bad")
_TOKENS = (
    _NOUNS
    | _OF_CALLS
    | _set_of("""
    im start end assistant channel final message return eot id eom begin of text header python tag system endoftext sep bos eos constrain
    commentary sections section argument type think thinking thought thoughts action plugin sentence pad unk chatbot cls turn model s eod
    header user token reserved special recipient content
    """)
)
"""Words of the names that templates of models have for the parts of a talk."""


_OF_FORM = frozenset(
    {"s", "br", "p", "div", "pre", "code", "b", "i", "details", "html", "inst", "end", "eos", "bos"}
)
