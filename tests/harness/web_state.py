"""The state behind a worker's web pages, as a test says it is."""

from worker.events import FacetSummary, Ratings, ReviewDetails, summary_sentence
from worker.processing.ask import Answer, AnswerSentence, RarestWord, WrongVector
from worker.processing.entity_view import (
    FacetsView,
    NoFacets,
    Overview,
    OverviewSentence,
    ShortSentence,
    ShortView,
    SummaryView,
    UnknownLanguage,
    ViewSentence,
)
from worker.processing.trend import Complaints, FacetTrend, Period, Trend, TrendView
from worker.state.listing import ListedEntity, Page
from worker.stream.queries import TooManyQuestions

OTHER_WORKER = "http://worker-1.example:8080"
COUNTS = {"entity_id": "x", "incarnation": 0, "review_count": 2, "sentence_count": 3}
PLACE = {"partition": 0, "next_offset": 18}
RATINGS = Ratings(1, 4.0, {"4": 1})
SENTENCE = summary_sentence(0, "r#0", "r", "Grün.", ReviewDetails(4.0, None, "de"), 0.25, 1)
VIEW = SummaryView(
    **COUNTS,
    ratings=RATINGS,
    sequence=17,
    sentences=(
        ViewSentence(
            **{"rank": 0, "sentence_id": "r#0", "review_id": "r", "text": "Grün."},
            **{"rating": 4.0, "language": "de", "distance": 0.25, "support": 2},
        ),
    ),
)
SHORT = ShortView(
    **COUNTS,
    threshold=0.8,
    sentences=(ShortSentence(0, "r#0", "r", "Grün.", 4.0, 0.25, 3, 2),),
    **PLACE,
)
FACETS = FacetsView(
    **COUNTS,
    ratings=RATINGS,
    sequence=17,
    facets=(FacetSummary("news", 3, 1, 1, RATINGS, [SENTENCE]),),
    **PLACE,
)
OVERVIEW = Overview(
    **COUNTS,
    ratings=RATINGS,
    threshold=0.8,
    sentences=(OverviewSentence(0, "news", 1, "r#0", "r", "Grün.", 4.0, 0.25),),
    facets=FACETS.facets,
    **PLACE,
)
ANSWER = Answer(
    **COUNTS,
    question="Is it quiet",
    answered=True,
    sentences=(AnswerSentence(0, "r#0", "r", "Grün.", None, None, "de", 0.6),),
    asked_review_count=2,
    answer_review_count=1,
    mentions=RarestWord("quiet", 1),
    **PLACE,
)
NONE, ROSE = Complaints(0, 0, None, None), Complaints(9, 1, True, True)
PERIODS = (Period("2026-Q4", 1, RATINGS),)
TREND = TrendView(
    **COUNTS,
    by="quarter",
    recent_reviews=1,
    before_reviews=0,
    low=NONE,
    facets=(FacetTrend("news", None, PERIODS, 0, ROSE),),
    **PLACE,
)


class FakeState:
    """A worker of which everything can be chosen."""

    def __init__(self):
        self.is_ready, self.is_busy, self.behind = True, False, ""
        self.owner = (True, "http://127.0.0.1:8080")
        self.summaries = {"x": VIEW}
        self.asked = []
        self.searches = []
        self.extents = []

    def ready(self):
        return self.is_ready, "because"

    def lag(self):
        return {0: 5, 1: None}

    def partitions(self):
        return 2, 6

    def undecided(self):
        return {0: 0}

    def broker_silent_seconds(self):
        return {"consumer": 0.04, "producer": 12.34}

    def refusal(self):
        return None

    def rocksdb_bytes(self):
        return 0

    def stall(self):
        return None

    def owner_of(self, entity_id):
        return self.owner

    async def entities(self, partitions, search, limit, seconds):
        self.searches.append((partitions, search, limit, seconds))
        return Page([ListedEntity("x", 3, 2, None, 0)], "x", 7)

    def others(self):
        return {OTHER_WORKER: [2]}

    def describe(self):
        return {"ready": self.is_ready, "lag": {"0": 5}}

    async def ask(self, entity_id, question, vector):
        if self.is_busy:
            raise TooManyQuestions(0.3)
        if vector is not None:
            raise WrongVector("vector has 1 numbers, not 3")
        self.asked.append((entity_id, question, vector))
        return ANSWER if entity_id == "x" else None

    def not_yet(self, entity_id):
        return self.behind

    async def view(self, entity_id, kind, extent=None):
        if isinstance(kind, Trend):
            return TREND if entity_id == "x" else None
        if extent is not None:
            self.extents.append((entity_id, extent))
        if kind is SummaryView:
            self.asked.append(entity_id)
            return self.summaries.get(entity_id)
        if kind is FacetsView and entity_id == "plain":
            raise NoFacets
        if extent is not None and extent.language == "nl":
            raise UnknownLanguage("language 'nl': the facets are in fr, en")
        found = {ShortView: SHORT, FacetsView: FACETS, Overview: OVERVIEW}[kind]
        return found if entity_id == "x" else None
