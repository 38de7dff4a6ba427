"""The language of a review, by its event's tag or from its text; an extra with py3langid.

The answer is stored with a review and decides which facets it counts in, so it must be the same on
every machine. py3langid adds floats in an order that depends on the processor. Here the same model
is added in integers: its weights are multiples of 1/512, and logarithms of counts are rounded
before they are multiplied.
"""

import re
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from math import log1p
from pathlib import Path
from typing import Any, Final
from unicodedata import normalize

import numpy as np

from worker.errors import SetupError
from worker.extras import install_command

UNKNOWN: Final = "und"  # ISO 639's code of an undetermined language
LEAST_BYTES: Final = 12
"""Letters, in bytes of UTF-8, of the shortest text whose language is detected. Of Airbnb's reviews
3 % are shorter; of those above, one in 1,200 is given to a wrong language.
"""
_OTHERS: Final = "ar cs da de el en es fr he hi id it ja ko nl no pl pt ro ru sv th tr uk vi zh"
OTHERS: Final = tuple(_OTHERS.split())
"""What a text may be besides the languages asked for: otherwise Italian would be taken for French.
"""
RULES: Final = "reviews-2"
"""Version of this module and of `abbreviations`: raise it with any change of results."""
_CODE: Final = re.compile("[a-z]{2,3}")
_NO_LANGUAGE: Final = frozenset(("mis", "mul", UNKNOWN, "zxx"))
_ISO_639: Final = """
    aar:aa abk:ab afr:af aka:ak alb:sq amh:am ara:ar arg:an arm:hy asm:as ava:av ave:ae
    aym:ay aze:az bak:ba bam:bm baq:eu bel:be ben:bn bis:bi bod:bo bos:bs bre:br bul:bg
    bur:my cat:ca ces:cs cha:ch che:ce chi:zh chu:cu chv:cv cor:kw cos:co cre:cr cym:cy
    cze:cs dan:da deu:de div:dv dut:nl dzo:dz ell:el eng:en epo:eo est:et eus:eu ewe:ee
    fao:fo fas:fa fij:fj fin:fi fra:fr fre:fr fry:fy ful:ff geo:ka ger:de gla:gd gle:ga
    glg:gl glv:gv gre:el grn:gn guj:gu hat:ht hau:ha hbs:sh heb:he her:hz hin:hi hmo:ho
    hrv:hr hun:hu hye:hy ibo:ig ice:is ido:io iii:ii iku:iu ile:ie ina:ia ind:id ipk:ik
    isl:is ita:it jav:jv jpn:ja kal:kl kan:kn kas:ks kat:ka kau:kr kaz:kk khm:km kik:ki
    kin:rw kir:ky kom:kv kon:kg kor:ko kua:kj kur:ku lao:lo lat:la lav:lv lim:li lin:ln
    lit:lt ltz:lb lub:lu lug:lg mac:mk mah:mh mal:ml mao:mi mar:mr may:ms mkd:mk mlg:mg
    mlt:mt mon:mn mri:mi msa:ms mya:my nau:na nav:nv nbl:nr nde:nd ndo:ng nep:ne nld:nl
    nno:nn nob:nb nor:no nya:ny oci:oc oji:oj ori:or orm:om oss:os pan:pa per:fa pli:pi
    pol:pl por:pt pus:ps que:qu roh:rm ron:ro rum:ro run:rn rus:ru sag:sg san:sa sin:si
    slk:sk slo:sk slv:sl sme:se smo:sm sna:sn snd:sd som:so sot:st spa:es sqi:sq srd:sc
    srp:sr ssw:ss sun:su swa:sw swe:sv tah:ty tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th
    tib:bo tir:ti ton:to tsn:tn tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzb:uz
    ven:ve vie:vi vol:vo wel:cy wln:wa wol:wo xho:xh yid:yi yor:yo zha:za zho:zh zul:zu
"""
_TWO_LETTERS: Final = dict(pair.split(":") for pair in _ISO_639.split())
"""By the codes of ISO 639-2, for terms and for books, those of ISO 639-1."""
_WEIGHT_BITS: Final = 9  # the model's weights are 16-bit floats between 2 and 16 in size
_LOG_BITS: Final = 12
_LOGS: Final = tuple(round(log1p(count) * 2**_LOG_BITS) for count in range(4096))
"""By the number of times that a text has a feature; more count as the last. None is near enough to
a half for the last bit of a logarithm to matter.
"""


def language_code(tag: str | None) -> str:
    """The primary subtag, in two letters if the language has such a code; empty if the tag names no
    language.

    >>> [language_code(tag) for tag in ("pt-BR", "it_IT", " EN ", "ger", "fil", "und", "english")]
    ['pt', 'it', 'en', 'de', 'fil', '', '']
    """
    code = (tag or "").strip().replace("_", "-").partition("-")[0].lower()
    if not _CODE.fullmatch(code) or code in _NO_LANGUAGE:
        return ""
    return _TWO_LETTERS.get(code, code)


class LanguageDetector:
    """Decides among `languages`: primary subtags as `en`. It is pure and callable from any thread.

    A language that py3langid does not know is found by tags alone. Raises SetupError without the
    extra `language`. Uses some 100 MB.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = frozenset(languages)
        model = _model()
        wanted = {*OTHERS, *languages}
        columns = [i for i, name in enumerate(model.names) if name in wanted]
        self._names = [model.names[i] for i in columns]
        self._weights = _scaled(model.weights[:, columns], _WEIGHT_BITS).astype(np.int16)
        self._priors = _scaled(model.priors[columns], _WEIGHT_BITS + _LOG_BITS)
        self._model = model

    @property
    def identity(self) -> str:
        """Detectors with one identity give one review the same language, and the same sentences."""
        asked = ",".join(sorted(self.languages))
        return f"py3langid-{version('py3langid')}/{RULES}/{asked}"

    def language_of(self, text: str, tag: str | None = None) -> str:
        """One of `languages`, or UNKNOWN: another one, or a text too short to decide.

        `tag`: the event's `language`, as `pt-BR`; if it names one, the text is not looked at.
        """
        found = language_code(tag) or self._detected(text)
        return found if found in self.languages else UNKNOWN

    def _detected(self, text: str) -> str:
        if not _says_enough(text):
            return UNKNOWN
        counts = self._model.visits(text)
        if not counts:
            return UNKNOWN
        logs = np.array([_LOGS[min(count, len(_LOGS) - 1)] for count in counts.values()])
        scores = logs @ self._weights[list(counts)] + self._priors
        found: str = self._names[int(scores.argmax())]
        return found


def _says_enough(text: str) -> bool:
    size = 0
    for character in text:
        size += len(character.encode()) if character.isalpha() else 0
        if size >= LEAST_BYTES:
            return True
    return False


def _scaled(numbers: Any, bits: int) -> Any:
    """int64: exact, as multiplying by a power of two and rounding are."""
    return np.rint(numbers.astype(np.float64) * 2**bits).astype(np.int64)


class _Model:
    """py3langid's: an automaton over the bytes of a text, whose states find features."""

    def __init__(self) -> None:
        try:
            from py3langid.langid import MODEL_DIR, MODEL_FILE, visit_counts
            from py3langid.modelio import load_model
        except ImportError as error:
            raise SetupError(
                f"languages of reviews need the extra `language`: {install_command('language')}"
            ) from error
        self.weights, self.priors, self.names, self._next, rows, self._found = load_model(
            Path(MODEL_DIR) / MODEL_FILE
        )
        self._rows = [row << 8 for row in rows]
        self._count = visit_counts

    def visits(self, text: str) -> dict[int, int] | None:
        """Counts of features in the text; prepared as the texts that the model learned."""
        cased = text.lower() if text.isupper() else text
        letters = normalize("NFC", cased).encode("utf-8", "surrogatepass")
        counts: dict[int, int] | None = self._count(self._next, self._rows, self._found, letters)
        return counts


_model = cache(_Model)
