"""Chinese error texts as the English words that they stand for, so that one set of rules reads both languages."""

from __future__ import annotations

import re
from functools import cache

_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_PLAIN = str.maketrans(
    "時連線參數無權務錯誤請試後繁額餘認證驗鑰憑過頻絕斷開網絡統異須應範圍裝復複類協議庫檔僅內暫錄訪問帳號費節點響"
    "據詢戶許審單遠運執寫讀該這個擁處將沒與對為達滿態結構導從設備來現實際鐘",
    "时连线参数无权务错误请试后繁额余认证验钥凭过频绝断开网络统异须应范围装复复类协议库档仅内暂录访问账号费节点响"
    "据询户许审单远运执写读该这个拥处将没与对为达满态结构导从设备来现实际钟",
)  # fmt: skip
"""Traditional characters as the simplified ones."""
_SIGNS = str.maketrans(
    {"：": ": ", "。": ". ", "；": "; ", "，": ", ", "！": "! ", "（": " (", "）": ") ", "、": ", "}
)

# `~` stands for any Chinese character.
_TERMS: tuple[tuple[str, str], ...] = (
    # pace
    (r"(请求|访问|调用|操作|查询)(次数)?(过于|太|过)?(频繁|过多|太多|过快)|(过于|太过?)频繁", "too many requests"),
    (r"限流|流控|(频率|速率|流量|并发|qps|tps)(数)?(已)?(受限|超限|过高|限制|超出|超过|达到上限)~{0,4}", "rate limit exceeded"),
    (r"(超出|超过|达到|触发)了?(最大)?(调用|访问|请求|接口)?(频率|速率|流量|并发)(数)?(的)?(限制|上限)?", "rate limit exceeded"),
    # identity, rights, money
    (r"(未|没有|尚未|请先|需要)(登录|登陆|认证|授权|鉴权)", "not authorized"),
    (r"(登录|登陆|会话|认证|授权|令牌|凭证|凭据|密钥|签名|token|证书)(信息)?(已)?(过期|失效|无效|错误|不正确|缺失)", "invalid credentials"),
    (r"(无效|非法|错误|过期)的?(令牌|凭证|凭据|密钥|签名|token)", "invalid credentials"),
    (r"(身份)?(认证|鉴权|授权|身份验证|登录)(校验)?(失败|不通过|未通过)", "authentication failed"),
    (r"(权限|许可)(不足|不够|受限)|(无|没有|缺少|未授予|不具备)~{0,6}权限|无权|(禁止|拒绝|不允许)(访问|操作)|访问被(拒绝|禁止)", "permission denied"),
    (r"欠费|余额不足|(需要|请先)?付费|(账号|账户|帐户|套餐|订阅)~{0,2}(停用|禁用|冻结|封禁|过期|到期|欠费)", "payment required"),
    (r"(配额|额度|限额)~{0,4}(不足|用尽|用完|耗尽|超出|超限|超过|已满)|(超出|超过)~{0,6}(配额|额度|限额)", "quota exceeded"),
    # a missing piece
    (r"未安装|没有安装|(命令|模块|依赖|程序)(不存在|未找到|找不到|缺失)", "not installed"),
    # breakdowns
    (r"(连接|链接|联网|线路)~{0,4}(超时|超时间)|(请求|响应|操作|读取|写入|调用|处理|执行|查询|等待|服务)?~{0,4}超时|逾时|超出时限", "timed out"),
    (r"(连接|链接|连线)~{0,4}(重置|中断|断开|关闭|丢失|失败|错误|异常)|(无法|不能|未能)(连接|链接|连上)", "connection failed"),
    (r"(连接|链接|连线)~{0,2}(被)?(拒绝)|拒绝(了)?(连接|链接)", "connection refused"),
    (r"网[络路]~{0,4}(错误|异常|不可达|故障|中断|失败|不稳定|不通)", "network error"),
    (r"(服务器?|系统|后台|后端|网关|接口)(内部)?(发生|出现)?(了)?(未知)?(错误|异常|故障|出错)|内部(服务器?)?(错误|异常)", "internal server error"),
    (r"(服务器?|系统|节点|资源|数据库|接口|网关|工具)?~{0,4}(暂时?)?(不可用|无法使用|无响应|没有响应|维护中?|宕机|离线|已下线)", "service unavailable"),
    (r"(服务器?|系统|资源|数据库)?(太|很|正)?(繁忙|忙碌|过载)", "server is busy overloaded"),
    (r"死锁|(表|行|库|文件|资源|数据库)(已|被)(锁定|加锁)", "deadlock"),
    (r"未知(的)?(错误|异常)", "unknown error"),
    (r"(请)?(稍后|稍候|一会儿?|过一会)(再|后)?(试|重试|尝试|操作)|请重试|重新尝试|(请)?~{0,8}后(再试|重试|重新尝试)", "try again later"),
    (r"暂时|临时性?", "temporarily"),
    # the call
    (r"(缺少|缺失|没有提供|未提供|未传|未填|丢失)(了)?(必要|必填|必需|必须)?(的)?", "missing required"),
    (r"(不能|不可|不得|不允许)(为|是)?(空|空值|空白)", "can not be empty"),
    (r"(是)?(必填|必需|必传)(项|的)?", "required"),
    (r"(不|未|没有)(存在|找到|查到|发现)|找不到|查无|查询不到", "not found does not exist"),
    (r"(已经?|重复)(存在|被占用|使用|注册)|重复", "already exists duplicate"),
    (r"(暂)?不(支持|受支持|接受|认识|识别)", "not supported"),
    (r"(格式|类型|语法|取值|输入|值)?(不正确|不合法|不合规|非法|无效|有误|不对|不符合?|不匹配|错误)", "invalid"),
    (r"(必须|应该?|需要|只能)(是|为|在|大于|小于|不超过|包含)?", "must be"),
    (r"(超出|超过|不在)~{0,8}(范围|长度|限制|大小|上限|之内|之间)", "out of range"),
    (r"(太|过)(长|短|大|小|多|少)", "too long"),
    (r"冲突", "conflict"),
    (r"(请求)?(参数|字段|入参|变量)", "parameter"),
    (r"格式", "format"),
    (r"状态", "state"),
)  # fmt: skip
_SECONDS = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s?(毫秒|秒钟?|分钟?|小?时)\s?(?:之?后|以后)")
_UNITS = {"毫": "ms", "秒": "s", "分": "min", "小": "h", "时": "h"}


@cache
def _rules() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Compiled for the first Chinese text: that takes a tenth of all that importing Replan takes."""
    return tuple(
        (re.compile(pattern.replace("~", r"[\u4e00-\u9fff]"), re.IGNORECASE), f" {words} ")
        for pattern, words in _TERMS
    )


def in_english(text: str) -> str:
    """The text with known Chinese terms of errors in English words; any other text as it is."""
    if not _CHINESE.search(text):
        return text
    text = text.translate(_PLAIN).translate(_SIGNS)
    text = _SECONDS.sub(lambda found: f" try again in {found[1]} {_UNITS[found[2][0]]} ", text)
    for pattern, words in _rules():
        text = pattern.sub(words, text)
    return text
