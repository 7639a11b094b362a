"""How one argument is written on a card: as text, code, money, a date or a size; raw where it is not what it claims."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from babel.dates import format_date, format_time
from babel.numbers import format_decimal, list_currencies

from core.canonical import value_at
from core.wording import say

# ISO 4217's minor units where they are not 2. Not Babel's digits: those are what people write, and CLDR has 0 for HUF,
# IQD, LBP and others, which would show a hundred or a thousand times the amount.
_MINOR_UNITS: Mapping[str, int] = {
    **dict.fromkeys(
        ("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF",
         "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}  # fmt: skip
_NO_MINOR_UNIT = frozenset(("XAG", "XAU", "XBA", "XBB", "XBC", "XBD", "XDR", "XPD", "XPT", "XSU", "XTS", "XUA", "XXX"))
_MAJOR = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,4})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})")
_AMBIGUOUS = re.compile(r'true|false|null|".*"|"', re.DOTALL)
_SIZES = ("kB", "MB", "GB", "TB", "PB")


def money_text(amount: Any, currency: Any, locale: str = "en") -> str | None:
    """`49.00 GBP`; None for what is no amount of a known currency."""
    if (money := money_of(amount, currency)) is None:
        return None
    value, code = money
    digits = _MINOR_UNITS.get(code, 2)
    pattern = "#,##0." + "0" * digits if digits else "#,##0"
    return f"{format_decimal(value, format=pattern, locale=locale)} {code}"


def money_of(amount: Any, currency: Any) -> tuple[Decimal, str] | None:
    """An amount in the major unit, and the currency's code; None for what is no amount of a known currency.

    An integer counts the minor unit of the ISO 4217 currency, a decimal string the major unit (design section 5).
    """
    if not isinstance(currency, str) or isinstance(amount, bool):
        return None
    code = currency.upper()
    # Of other letters some become ASCII in capitals: what runs would not be the currency that is shown.
    if not re.fullmatch("[A-Za-z]{3}", currency) or code in _NO_MINOR_UNIT or code not in list_currencies():
        return None
    digits = _MINOR_UNITS.get(code, 2)
    if isinstance(amount, int):
        return Decimal(amount).scaleb(-digits), code
    if not isinstance(amount, str) or not _MAJOR.fullmatch(amount):
        return None
    value = Decimal(amount)
    return (value, code) if -int(value.as_tuple().exponent) <= digits else None


def date_text(value: Any, locale: str = "en") -> str | None:
    """`Mar 9, 2026` or `Mar 9, 2026, 12:00:00 (UTC+01:00)` for an ISO 8601 date or instant; None for anything else.

    A number is no date: nothing says whether it counts seconds or milliseconds.
    """
    if not isinstance(value, str):
        return None
    try:
        if _DATE.fullmatch(value):
            return format_date(date.fromisoformat(value), "medium", locale=locale)
        if _INSTANT.fullmatch(value):
            at = datetime.fromisoformat(value)
            day, time = format_date(at, "medium", locale=locale), format_time(at, "HH:mm:ss", locale=locale)
            return f"{day}, {time} ({at.tzname()})"
    except ValueError:
        pass
    return None


def bytes_text(value: Any, locale: str = "en") -> str | None:
    """`1.5 MB (1,500,000 bytes)`; None for what is no count of bytes."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return None
    exact = say("bytes", locale=locale, count=value)
    if value < 1000:
        return exact
    power = min((len(str(value)) - 1) // 3, len(_SIZES))
    size, unit = Decimal(value).scaleb(-3 * power), _SIZES[power - 1]
    return f"{format_decimal(size, format='#,##0.#', locale=locale)} {unit} ({exact})"


def raw_text(value: Any) -> tuple[str, bool]:
    """A JSON value as text, and whether that text is JSON.

    A plain string stands without quotes, unless it is blank, in quotes itself, or spells a flag or nothing.
    """
    if isinstance(value, str) and value.strip() and not _AMBIGUOUS.fullmatch(value):
        return value, False
    return json.dumps(value, ensure_ascii=False), isinstance(value, dict | list)


def value_text(value: Any, form: str, arguments: Any, locale: str = "en") -> tuple[str | None, str]:
    """A value in a line's format, None where it must be shown raw; and the other pointer it shows (else "")."""
    if form.startswith("money:"):
        pointer = form.removeprefix("money:")
        return money_text(value, value_at(arguments, pointer), locale), pointer
    if form == "date":
        return date_text(value, locale), ""
    if form == "bytes":
        return bytes_text(value, locale), ""
    return None, ""
