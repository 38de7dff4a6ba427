"""Which full stops end a sentence, by language: corrections of nupunkt.

nupunkt was trained on English documents. It ends a sentence after "El Sr.", and none after "Alles
war super." or "Great app.": it takes many usual words for abbreviations.
"""

import re
from typing import Final

ENGLISH: Final = "en"
_NEVER_END: Final = {
    "cs": "č dr ing mgr např nám tj tzn tzv ul",
    "da": "bl.a ca dr f.eks kl nr tlf",
    "de": "bzw ca d.h dr evtl exkl ggf hr inkl max mind nr o.ä prof sog u.a vgl z.b zzgl",
    ENGLISH: """
        Capt Col Dr Gen Gov Hon Lt Mme Mr Mrs Ms Prof Rep Rev Sen Sgt a.k.a approx dr e.g esp i.e
        incl messrs mr mrs ms prof vs
    """,
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
"""By language: words after whose full stop the sentence goes on. One with a capital counts only as
written: "my rep." ends a sentence.
"""
_MAY_END: Final = frozenset("apt atd ecc enz etc itd itp min osv std str tel usw".split())  # noqa: SIM905
"""Abbreviations that often end a sentence: nupunkt decides."""
_OF_ENGLISH: Final = """
    Cal Del Fri Mar Mass Mon Ore Sat Sun Wash Wed
    acct addl appt apr ariz assn assoc asst attn aug ave bldg blvd bros calif cir colo conn corp ctr
    dec dept dist encl esq est feb fig figs fla fri fwd fwy govt hgt hwy inc inst intl jan jul jun
    llc ltd mfg mfr mgmt mgr mich minn misc mktg mtg mtn mtns natl nov oct okla orig penn pgs phd
    pkg pkgs pkwy plc qty reg resp rte sep sept sts ste supt svc tenn thu thur thurs tpke tue tues
    univ vol vols wgt
"""
_MAY_END_ENGLISH: Final = _MAY_END.union(_OF_ENGLISH.split())
_SHORT_WORDS: Final = frozenset("am at do go he i in is it me ok on pm so to tv up us we".split())  # noqa: SIM905
"""English words of fewer letters than others, after whose full stop a capital begins a sentence."""
_LETTERS: Final = 3  # of the shortest word after whose full stop a capital begins a sentence
_STOP: Final = re.compile(r"(?<!\S)[(\[\"'„“«»¿¡]*([^\W_][\w.'’]*)\.(?=\s+[(\[\"'“‘«„]?(\S))")
_GERMAN_ORDINAL: Final = re.compile(
    r"(?<!\S)(\d{1,2})\.(?=\s(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober"
    r"|November|Dezember|Bett|Etage|Klasse|Mal|Nacht|OG|Obergeschoss|Person|Stock|Tag|Zimmer)\b)"
)
_NEVER: Final = {language: frozenset(words.split()) for language, words in _NEVER_END.items()}


def marked(line: str, language: str | None) -> str:
    """`line` as nupunkt shall see it, of the same length: a comma for a full stop that ends no
    sentence in this language, "!" for one that does. Without a language, or with one without rules,
    a text is English.

    >>> marked("El Sr. Gil es super. Muy bien.", "es")
    'El Sr, Gil es super! Muy bien.'
    """
    never = _NEVER.get(language or ENGLISH, _NEVER[ENGLISH])
    is_english = never is _NEVER[ENGLISH]
    may_end = _MAY_END_ENGLISH if is_english else _MAY_END

    def mark(stop: re.Match[str]) -> str:
        written = re.split("['’]", stop[1])[-1]
        word = written.lower()
        if word in never or written in never:
            return stop[0][:-1] + ","
        is_word = len(word) >= _LETTERS and word.isalpha()
        ends = is_word or (is_english and word in _SHORT_WORDS)
        ends = ends and word not in may_end and written not in may_end
        return stop[0][:-1] + "!" if ends and stop[2].isupper() else stop[0]

    line = _STOP.sub(mark, line)
    return _GERMAN_ORDINAL.sub(r"\1,", line) if language == "de" else line
