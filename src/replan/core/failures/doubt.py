"""What an error says of its own outcome: words that speak of a time-out, or of a connection that was lost.

Such words raise a doubt and never clear one. Words of busyness ("temporarily", "try again later", "not available") say
nothing of the outcome: a service that turns a call away says the same.
"""

from __future__ import annotations

import re

from replan.core.failures.text import MAX_TEXT, stated_status, words

_ABOUT_A_VALUE = (
    r"(?! (must|should|has to|value|values|parameter|argument|option|is (invalid|not|too)|of \d))"
)
_ENGLISH = re.compile(
    r"\b(?:"
    r"(timed|times|timing) out"
    rf"|(request|response|read|write|connection|connect|operation|gateway|query|call|socket|server|upstream|http|api|lock wait|client) (time ?out|timeout){_ABOUT_A_VALUE}"
    rf"|(time ?out|timeout) (error|exception|exceeded|expired|occurred|reached|elapsed|after|while|waiting|when|during)"
    r"|(?<=\. )(time ?out|timeout)$"
    r"|deadline (was |is |has been )?(exceeded|expired|reached)"
    r"|(no|without( an?)?) (answer|response|reply) (was )?(within|in time|after|received|from|came)"
    r"|did not (answer|respond|reply)"
    r"|etimedout|econn(reset|aborted)|epipe"
    r"|connection (?:\w+ ){0,4}(reset|closed|lost|aborted|dropped|terminated|interrupted|broken|broke)"
    r"|(lost|losing|reset|closed|aborted|dropped|terminated|interrupted|broken) (?:\w+ ){0,2}connection"
    r"|broken pipe"
    r"|socket (hang up|hung up|closed)"
    r"|(server|peer|remote( end| host)?|client) (\w+ )?(disconnected|closed (the |its )?connection|hung up)"
    r"|(unexpected|premature|early) (eof|end of (file|stream))"
    r"|eof occurred"
    r"|incomplete ?(read|response|chunked)"
    r"|bad gateway|internal server error"
    r"|empty (reply|response) from (the )?server"
    r")\b"
)
_HAN = re.compile(r"[\u3400-\u9fff]+")
_CHINESE = re.compile(
    r"(超时|逾时|逾時|超時)(?!时间|时长|時間|参数|參數|值|设置|必须|应|无效|不能|不合法)|(连接|連接|連線).{0,6}(断开|中断|丢失|重置|关闭|斷開|中斷|重設|關閉)"
    r"|(无|無|未|没有|沒有)(响应|回应|應答|应答|回應)"
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
    return bool(_ENGLISH.search(f". {words(_HAN.sub(' ', text))}") or _CHINESE.search(text))
