"""Sentences out of reviews: what they are, and that no text can hang, break or bloat the
splitter.
"""

import concurrent.futures
import gzip
import json
import random
import re
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest
import regex
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.harness.patience import PATIENCE_SECONDS
from worker.text.splitting import SPLITTER, cap_sentence, read_whole, split_sentences

REVIEWS = Path(__file__).parents[2] / "worker" / "demo" / "data" / "airbnb_albany.jsonl.gz"
CAP = 2000
LARGEST = 262_144

CASES = [
    ("", []),
    (" \t\n\r\u2028\u00a0 ", []),
    ("Great product", ["Great product"]),
    ("Loved it. Would buy again!", ["Loved it.", "Would buy again!"]),
    ("no capitals here. still two. ok", ["no capitals here.", "still two.", "ok"]),
    # Markup and entities
    ("Clean room.<br/><BR >Nice host", ["Clean room.", "Nice host"]),
    ("<p>Good</p><p>Bad <b>smell</b></p>", ["Good", "Bad smell"]),
    ('See <a href="http://x.y/z?a=1">this. Now</a>', ["See this.", "Now"]),
    ("<!DOCTYPE html><html><body>Good<!-- <b>x</b>\n - -- --><o:p></o:p></body>", ["Good"]),
    ('Good<input type="hidden" value="a b" /><VIDEO controls src=x></VIDEO\n>', ["Good"]),
    ("Fine <br clear=all>Quiet<hr noshade />Clean<p\nclass='a'>Big",
     ["Fine", "Quiet", "Clean", "Big"]),
    ("Great stay.&lt;br /&gt;Clean rooms.", ["Great stay.", "Clean rooms."]),
    ("<style media=x>p{a:b}</style>Nice <script>if (a < b) c()</SCRIPT >house.", ["Nice house."]),
    ("<script>left open, <style>too", ["left open, too"]),
    ("It is <![CDATA[a < b]> ]]>here. ]]>", ["It is a < b]> here. ]]>"]),
    # No markup
    ("I <3 it, and 5 > 4 < 6", ["I <3 it, and 5 > 4 < 6"]),
    *(
        (text, [text])
        for text in (
            "Price was <expected and quality was >average for us.",
            "Rooms <small and> clean, price <a bit> high, <I mean = that>.",
            "Write to <me@mail.org> or <http://x.org/?a=1>, dear <name>.",
            "Item <b2>, <b-2>, </expected>, <!important> and <br-x> arrived.",
            "Our host <NAME> was kind.",
            "Cost <USD 50> a night",
            "See <https://hut.example/x>.",
            "Left open: <!-- never <!-- closed, <b and <br",
        )
    ),
    ("Tom &amp; Jerry&#39;s &quot;inn&quot; &#x1F600;", ['Tom & Jerry\'s "inn" 😀']),
    ("R&B at AT&T &notanentity; &#99999999999;", ["R&B at AT&T &notanentity; &#99999999999;"]),
    ("&amp;lt;br&amp;gt;", ["&lt;br&gt;"]),
    # Lines
    (
        "The room was\nclean and the\nstaff was kind.",
        ["The room was clean and the staff was kind."],
    ),
    ("We stayed,\nas ever,\nhere\n\nquiet", ["We stayed, as ever, here", "quiet"]),
    ("We have never stayed in a room that was so clean and so quiet as\nthis one",
     ["We have never stayed in a room that was so clean and so quiet as this one"]),
    ("so generous\nso clean", ["so generous", "so clean"]),
    ("First line\nSecond line\r\nThird.", ["First line", "Second line", "Third."]),
    ("It is near.\nand quiet.", ["It is near.", "and quiet."]),
    ("Pros:\nquiet and clean.", ["Pros:", "quiet and clean."]),
    ("Pros:\n- quiet\n- clean", ["Pros:", "- quiet", "- clean"]),
    ("too   many\t blanks", ["too many blanks"]),
    # Glued sentences
    ("Arrived in 2 days.Seller was nice.", ["Arrived in 2 days.", "Seller was nice."]),
    ("Works great!I love it", ["Works great!", "I love it"]),
    ("It was ok...Then it broke", ["It was ok...", "Then it broke"]),
    ("I give it a 5.Great stay", ["I give it a 5.", "Great stay"]),
    ("Sold by Amazon.Com and www.Foo.Bar", ["Sold by Amazon.Com and www.Foo.Bar"]),
    ("Write to me.Name@mail.com or http://x.org/a.Html",
     ["Write to me.Name@mail.com or http://x.org/a.Html"]),
    ("Rated 4.5 out of 5, v2.0 and U.S.A. made", ["Rated 4.5 out of 5, v2.0 and U.S.A. made"]),
    # Abbreviations, numbers, titles
    ("Dr. Smith met us at 5 p.m. sharp.", ["Dr. Smith met us at 5 p.m. sharp."]),
    ("Cables, e.g. for kids, etc. are fine", ["Cables, e.g. for kids, etc. are fine"]),
    ("Great app. Easy to use.", ["Great app.", "Easy to use."]),
    ("So do I. It fits in. My rep. (We met Rep. Lee.) Cold. Bed.",
     ["So do I.", "It fits in.", "My rep.", "(We met Rep. Lee.)", "Cold.", "Bed."]),
    ("Approx. Monday, esp. if Mrs. Lee of Lark St. Joseph is in.",
     ["Approx. Monday, esp. if Mrs. Lee of Lark St. Joseph is in."]),
    # Emoji
    ("Great stay. 😊👍🏽 Would return.❤️ Clean! 🙏quiet",
     ["Great stay. 😊👍🏽", "Would return.❤️", "Clean! 🙏", "quiet"]),
    ("Clean. ✅ Quiet. 👉 Near.\n👍 Kind 😊 host.😊, too", ["Clean.", "✅ Quiet.", "👉 Near.",
     "👍 Kind 😊 host.😊, too"]),
    ("很好。😊下次再来!👍 谢谢", ["很好。😊", "下次再来!👍", "谢谢"]),
    # Punctuation
    ("Wow!!! So good...", ["Wow!!!", "So good..."]),
    ("Great! :) \n !!! \n 👍", ["Great! :) !!! 👍"]),
    ("👍👍", []),
    ("!!!", []),
    ("-\n* * *\n...Quiet. \n--\n", ["...Quiet. --"]),
    (" - . Fine", ["Fine"]),
    ('He said "Stay here." We did.', ['He said "Stay here."', "We did."]),
    ("Really?! Yes.", ["Really?!", "Yes."]),
    # Other scripts
    ("很好。下次再来！谢谢", ["很好。", "下次再来！", "谢谢"]),
    ("素晴らしい！「最高。」また来ます。", ["素晴らしい！", "「最高。」", "また来ます。"]),
    ("「高い。」が、『良い！』と思う。「最高。」とても。",
     ["「高い。」が、『良い！』と思う。", "「最高。」", "とても。"]),
    ("¡Muy bien! ¿Volveré? Sí.", ["¡Muy bien!", "¿Volveré?", "Sí."]),
    ("很好!下次再来?!房间干净", ["很好!", "下次再来?!", "房间干净"]),
    ("評価は４．５点．また来ます", ["評価は４．５点．", "また来ます"]),
    ("بہت اچھا۔ پھر آئیں گے؟ ہاں", ["بہت اچھا۔", "پھر آئیں گے؟", "ہاں"]),
    ("अच्छा था। फिर आएंगे॥ हाँ", ["अच्छा था।", "फिर आएंगे॥", "हाँ"]),
    ("Լավ էր։ Շատ", ["Լավ էր։", "Շատ"]),
    ("ጥሩ ነበር። ደህና", ["ጥሩ ነበር።", "ደህና"]),
    ("ကောင်းတယ်။နောက်", ["ကောင်းတယ်။", "နောက်"]),
    ("Wow‼️ Really⁉️ “Yes”‽ ok", ["Wow‼️", "Really⁉️", "“Yes”‽", "ok"]),
    ("الغرفة كانت\nنظيفة جدا.", ["الغرفة كانت نظيفة جدا."]),
    ("很干净\n很安静。", ["很干净", "很安静。"]),
    ("١٠\n½\nⅣ\nबहुत", ["١٠", "½", "Ⅳ", "बहुत"]),
    # Control characters and broken Unicode
    ("nul\x00 and\x1b[31m red\x7f", ["nul and [31m red"]),
    ("half \ud83d a pair", ["half \ufffd a pair"]),
    ("\ufeffbath\u200broom, won\u2060derful", ["bathroom, wonderful"]),
    ("It didn\x92t \x93fit\x94\x85 \x81 but", ["It didn’t “fit”… but"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentences"), CASES)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text, CAP) == sentences


# Two reviews of each language as a reader splits them, at `|`.
LANGUAGES = {
    "Arabic": (
        "الغرفة نظيفة والموقع ممتاز.|هل سنعود؟|بالتأكيد!|شكرا للسيد أحمد.",
        "الإفطار بسيط، لكنه لذيذ.|المصعد كان معطلا في اليوم الأول؛ تم إصلاحه بسرعة.|أنصح به.",
    ),
    "Chinese": (
        "房间很干净，房东非常热情。|早餐一般，但是位置很好！|下次还会住。",
        "离地铁站只有3.5公里。|“真的很安静。”|我太太说。|值得推荐吗？|当然！",
    ),
    "French": (
        "L'accueil était parfait !|La chambre donne sur la cour ; aucun bruit.|Merci à M. Durand.",
        "Petit déjeuner à 9,50 € par personne.|C'est cher ?|Un peu, mais tout est frais...",
    ),
    "German": (
        "Die Wohnung liegt zentral, z. B. nur 5 Min. vom Bahnhof.|Das Bett war gut!|Gern wieder.",
        "Um 8.30 Uhr fiel die Heizung aus.|Dr. Weber kam sofort.|„Kein Problem“, sagte er.",
    ),
    "Hindi": (
        "कमरा बहुत साफ था।|मेज़बान ने हमें स्टेशन से लिया।|क्या हम फिर आएंगे?|ज़रूर!",
        "नाश्ता स्वादिष्ट था, पर चाय ठंडी थी।|किराया 1,200 रुपये था॥|धन्यवाद।",
    ),
    "Japanese": (
        "駅から近くて便利でした。|部屋は少し狭いですが、清潔です！|また泊まりたいと思います。",
        "「本当に静かですね。」と妻が言いました。|朝食は1,200円。|高いですか？|いいえ、満足です。",
    ),
    "Korean": (
        "방이 깨끗하고 조용했어요.|역에서 5분 거리라서 편리합니다!|다시 오고 싶어요.",
        "호스트가 정말 친절하셨습니다.|아침 식사는 8.5점을 주고 싶네요.|추천하냐고요?|물론이죠.",
    ),
    "Polish": (
        "Mieszkanie jest czyste i ciche.|Do centrum ok. 10 min. pieszo.|Polecam!",
        "Pod domem trudno zaparkować, ale gospodarz nam pomógł.|Czy wrócimy?|Oczywiście.",
    ),
    "Russian": (
        "Квартира чистая и уютная.|Хозяин встретил нас в 22.30, хотя было поздно.|Спасибо!",
        "До метро пять минут пешком.|Завтрак скромный, но вкусный.|Приедем ли мы ещё?|Обязательно!",
    ),
    "Spanish": (
        "¿Volveríamos?|¡Sin duda!|El dueño nos esperaba con un plano de la ciudad.",
        "La ducha perdía agua...|Lo arreglaron ese día.|Por 60,50 € no se puede pedir más.",
    ),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_reviews_of_ten_languages(language: str) -> None:
    assert len(LANGUAGES) == 10
    blank = "" if language in ("Chinese", "Japanese") else " "
    for review in LANGUAGES[language]:
        assert split_sentences(review.replace("|", blank), CAP) == review.split("|")


def test_cap_cuts_at_a_blank_or_else_at_the_cap() -> None:
    assert cap_sentence("short", 10) == ["short"]
    assert cap_sentence("  given as it is ", 17) == ["  given as it is "]
    assert cap_sentence(" \n", 10) == []
    assert cap_sentence("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]
    assert cap_sentence("one two three four", 9) == ["one two", "three", "four"]
    assert cap_sentence("a " + "b" * 12, 10) == ["a bbbbbbbb", "bbbb"], (
        "a blank near the start is no place to cut"
    )
    assert cap_sentence("\u0301" * 9, 4) == ["\u0301" * 4, "\u0301" * 4, "\u0301"]
    assert split_sentences("x" * 4500, CAP) == ["x" * 2000, "x" * 2000, "x" * 500]
    assert split_sentences("Ouch " + "!" * 9, 5) == ["Ouch"], "the other pieces say nothing"
    with pytest.raises(ValueError, match="at least 1"):
        cap_sentence("a", 0)


GRAPHEMES = (
    *("a", "e\u0301\u0302", "ก็", "ปั๊ม", "ทำ", "कि", "स्त्री", "ক্ষ", "நி"),
    *("한", "\u1112\u1161\u11ab", "한\u11ab", "می\u200c", "\u06001", "\u0d4eക"),
    *("👍🏽", "👨\u200d👩\u200d👧", "🇩🇪", "🇫🇷", "🏴\U000e0067\U000e0062\U000e007f"),
    *("1\ufe0f\u20e3", "ﾊﾞ", "ﾊﾟ", "ש\u05b8\u05c1", "."),
)


@settings(max_examples=300)
@given(st.lists(st.sampled_from(GRAPHEMES), max_size=40).map("".join), st.integers(20, 30))
def test_no_cut_is_within_what_people_see_as_one_character(text: str, cap: int) -> None:
    for pieces in (cap_sentence(text, cap), read_whole(text, lambda text: len(text) < cap)):
        assert "".join(pieces) == text
        assert [char for piece in pieces for char in regex.findall(r"\X", piece)] == regex.findall(
            r"\X", text
        )


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("one two three four", ["one two three four"]),
        ("one two three four five six seven", ["one two three four", "five six seven"]),
        ("1 2 3 4 5 6 7 8 9 10 11 12", ["1 2 3 4 5 6 7", "8 9 10 11 12"]),
        ("房间干净，早餐好，房东热情，下次来", ["房间干净，早餐好，", "房东热情，下次来"]),
        ("x" * 60, ["x" * 15, "x" * 15, "x" * 15, "x" * 15]),
        ("a " + "x" * 30, ["a " + "x" * 14, "x" * 16]),
        (" \n", [" \n"]),
    ],
)
def test_what_a_model_does_not_read_to_its_end_is_halved(text: str, pieces: list[str]) -> None:
    """This one reads nine tokens: three letters, or one character of something else."""
    assert read_whole(text, lambda text: len(re.findall(r"[a-z]{1,3}|\w", text)) <= 9) == pieces


def _fill(pattern: str, size: int) -> str:
    return (pattern * (size // len(pattern) + 1))[:size]


# Endless repetitions of these.
GLUED = ["a", ".", "!", "!)", ".)x", '?"', "'.", "--.", "1.", "。", "好。", "a.B", "ab.Cd"]
MARKUP = [
    "<",
    "<a",
    "<br>",
    "<br/x>",
    "<a x=",
    "<a ",
    "<a hidden ",
    "<!-- ",
    "<!--- ",
    "</ ",
    "<script>",
    "<script>a</script",
    "<![CDATA[",
    "<![CDATA[a]",
    "<style><script>",
]
ENTITIES = ["&", "&#1", "&amp;"]
SPACED = [
    *(". ", "… ", "a. ", "A. ", "a! ", "! "),
    *("?! ", ". !", ". . a ", "1. ", '." ', "a.) ", "U.S. "),
]
SIGNS = [
    *("\x00", "\ud800", "\n", "\x0b", "\u2028"),
    *("x\n", "!\n", "e\u0301", "😀", "\u202e", "\ufeff. "),
]
LONG = ["!)" * 23 + " ", ". " * 23 + "a ", "." * 47 + " A"]


@pytest.mark.timeout(PATIENCE_SECONDS)
@pytest.mark.parametrize("pattern", [*GLUED, *MARKUP, *ENTITIES, *SPACED, *SIGNS, *LONG], ids=ascii)
def test_hostile_text_takes_linear_time(pattern: str) -> None:
    """It takes a tenth of a second; anything quadratic in it takes many."""
    started = time.process_time()
    sentences = split_sentences(_fill(pattern, LARGEST // 8), CAP)
    assert time.process_time() - started < 1
    assert all(0 < len(sentence) <= CAP for sentence in sentences)


@pytest.mark.timeout(PATIENCE_SECONDS)
def test_hostile_numerals_and_blanks() -> None:
    assert split_sentences("&#" + "9" * LARGEST + ";", CAP)[0].startswith("&#999")
    assert split_sentences("end." + " " * LARGEST + "Next", CAP) == ["end.", "Next"]
    assert split_sentences("a<b " + "x" * LARGEST + ">", CAP)[0].startswith("a<b xxx")
    assert split_sentences("a<!-- " + "- x" * (LARGEST // 3) + "-->.", CAP) == ["a."]
    assert len(split_sentences("a<!-- " + "<x-" * (LARGEST // 3), CAP)) > 100


@pytest.mark.long
@pytest.mark.timeout(PATIENCE_SECONDS)
def test_hostile_text_leaves_no_memory_behind() -> None:
    """Words and runs of dots, all different and all long, must not stay in the
    splitter's memories.
    """
    program = """if True:
        import resource
        from worker.text.splitting import split_sentences
        split_sentences("Warm up. Now.", 2000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for i in range(300):
            dots, brackets = ". " * (9_000 + i), "x.)" * (20_000 + i)
            split_sentences(f"{'w' * 60_000}{i}. Then {dots} {brackets} End.", 2000)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert int(output) < 30_000  # KiB


ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=300)
WORDS = ["a", "B", "word", "Next", " ", " ", ".", "!", "?", "...", "\n", '"', ")", "5", "Dr.", "。"]
REVIEW_LIKE = st.lists(st.sampled_from([*WORDS, "é", "😀", "\x00"]), max_size=60).map("".join)


@given(ANY_TEXT | REVIEW_LIKE, st.integers(1, 80))
def test_never_raises_and_keeps_the_cap(text: str, cap: int) -> None:
    sentences = split_sentences(text, cap)
    assert all(0 < len(sentence) <= cap and sentence == sentence.strip() for sentence in sentences)
    assert all(any(map(_is_letter_or_digit, sentence)) for sentence in sentences)
    assert split_sentences(text, cap) == sentences


def _is_letter_or_digit(character: str) -> bool:
    return unicodedata.category(character)[0] in "LN"


@given(ANY_TEXT | REVIEW_LIKE, st.integers(1, 80))
def test_no_letter_or_digit_is_lost_and_nothing_is_added(text: str, cap: int) -> None:
    """Markup aside, what is said is the same and in its order; signs may be missing."""
    plain = "".join(c for c in text if c not in "<&" and not "\x80" <= c <= "\x9f")
    plain = re.sub("[\ud800-\udfff]", "\ufffd", plain)
    visible = [c for c in plain if not c.isspace() and c.isprintable()]
    kept = [c for c in "".join(split_sentences(plain, cap)) if not c.isspace() and c.isprintable()]
    said = [[c for c in those if _is_letter_or_digit(c)] for those in (kept, visible)]
    assert said[0] == said[1]
    rest = iter(visible)
    assert all(c in rest for c in kept)


@given(REVIEW_LIKE)
def test_sentences_one_a_line_are_the_same_sentences(text: str) -> None:
    """Once split, a text stays as it is: given sentences and split ones agree. Stops at the
    beginning of a line belong to the line before.
    """
    sentences = split_sentences(text, CAP)
    assume(not any(sentence[0] in ".!?…" for sentence in sentences))
    assert split_sentences("\n\n".join(sentences), CAP) == [
        s for line in sentences for s in split_sentences(line, CAP)
    ]


@settings(max_examples=50)
@given(st.text(max_size=200), st.integers(1, 50))
def test_pieces_of_a_capped_sentence_are_its_words(text: str, cap: int) -> None:
    pieces = cap_sentence(text, cap)
    assert all(piece.strip() and len(piece) <= cap for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def _reviews(count: int) -> list[str]:
    with gzip.open(REVIEWS, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line, _ in zip(lines, range(count), strict=False)]


def test_threads_and_order_do_not_change_the_result() -> None:
    reviews = _reviews(600)
    expected = [split_sentences(review, CAP) for review in reviews]
    order = list(range(len(reviews)))
    random.Random(7).shuffle(order)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        found = dict(
            zip(order, threads.map(lambda i: split_sentences(reviews[i], CAP), order), strict=True)
        )
    assert [found[i] for i in range(len(reviews))] == expected


def test_splitter_names_library_and_rules() -> None:
    assert SPLITTER.startswith("nupunkt-")
    assert "/reviews-" in SPLITTER
