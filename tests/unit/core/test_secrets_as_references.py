"""Secrets whose signs are written as references: by name, in decimal or hexadecimal numbers, of HTML, JSON, JavaScript and addresses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpu_time import cpu
from replan.core.secrets import MASK, KnownSecrets, Pieces
from replan.core.waits.condition import condition_with_values

SECRETS = ["q8Zk3+fT/9pLmXw2v7RrYg==", "P4ss&word<2026>=x'\"", "zäh-\U0001f511-Schlüssel`"]


def written(signs: str, form: Callable[[int], str]) -> Callable[[str], str]:
    """An escaper that writes some signs in its own way, and `&` by its name."""
    return lambda text: "".join(
        form(ord(sign)) if sign in signs or not sign.isascii() else "&amp;" if sign == "&" else sign
        for sign in text
    )


def in_json(signs: str, digits: str) -> Callable[[str], str]:
    """JSON, with further signs as units of UTF-16."""

    def write(text: str) -> str:
        parts = [
            json.dumps(sign)[1:-1]
            if sign not in signs and sign.isascii()
            else "".join(
                f"\\u{int.from_bytes(raw[at : at + 2], 'big'):04{digits}}" for at in range(0, len(raw), 2)
            )
            for sign in text
            if (raw := sign.encode("utf-16-be"))
        ]
        return "".join(parts)

    return write


NAMES = {
    "+": "plus",
    "/": "sol",
    "=": "equals",
    "<": "lt",
    "&": "amp",
    "'": "apos",
    '"': "quot",
    "ä": "auml",
    "ü": "uuml",
}
GO_HTML = written("'\"+<>", lambda code: f"&#{code};")
ESCAPERS = {
    "he, with names": lambda text: "".join(f"&{NAMES[sign]};" if sign in NAMES else sign for sign in text),
    "OWASP for JavaScript": lambda text: "".join(
        f"\\x{ord(sign):02x}" if sign in "'\"&/<>+=" else json.dumps(sign)[1:-1] for sign in text
    ),
    "url.PathEscape of Go": lambda text: quote(text, safe="+=&$@:"),
    "an address in HTML": lambda text: GO_HTML(quote(text, safe="+&'")),
    "HTML in the JSON of Go": lambda text: GO_HTML(text).replace("&", "\\u0026"),
    "HTML in HTML in JSON": lambda text: GO_HTML(GO_HTML(text)).replace("&", "\\u0026"),
    "JSON in HTML": lambda text: in_json("<>&='+`\"", "x")(text).replace("\\", "&#x5c;"),
    "Go html/template": written("'\"+<>", lambda code: f"&#{code};"),
    "HtmlEncoder of ASP.NET": written("'\"+<>", lambda code: f"&#x{code:X};"),
    "mustache": written("'\"/=`<>", lambda code: f"&#x{code:x};"),
    "Handlebars": written("'\"=`<>", lambda code: f"&#x{code:x};"),
    "zeros in decimal": written("'\"+/=<>`-", lambda code: f"&#{code:04};"),
    "zeros in hexadecimal": written("'\"+/=<>`-", lambda code: f"&#X{code:06x};"),
    "Gson": in_json("<>&='", "x"),
    "System.Text.Json": in_json("<>&+'`\"", "X"),
    "HTML in HTML": written("'\"+/=<>", lambda code: f"&amp;#x{code:x};"),
    "JSON in JSON": lambda text: json.dumps(in_json("<>&=+'\"", "x")(text))[1:-1],
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("escaper", ESCAPERS)
def test_a_secret_is_hidden_whatever_an_escaper_makes_of_its_signs(escaper: str, secret: str) -> None:
    known = KnownSecrets()
    known.add(secret, "key")
    form = ESCAPERS[escaper](secret)
    assert form != secret
    assert known.hide(f"é&lt;you sent: {form}&gt; {form}.") == f"é&lt;you sent: {MASK}&gt; {MASK}."
    assert known.may_stand_in(f"\\u00e9{form}".encode())
    assert not known.may_stand_in(b"&amp; \\u003d \xff nothing")


@given(st.data())
def test_every_mixture_of_references_is_read_and_told_in_pieces_as_in_one(data: st.DataObject) -> None:
    known = KnownSecrets()
    known.add(secret := "a+b/c=d&e-77", "key")
    forms = (
        "{}",
        "&#{};",
        "&#0{};",
        "&#x{:x};",
        "&#x00{:X};",
        "\\u{:04x}",
        "\\u{:04X}",
        "&amp;#{};",
        "\\x{:02x}",
        "%{:02X}",
        "%25{:02x}",
        "\\u0026#{};",
    )
    text = "".join(
        sign
        if re.match(r"\w", sign) or (form := data.draw(st.sampled_from(forms))) == "{}"
        else form.format(ord(sign))
        for sign in secret
    )
    whole = f"&#60;{data.draw(st.text(max_size=5))} {text} &#62;"
    assert known.hide(whole).endswith(f" {MASK} &#62;")
    pieces = Pieces(known)
    cut = data.draw(st.integers(0, len(whole)))
    told = [pieces.take(sign) for sign in whole[:cut]]
    assert "".join([*told, pieces.take(whole[cut:]), pieces.rest()]) == known.hide(whole)


@pytest.mark.parametrize("form", ["\\u{:04x}", "&#{};", "&#x5c;x{:02x}", "%25{:02X}", "\\u0026#x0000{:x};"])
@pytest.mark.parametrize("secret", ["Abcdefgh12345678", SECRETS[0]])
def test_a_secret_of_which_every_sign_is_a_reference_is_told_in_no_piece(secret: str, form: str) -> None:
    known = KnownSecrets()
    known.add(secret, "key")
    whole = f"it is {''.join(form.format(ord(sign)) for sign in secret)}, and so on; {'words ' * 200}"
    pieces = Pieces(known)
    told = [pieces.take(sign) for sign in whole]
    assert "words" in "".join(told), "what is no secret is told as it comes"
    assert (
        "".join([*told, pieces.rest()]) == known.hide(whole) == f"it is {MASK}, and so on; {'words ' * 200}"
    )


@pytest.mark.parametrize("secret", ["Abcdefg\\<12345678", "Abcdefg\\ö12345678", 'Abcd`\\ö\\<1234"5678'])
def test_a_secret_with_a_backslash_before_a_reference_is_hidden(secret: str) -> None:
    known = KnownSecrets()
    known.add(secret, "key")
    written = json.dumps(secret)[1:-1].replace("<", "\\u003c").replace("`", "\\u0060")
    assert "\\\\\\u" in written
    assert known.hide(f"as {written}.") == f"as {MASK}."
    assert known.hide(f"as {condition_with_values('${x}', lambda _: secret)}.") == f'as `"{MASK}"`.'
    assert not known.may_stand_in(b"as something else: \\\\\\u003c")


def test_a_secret_that_has_references_itself_is_hidden_as_it_is_and_as_it_is_read() -> None:
    known = KnownSecrets()
    known.add("p%40ss+word/77", "password")  # out of an address
    for form in ("p%40ss+word/77", "p%40ss&#43;word&#x2F;77", "p%2540ss+word/77", "p@ss+word/77"):
        assert known.hide(f"as {form}.") == f"as {MASK}."
    short = KnownSecrets()
    short.add("%41%42%43%44", "key")
    assert short.hide("ABCDEF ABCD %41%42%43%44") == f"ABCDEF ABCD {MASK}"


def test_a_short_secret_is_hidden_beside_its_name_behind_references_too() -> None:
    known = KnownSecrets()
    known.add("4x", "pin")
    assert known.hide("&#34;pin&#34;:&#34;4x&#34;") == f"&#34;pin&#34;:&#34;{MASK}&#34;"
    assert known.hide("\\u0022n\\u0022:\\u00224x\\u0022") == "\\u0022n\\u0022:\\u00224x\\u0022"


@pytest.mark.parametrize(
    "piece",
    [
        "&",
        "\\\\\\u003c",
        "&amp;",
        "&#",
        "&#x2B;",
        "&#0000",
        "\\",
        "\\u",
        "\\u002B",
        "\\\\\\\\u00",
        "&#9999999;",
        "%25252B",
        "&amp;amp;amp;plus;",
        "\\x5cx5c",
    ],
)
def test_a_long_text_of_references_is_read_in_time_that_grows_with_it(piece: str) -> None:
    known = KnownSecrets()
    known.add(SECRETS[0], "key")
    text = piece * (1_000_000 // len(piece))
    with cpu(3):
        assert known.hide(text) == text
