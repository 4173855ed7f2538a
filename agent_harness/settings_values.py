"""One value from the first source that has it, checked; every refusal names the value, where it was read and what to do."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TypeVar, cast

from agent_harness.errors import ConfigError

T = TypeVar("T")
Parse = Callable[[object, str], T]
LARGEST = Decimal(10**12)
LONGEST_SHOWN = 80  # characters of a value in a message


@dataclass(frozen=True, slots=True)
class Values:
    """The three places where a setting can stand, nearest first.

    Attributes:
        flags: options that were given, under their config-file names.
        environ: the environment.
        path: the config file, whether it exists or not.
        config: its content.
    """

    flags: Mapping[str, object]
    environ: Mapping[str, str]
    path: Path
    config: Mapping[str, object]

    def find(self, key: str, variables: Sequence[str] = ()) -> tuple[object, str] | None:
        """The raw value and where it was read, None when nobody set it. An empty variable counts as not set."""
        if key in self.flags:
            return self.flags[key], "--" + key.replace("_", "-")
        for variable in variables:
            if self.environ.get(variable, "").strip():
                return self.environ[variable].strip(), variable
        if key in self.config:
            return self.config[key], f"{key!r} in {str(self.path)!r}"
        return None

    def get(self, key: str, parse: Parse[T], default: T, variables: Sequence[str] = ()) -> T:
        """The checked value, `default` when nobody set it.

        Raises:
            ConfigError: it is set to something that cannot be used.
        """
        found = self.find(key, variables)
        return default if found is None else parse(*found)


def read_config(path: Path, known: Sequence[str]) -> dict[str, object]:
    """The content of the config file; empty when there is none.

    Raises:
        ConfigError: not readable, no TOML, or a key that means nothing.
    """
    try:
        content = cast("dict[str, object]", tomllib.loads(path.read_text("utf-8"), parse_float=Decimal))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(
            f"the config file {str(path)!r} cannot be read: {error.strerror}; make it readable or remove it"
        ) from error
    except ValueError as error:
        raise ConfigError(f"the config file {str(path)!r} is no valid TOML: {error}; correct it or remove it") from error
    check_keys(content, known, f"the config file {str(path)!r}")
    return content


def check_keys(found: Mapping[str, object], known: Sequence[str], where: str) -> None:
    """Refuse a name that means nothing: a misspelt setting would silently not count.

    Raises:
        ConfigError: names it and the nearest known one.
    """
    for key in found:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"{where} has {key!r}, which is no setting; {hint}")


def shown(value: object) -> str:
    """A value in quotes, short enough for a message."""
    text = str(value)
    return repr(text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "...")


def count(value: object, where: str) -> int:
    """A whole number from 1."""
    number = _decimal(value)
    if number is None or number < 1 or number != int(number):
        raise ConfigError(f"{where} is {shown(value)}; give a whole number from 1")
    return int(number)


def seconds(value: object, where: str) -> float | None:
    """A number of seconds above 0."""
    return float(_positive(value, where, "give a number of seconds above 0"))


def dollars(value: object, where: str) -> Decimal | None:
    """An amount of US dollars above 0, or None for the word `none`."""
    if value == "none":
        return None
    return _positive(value, where, "give US dollars above 0, such as 5.00, or 'none' for no ceiling")


def price(value: object, where: str) -> Decimal | None:
    """US dollars per million tokens, from 0."""
    amount = _decimal(value)
    if amount is None or amount < 0 or amount != amount.quantize(Decimal("0.000001")):
        raise ConfigError(f"{where} is {shown(value)}; give US dollars per million tokens, from 0, with at most six decimals")
    return amount


def switch(value: object, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{where} is {shown(value)}; write true or false")
    return value


def word(value: object, where: str) -> str:
    """One line of text that is not empty, without blanks around it."""
    text = value.strip() if isinstance(value, str) else ""
    if not text or not text.isprintable():
        raise ConfigError(f"{where} is {shown(value)}; give one line of text")
    return text


def words(value: object, where: str) -> tuple[str, ...]:
    """A list of texts; one text stands for a list of one."""
    items = cast("list[object]", value) if isinstance(value, list | tuple) else [value]
    return tuple(word(item, where) for item in items)


def text_file(value: object, where: str, folder: Path, most: int) -> str:
    """The text of a file of the person's, without blanks around it.

    Args:
        value: its path.
        where: the path was read there.
        folder: what a relative path starts from.
        most: bytes that it may have.
    """
    name = word(value, where)
    path = folder / name
    try:
        if not path.is_file():
            found = "a folder" if path.is_dir() else "no regular file" if path.exists() else "not there"
            raise ConfigError(f"{where} is {shown(name)}, which is {found}; give a text file")
        with path.open("rb") as file:
            data = file.read(most + 1)
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where} is {shown(name)}, which is no UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        why = error.strerror
        raise ConfigError(f"{where} is {shown(name)}, which cannot be read: {why}; make it readable or give another") from error
    if len(data) > most:
        raise ConfigError(
            f"{where} is {shown(name)}, which is larger than {most:,} bytes; every request carries it, so shorten it"
        )
    if not text or "\0" in text:
        what = "holds a NUL character" if text else "is empty"
        raise ConfigError(f"{where} is {shown(name)}, which {what}; give a text file that says something, or leave it out")
    return text


def labels(value: object, where: str) -> tuple[str, ...]:
    """Names of labels; a forge takes 50 characters."""
    return _each(value, where, r"[^,]{1,50}", "give the label's name, at most 50 characters, no comma")


def reviewers(value: object, where: str) -> tuple[str, ...]:
    """Logins, and `owner/team` for teams; a leading `@` may stand there."""
    found = _each(value, where, r"@?[\w.-]{1,100}(/[\w.-]{1,100})?", "give a login, or OWNER/TEAM for a team")
    return tuple(name.removeprefix("@") for name in found)


def co_authors(value: object, where: str) -> tuple[str, ...]:
    """`Name <mail>`, as git's trailer has it."""
    return _each(
        value, where, r"[^<>@\s][^<>\n]{0,99} <[^<>\s@]{1,100}@[^<>\s@]{1,100}>", "write it as 'Name <mail@example.com>'"
    )


def _each(value: object, where: str, pattern: str, advice: str) -> tuple[str, ...]:
    found = words(value, where)
    for text in found:
        if not re.fullmatch(pattern, text):
            raise ConfigError(f"{where} has {shown(text)}; {advice}")
    return tuple(dict.fromkeys(found))


def _decimal(value: object) -> Decimal | None:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
            return None
        amount = Decimal(value)
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and abs(amount) < LARGEST else None


def _positive(value: object, where: str, advice: str) -> Decimal:
    amount = _decimal(value)
    if amount is None or amount <= 0:
        raise ConfigError(f"{where} is {shown(value)}; {advice}")
    return amount
