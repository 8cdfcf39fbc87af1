"""Words and names that only introduce an answer, or close it.

What is none of them may take the answer back, so whoever reads it asks once more. A word that is missing here costs a request,
and one too many might cost an effect: what says yes or no, may, would or should, or what something is about, is none.
"""

from __future__ import annotations

import re
from functools import lru_cache


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
_PHRASES = re.compile(
    r"以下(?:は|が)(?:計画|回答|結果|JSON|です|の|:|：|\s)*|(?:以下|下面|这|這|此)(?:是|為|为)?(?:您|你|最终|执行|計画|計劃|计划|的|答案|结果|結果|評価|评估|回答|json|JSON|对象|格式|：|:|\s)*"
    r"|好的|当然"
    r"|\bis there anything else (?:that )?(?:you(?:['’]d| would)? (?:like|need|want)|i can)(?: me)?(?: to)?(?: (?:do|help(?: you)? with))?"
    r"|\\boxed\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?:;。！？：；\n]+")
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_TAG = re.compile(r"<(?P<bar>[|｜]?)(?P<close>/?)(?P<said>[^<>\n]{0,60}?)/?[|｜]?>")


def more_than_introduces(said: str) -> str:
    """The sentences around an answer that do more than introduce or close it."""
    return ". ".join(
        sentence for sentence in _SENTENCE.split(_PHRASES.sub(" ", said)) if not _introduces(sentence)
    )


def _introduces(sentence: str) -> bool:
    known = _CLOSING if _CLOSES.match(sentence) else _WORDS
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


def without_tags(text: str) -> tuple[str, list[str]]:
    """The text with the tags that only wrap taken out; and the names of those that do not, which stay."""
    strange: list[str] = []

    def plain(found: re.Match[str]) -> str:
        said = found["said"]
        if found["bar"] or is_wrapper(said) or said.strip().casefold() in _OF_FORM:
            return " "
        strange.append(said.partition(" ")[0].strip().casefold())
        return f" {said} "

    return _TAG.sub(plain, text), strange


_OF_FORM = frozenset(
    {"s", "br", "p", "div", "pre", "code", "b", "i", "details", "html", "inst", "end", "eos", "bos"}
)
