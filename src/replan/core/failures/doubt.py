"""What an error says of its own outcome: words that speak of a time-out, or of a connection that was lost.

Such words raise a doubt and never clear one. Words of busyness ("temporarily", "try again later", "not available") say
nothing of the outcome: a service that turns a call away says the same.
"""

from __future__ import annotations

import re

from replan.core.failures.text import MAX_TEXT, stated_status, words

_TIME_OUT = re.compile(
    r"\b(?:e?(?:sock(?:et)?)?timed ?out|etimedout|timing out|times out|time ?outs?)\b"
    r"(?! (?:must|should|has to be|value|values|parameter|argument|option|is (?:invalid|not|too)|of \d+ (?:is|must)))"
)
_OF_A_VALUE = re.compile(
    r"\b(?:parameters?|arguments?|options?|fields?|property|properties|settings?|keyword|invalid|unknown|unexpected|missing|"
    r"unsupported|illegal|value for|negative|wrong|bad)(?: (?!\.)\w+){0,2} $"
)
"""What stands before the word where it is the name of something that was given, and no event."""
_ENGLISH = re.compile(
    r"\b(?:"
    r"deadline (was |is |has been )?(exceeded|expired|reached)"
    r"|(no|without( an?)?) (answer|response|reply)(?! (found|in the|to the|for|is|to give|was found))"
    r"|(did|does|do) not (answer|respond|reply)|took too long|gave up waiting"
    r"|econn(reset|aborted)|epipe"
    r"|connection (?:\w+ ){0,4}(reset|closed|lost|aborted|dropped|terminated|interrupted|broken|broke)"
    r"|(lost|losing|reset|closed|aborted|dropped|terminated|interrupted|broken) (?:\w+ ){0,2}connection"
    r"|broken pipe|(recv|send|receive) failure"
    r"|socket (hang up|hung up|closed)|und err socket|other side closed"
    r"|(server|peer|remote( end| host)?|client) (\w+ )?(disconnected|closed (the |its )?connection|hung up)"
    r"|(server|database|connection|my sql|mysql) (\w+ ){0,2}gone away"
    r"|(?<!parsing )(eof|end of (the )?(file|stream))(?! while (parsing|scanning|reading (json|the json)))"
    r"|incomplete ?(read|response|chunked)"
    r"|bad gateway|gateway error|internal server error"
    r"|5\d\d (from|by) (the )?(upstream|server|backend|gateway|proxy|service)"
    r"|empty (reply|response)( from (the )?server)?"
    r"|(operation|request|call|stream|query|transaction) (was |is |has been )?(aborted|cancell?ed|interrupted)|abort error|context cancell?ed"
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


def speaks_of_doubt(text: str) -> bool:
    """True if the text tells of a time-out, of a lost connection, or of a breakdown (5xx) on the way.

    Of a long one its beginning and its end: the last line of a traceback says most.
    """
    if len(text) > MAX_TEXT:
        return speaks_of_doubt(text[:MAX_TEXT]) or speaks_of_doubt(text[-MAX_TEXT:])
    status = stated_status(text)
    if status is not None and (status >= 500 or status == 408):
        return True
    # each language by itself: what is read as English elsewhere tells a limit from a time-out less well
    said = f". {words(_HAN.sub(' ', text))}"
    return _timed_out(said) or any(
        (_ENGLISH.search(said), _UNREACHABLE.search(said), _GERMAN.search(text), _CHINESE.search(text))
    )


def _timed_out(said: str) -> bool:
    """True where a time-out is spoken of as something that came, and not as a value that was given."""
    return any(_OF_A_VALUE.search(said, 0, found.start()) is None for found in _TIME_OUT.finditer(said))
