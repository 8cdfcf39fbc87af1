"""What an error says of its own outcome: words that speak of a time-out, or of a connection that was lost.

Such words raise a doubt and never clear one. Words of busyness ("temporarily", "try again later", "not available") say
nothing of the outcome: a service that turns a call away says the same.
"""

from __future__ import annotations

import re

from replan.core.failures.text import MAX_TEXT, stated_status, words

_NOT_OF_A_VALUE = r"(?! (?:must|should|has to|value|values|parameter|argument|option|field|is (?:invalid|not|too)|of \d+ (?:is|must)|in (?:seconds|ms)))"
_WHOSE = (
    r"(?:request|response|read|write|connection|connect|operation|gateway|query|call|socket|server|upstream|http|api|lock wait|client|"
    r"headers?|body|i o|network|dns|tls|handshake|proxy|backend|idle|inactivity)"
)
_TIME_OUT = (
    r"(?:timed|times|timing) out|e?(?:sock(?:et)?)?timed ?out|etimedout"
    rf"|(?<!invalid )(?<!field )(?<!parameter )(?<!argument )(?<!option )(?<!setting ){_WHOSE} time ?out{_NOT_OF_A_VALUE}"
    r"|time ?out (?:error|exception|exceeded|expired|occurred|reached|elapsed|after|while|waiting|when|during|of \d+ ?(?:ms|s|secs?|seconds|milliseconds)? exceeded)"
    r"|due to (?:a |the )?time ?out|(?<=\. )time ?out(?= \.|$)"
)
_ENGLISH = re.compile(
    rf"\b(?:{_TIME_OUT}"
    r"|deadline (was |is |has been )?(exceeded|expired|reached)"
    r"|(no|without( an?)?) (answer|response|reply)(?! (found|in the|to the|for|is|to give|was found|field|format|schema|type|code|key|template|option|value|given|text))"
    r"|did not (answer|respond|reply)|took too long|gave up waiting"
    r"|econn(reset|aborted)|epipe"
    r"|connection (?:\w+ ){0,4}(reset|closed|lost|aborted|dropped|terminated|interrupted|broken|broke)"
    r"|(lost|losing|reset|closed|aborted|dropped|terminated|interrupted|broken) (?:\w+ ){0,2}connection"
    r"|broken pipe(?! (has|with|in|of))|(recv|send|receive) failure"
    r"|socket (hang up|hung up|closed)|und err socket|other side closed"
    r"|(server|peer|remote( end| host)?|client) (\w+ )?(disconnected|closed (the |its )?connection|hung up)"
    r"|(server|database|connection|my sql|mysql) (\w+ ){0,2}gone away"
    r"|(?<!parsing )(eof|end of (the )?(file|stream))(?! expected)(?! while (parsing|scanning|reading (json|the json)))"
    r"|incomplete ?(read|response|chunked)"
    r"|bad gateway(?! (id|name|address|value|code))|gateway error|internal server error"
    r"|5\d\d (from|by) (the )?(upstream|server|backend|gateway|proxy|service)"
    r"|empty (reply|response)( from (the )?server)?"
    r"|(operation|request|call|stream|query|transaction) (was |is |has been )(aborted|cancell?ed|interrupted)|abort error|context cancell?ed"
    r"|(fetch|load|network request) failed|failed to fetch|xml ?http ?request error"
    r"|network (error|failure|failed|problem|issue)|(?<=\. )network (changed|lost|down)"
    r"|transport (is )?(closing|closed|error)|stream (error|reset|closed)|go ?away|rst stream"
    r"|i o (error|exception)|communication (link |channel |error |failure ?)*(error|failure|lost|interrupted)"
    r")\b"
    r"|(?:^|\. )(?:type error \. )?terminated$"
)
_UNREACHABLE = re.compile(
    r"\b(host|server|network|gateway|peer|service|backend|upstream|database|destination) "
    r"((became|becomes|has become|is|was|went|got|turned) )?(suddenly )?unreachable\b",
    re.IGNORECASE,
)
_GERMAN = re.compile(
    r"zeit(ü|ue)berschreitung|(verbindung|netzwerk\w*|leitung)\b.{0,40}\b(unterbrochen|abgebrochen|getrennt|verloren|zur(ü|ue)ckgesetzt|geschlossen)"
    r"|(verbindungs|netzwerk)(abbruch|verlust|fehler|unterbrechung)|keine antwort (vom|von)\b",
    re.IGNORECASE,
)
_HAN = re.compile(r"[\u3400-\u9fff]+")
_CHINESE = re.compile(
    r"(超时|逾时|逾時|超時)(?!时间|时长|時間|参数|參數|值|设置|必须|应|无效|不能|不合法)|(连接|連接|連線).{0,6}(断开|中断|丢失|重置|关闭|斷開|中斷|重設|關閉)"
    r"|(无|無|未|没有|沒有)(响应|回应|應答|应答|回應)"
    r"|(网络|網路|網絡|通信|通訊)(错误|錯誤|异常|異常|故障|中断|中斷|失败|失敗)|服务器(内部)?(错误|异常)|伺服器(內部)?(錯誤|異常)"
)


_NAME = re.compile(r"""["'`][^\s"'`]*["'`]|\b[^\W_]+_\w+""")
"""What stands in quotes without a blank, and what an underscore holds together: the name of a field, or a value."""
_STATED = re.compile(
    r"(?<![^\W_])(?:error|errno|code|reason|cause|type|message|msg|detail|title|exception)[\"'`]?\s*+[:=]\s*+[\"'`]?"
    r"(?P<what>[\w-]++)(?=[\"'`]?\s*+(?:[,;)}\]\n]|\.?\Z))",
    re.IGNORECASE,
)
"""One word under a name for what went wrong, and nothing beside it (`{"error": "timeout"}`): the error itself, and no field of it. Not its
status: things have one, too."""


def refusal_speaks_of_doubt(text: str) -> bool:
    """As `speaks_of_doubt`, of an answer that is about the form of what was asked for: the fields that it names are no words of its own."""
    if len(text) > MAX_TEXT:
        return refusal_speaks_of_doubt(text[:MAX_TEXT]) or refusal_speaks_of_doubt(text[-MAX_TEXT:])
    return _says_doubt(_NAME.sub(" ", text)) or states_doubt(text)


def speaks_of_doubt(text: str) -> bool:
    """True if the text tells of a time-out, of a lost connection, or of a breakdown (5xx) on the way.

    Of a long one its beginning and its end: the last line of a traceback says most.
    """
    if len(text) > MAX_TEXT:
        return speaks_of_doubt(text[:MAX_TEXT]) or speaks_of_doubt(text[-MAX_TEXT:])
    return _says_doubt(text) or states_doubt(text)


def states_doubt(text: str) -> bool:
    """True if a time-out or a lost connection is what it names as the error, in one word or code."""
    return any(_says_doubt(found["what"]) for found in _STATED.finditer(text))


def _says_doubt(text: str) -> bool:
    status = stated_status(text)
    if status is not None and (status >= 500 or status == 408):
        return True
    # each language by itself: what is read as English elsewhere tells a limit from a time-out less well
    said = f". {words(_HAN.sub(' ', text))}"
    return any(
        (_ENGLISH.search(said), _UNREACHABLE.search(said), _GERMAN.search(text), _CHINESE.search(text))
    )
