"""Full stops of other languages than English, on which nupunkt was trained.

nupunkt ends a sentence after "El Sr." and none after "Alles war super.", which is an abbreviation
in English.
"""

import re
from typing import Final

_NEVER_END: Final = {
    "cs": "č dr ing mgr např nám tj tzn tzv ul",
    "da": "bl.a ca dr f.eks kl nr tlf",
    "de": "bzw ca d.h dr evtl exkl ggf hr inkl max mind nr o.ä prof sog u.a vgl z.b zzgl",
    "es": "aprox avda d dña dr dra ej núm p.ej pág sr sra sres srta ud uds",
    "fr": "av bd dr env ex m mlle mm mme p.ex st ste tél",
    "it": "arch avv dott dott.ssa es ing p.es pag prof sig sig.ra sigg",
    "nl": "bijv bv ca d.w.z dhr dr drs evt excl i.v.m incl ir m.a.w max mevr mw nr o.a prof t.o.v",
    "no": "bl.a ca dr f.eks kl nr tlf",
    "pl": "al dr godz ks m.in mgr np nr os pl prof św tj tzn ul",
    "pt": "aprox av d dr dra ex p.ex pág prof profa r sr sra srta",
    "ru": "д им кв напр пл пр просп т.е т.к ул",
    "sv": "bl.a ca dr kl nr s.k t.ex",
    "tr": "bkz cad dr mah örn prof sok",
}
"""By language: words after whose full stop the sentence goes on, in small letters."""
_MAY_END: Final = "apt atd ecc enz etc itd itp min osv std str tel usw".split()  # noqa: SIM905
"""Abbreviations that often end a sentence: nupunkt decides."""
_LETTERS: Final = 3  # of the shortest word after whose full stop a capital begins a sentence
_STOP: Final = re.compile(r"(?<!\S)[(\[\"'„“«»¿¡]*([^\W_][\w.'’]*)\.(?=\s+(\S))")
_GERMAN_ORDINAL: Final = re.compile(
    r"(?<!\S)(\d{1,2})\.(?=\s(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober"
    r"|November|Dezember|Bett|Etage|Klasse|Mal|Nacht|OG|Obergeschoss|Person|Stock|Tag|Zimmer)\b)"
)
_NEVER: Final = {language: frozenset(words.split()) for language, words in _NEVER_END.items()}


def marked(line: str, language: str | None) -> str:
    """`line` as nupunkt shall see it, of the same length: a comma for a full stop that ends no
    sentence in this language, "!" for one that does. None, and a language without rules: as it is.

    >>> marked("El Sr. Gil es super. Muy bien.", "es")
    'El Sr, Gil es super! Muy bien.'
    """
    never = _NEVER.get(language or "")
    if never is None:
        return line

    def mark(stop: re.Match[str]) -> str:
        word = re.split("['’]", stop[1])[-1].lower()
        if word in never:
            return stop[0][:-1] + ","
        ends = len(word) >= _LETTERS and word.isalpha() and word not in _MAY_END
        return stop[0][:-1] + "!" if ends and stop[2].isupper() else stop[0]

    line = _STOP.sub(mark, line)
    return _GERMAN_ORDINAL.sub(r"\1,", line) if language == "de" else line
