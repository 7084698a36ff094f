"""One sentence in the two languages of the course, and the choice between them."""

from __future__ import annotations

import locale
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

LANGUAGES = ("zh", "en")
FULL_WIDTH = ("。", "，", "：", "；", "？", "！", "）")

_of_the_file: str | None = None  # the language of the notebook that the command is about


class Text(NamedTuple):
    """A sentence in Chinese and in English. Every message that a learner sees is one of these."""

    zh: str
    en: str

    def __str__(self) -> str:
        return self.pick(language())

    def pick(self, lang: str) -> str:
        return self.zh if lang == "zh" else self.en

    def to_json(self) -> dict[str, str]:
        return {"zh": self.zh, "en": self.en}

    def plus(self, other: Text, separator: str = " ") -> Text:
        """One after the other. Full-width punctuation brings its own space."""
        between = separator.lstrip() if self.zh.endswith(FULL_WIDTH) else separator
        return Text(f"{self.zh}{between}{other.zh}", f"{self.en}{separator}{other.en}")


def say(zh: str, en: str, **values: object) -> Text:
    """``say("形状是 {got}", "the shape is {got}", got=...)``: both sentences, filled from the same values. A value that
    is a :class:`Text` goes into each in its language."""
    if not values:
        return Text(zh, en)
    sentences = {"zh": zh, "en": en}
    return Text(*(sentence.format(**_in(lang, values)) for lang, sentence in sentences.items()))


def _in(lang: str, values: Mapping[str, object]) -> dict[str, object]:
    return {name: value.pick(lang) if isinstance(value, Text) else value for name, value in values.items()}


def language() -> str:
    """The learner's language: ``FLASHDOJO_LANG``, else the notebook's (the running one, or the one a command is about),
    else the locale's, else English."""
    chosen = os.environ.get("FLASHDOJO_LANG", "").lower()
    if chosen[:2] in LANGUAGES:
        return chosen[:2]
    spoken = _notebook_language() or _of_the_file
    if spoken:
        return spoken
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(variable)
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "zh" if (locale.getlocale()[0] or "").lower().startswith(("zh", "chinese")) else "en"


def listed(names: Iterable[str]) -> Text:
    """Names side by side, as each language separates them."""
    each = list(names)
    return Text("、".join(each), ", ".join(each))


def answer_in(lang: str | None) -> None:
    """Speak ``lang`` where nobody chose a language; None takes it back."""
    global _of_the_file
    _of_the_file = lang


def _notebook_language() -> str | None:
    """In a kernel: what the first line of the course's setup cell says (the newest one that was run)."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    for source in reversed(shell.user_ns.get("In", ()) if shell else ()):
        found = re.match(r"# FlashDojo \w+ lang=(zh|en)\b", source)
        if found:
            return found[1]
    return None
