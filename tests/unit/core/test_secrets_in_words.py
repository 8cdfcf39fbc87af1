"""What is taken out of what people say in their own words: what can hardly be anything but a secret."""

from __future__ import annotations

import pytest

from replan.core.secrets import without_secrets_said


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("the password is hunter2", "the password is ***"),
        ("Passwort: Hunter_22!", "Passwort: ***!"),
        ("密码：abc12345", "密码：***"),
        ("api_key=swordfish", "api_key=***"),
        ('{"password": "a b c"}', '{"password": "***"}'),
        ("it is sk-live-abcdefgh12345.", "it is ***"),
        ("send Bearer abcdef123456 along", "send Bearer *** along"),
        ("at https://me:pw@host/x?token=abc", "at https://host/x?token=***"),
        ("postgres://me:pw@db:5432/x", "postgres://db:5432/x"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- thanks", "*** thanks"),
    ],
)
def test_what_can_hardly_be_anything_else_is_taken_out(text: str, kept: str) -> None:
    assert without_secrets_said(text) == kept
    assert without_secrets_said(kept) == kept


@pytest.mark.parametrize(
    "text",
    [
        "password: use the old one",
        "Bearer of bad news",
        "mail bob@example.org, or git@host:x/y.git",
        "token: 5 of 7 left",
        "secret: Tom is the killer",
        "see https://x.example/?q=1&page=2 and https://me@x.example/",
        "next_page_token: abc123def",
        "the token is 4711 and the pin is in the drawer",
        "cookie: oatmeal raisin",
        "",
    ],
)
def test_a_sentence_stays_as_it_was_said(text: str) -> None:
    assert without_secrets_said(text) == text


def test_a_long_text_takes_no_longer_for_a_word() -> None:
    """Whatever it repeats: none of the patterns goes back."""
    for piece in (
        "password ",
        "password:",
        "a=",
        "Bearer ",
        "x://",
        "'password' : ",
        "-----BEGIN PRIVATE KEY-----",
        "is ",
    ):
        text = piece * (90_000 // len(piece))
        assert len(without_secrets_said(text)) <= len(text)
