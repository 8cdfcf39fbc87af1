"""Values that hold nothing: an envelope around nothing is nothing, and so is the word "none" where a text is wanted."""

from __future__ import annotations

import re
from typing import Any

from replan.core.walk import every

_FILLERS = frozenset(
    {"", "-", "--", "none", "null", "nil", "n/a", "na", "no", "false", "nothing", "not applicable"}
    | {"nichts", "kein", "keine", "keiner", "keines", "无", "没有"}
    | {
        "aucun",
        "aucune",
        "rien",
        "néant",
        "sans objet",
        "ninguno",
        "ninguna",
        "nada",
        "nessuno",
        "nessuna",
        "niente",
        "nenhum",
        "nenhuma",
        "geen",
        "niets",
    }
)


def is_filler(text: str) -> bool:
    """True for what is written where a field has to be filled and there is nothing to say."""
    return text.strip(" \t\r\n.。\"'").casefold() in _FILLERS


_WHAT = (
    r"(?:errors?|problems?|issues?|objections?|concerns?|failures?|mistakes?|defects?|discrepanc(?:y|ies)|faults?"
    r"|questions?|clarifications?|doubts?|reservations?|blockers?|obstacles?"
    r"|(?:wrong|incorrect|false|bad)\s+(?:\w+\s+)?(?:results?|outputs?|values?|steps?|answers?))"
)
_FOUND = r"(?:\s+(?:(?:was|were|is|are|have\s+been|has\s+been)\s+)?(?:found|identified|detected|observed|reported|known|occurred|noted|seen|needed|required|necessary|so\s+far|at\s+all))*"
_THERE_IS_NONE = re.compile(
    r"(?:(?:no|nein|non)[,;:.]\s+)?(?:"
    rf"(?:(?:there\s+(?:is|are|was|were)|i\s+have)\s+)?no\s+(?:known\s+|major\s+|other\s+|open\s+|further\s+)?{_WHAT}{_FOUND}|none{_FOUND}|0"
    r"|nothing(?:\s+(?:is|was|went|to\s+report))?(?:\s+(?:wrong|incorrect|amiss|failed))?"
    r"|(?:none|not|nothing)\s+(?:is\s+)?(?:needed|required|necessary)"
    r"|keine?\s+(?:fehler|probleme?|einwände|mängel|(?:rück)?fragen?|bedenken|unklarheiten|(?:falschen?|fehlerhaften?)\s+(?:ergebnisse?|werte?|ausgaben?))(?:\s+(?:gefunden|aufgetreten|festgestellt|bekannt|offen|nötig|notwendig|erforderlich))?"
    r"|nichts\s+(?:falsch|fehlgeschlagen)|nein|nicht\s+(?:nötig|notwendig|erforderlich)"
    r"|(?:c['’]est\s+)?(?:non|pas|inutile|aucunement)(?:\s+(?:besoin|nécessaire|requise?|obligatoire|utile))?|pas\s+de\s+questions?|aucune?\s+(?:questions?|erreurs?|problèmes?|objections?|confirmation)"
    r"|no\s+(?:es\s+|hace\s+)?(?:necesari[oa]|falta|requerid[oa])|ningun[oa]?\s+(?:pregunta|error|problema)|sin\s+(?:preguntas?|errores)"
    r"|non\s+(?:è\s+)?(?:necessari[oa]|richiest[oa])|nessun[oa]?\s+(?:domanda|errore|problema)|não\s+(?:é\s+)?(?:necessári[oa]|preciso)|niet\s+nodig|geen\s+vragen"
    r"|(?:无|没有|未发现|没有发现)(?:任何)?(?:错误|问题|失败|异常)(?:的?结果)?|否|不需要|无需|没有必要)",
    re.IGNORECASE,
)


def says_there_is_none(text: str) -> bool:
    """True of what is written, where something is told only if there is any, to say that there is not: a filler, "No errors found."."""
    return is_filler(text) or _THERE_IS_NONE.fullmatch(text[:200].strip(" \t\r\n.。!！\"'")) is not None


_BEGINS_WITH_NO = re.compile(
    r"\W*(?:(?:no|not|never|nein|nicht|nie|niemals)\b|不|否|没|别|勿)", re.IGNORECASE
)


def begins_with_no(value: Any) -> bool:
    """True of a text whose first word is a no, whatever follows: "No, ask Ann first."."""
    return isinstance(value, str) and _BEGINS_WITH_NO.match(value) is not None


_DONE = r"(?:done|complete[d]?|finished|planned|executed|carried\s+out|covered|taken\s+care\s+of)"
_DONE_IN_GERMAN = r"(?:erledigt|fertig|abgeschlossen|getan|gemacht|ausgeführt)"
_NOTHING_IS_LEFT = re.compile(
    rf"\b(?:nothing|none)\b[^.;!?]{{0,30}}\b(?:left|remains?|remaining|(?:more|else|further)\s+to\s+(?:be\s+)?(?:do|plan|done|planned))\b"
    rf"|\bno\s+(?:(?:more|further|other|additional|new)\s+)(?:\w+\s+)?(?:steps?|calls?|actions?|parts?|work|planning)\b"
    rf"|\b(?:all|everything|every\s+\w+|each\s+\w+)\b[^.;!?]{{0,60}}\b{_DONE}\b|\balready\s+{_DONE}\b"
    r"|\banything\s+(?:else|more|further)\b|\bno\s+steps?\s+(?:are\s+|is\s+)?(?:left|remain\w*)\b|\bnothing\s+to\s+(?:do|plan|add)\b"
    rf"|\b(?:task|work|job|plan)\s+(?:is|was|has\s+been)?\s*(?:now\s+|already\s+|fully\s+)*{_DONE}\b"
    r"|\bnichts\b[^.;!?]{0,20}\b(?:mehr|weiter(?:es)?|übrig|offen|zu\s+(?:tun|planen))\b"
    r"|\bkeine?\s+(?:weiter|zusätzlich)\w*\s+(?:\w+\s+)?(?:schritte?|aufrufe?|aktion(?:en)?|arbeit(?:en)?)\b"
    rf"|\b(?:alles?|aufgabe|plan|arbeit)\b[^.;!?]{{0,40}}\b{_DONE_IN_GERMAN}\b"
    r"|已(?:经)?(?:全部|都)?(?:完成|做完|结束)|(?:全部|都|均)(?:已)?(?:完成|做完)|没有(?:剩余|更多|其他|别的|剩下)|无需(?:更多|其他|进一步)|不需要(?:更多|其他|进一步)",
    re.IGNORECASE,
)


_IS_DONE = re.compile(
    rf"(?:all\s+)?{_DONE}\W*|(?:none|not|nothing)\s+(?:is\s+)?(?:needed|required|necessary)\W*"
    rf"|{_DONE_IN_GERMAN}\W*|nichts\W*|(?:已)?完成(?:了)?\W*|没有(?:了)?\W*|无\W*",
    re.IGNORECASE,
)
_BUT = re.compile(
    r"\b(?:except|apart\s+from|besides|but|however|not|cannot|can|could|unless|until|only|(?:im)?possible|fail\w*|missing|lack\w*)\b|n['’]t\b"
    r"|\b(?:außer|aber|bis\s+auf|nicht|kann|konnte|nur|ohne|bevor|(?:un)?möglich|fehl\w*|jedoch)\b|除|但|不能|无法|不可|还|未|失败|只|缺|才",
    re.IGNORECASE,
)
"""What says something beside that: there is more to it. English, German and Chinese; what is said in others is read by who judges."""


def says_nothing_is_left(text: str) -> bool:
    """True of words that may say so. Nothing may hang on it but that somebody looks whether it is so."""
    said = text[:2_000]
    if _IS_DONE.fullmatch(said.strip()):
        return True
    return _NOTHING_IS_LEFT.search(said) is not None and _BUT.search(said) is None


def has_reservations(text: str) -> bool:
    """True of words that may say more, or something else, than that all is done: a no, an exception, a wish."""
    said = text[:2_000]
    return _BUT.search(said) is not None or _NO_OR_PLEASE.search(said) is not None


_NO_OR_PLEASE = re.compile(
    r"\b(?:no|none|sorry|please|nein|kein\w*|leider|bitte|still|yet|noch)\b|请|抱歉", re.IGNORECASE
)


def is_nothing(value: Any) -> bool:
    """True if no text, no number but 0 and no `true` stands anywhere in the value."""
    return not any(
        one.strip() if isinstance(one, str) else one
        for one in every(value)
        if not isinstance(one, dict | list | tuple)
    )
