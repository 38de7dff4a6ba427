//! Words and languages of reviews, which Python's code of texts finds: before a micro-batch is
//! carried out it is asked about the held events.
//!
//! Python says what each word means, once. Of a text in ASCII it is asked no more then.

use crate::entity::Entity;
use crate::event::{Change, Event, Given, Upsert};
use crate::facets::Criteria;
use crate::store::{Key, Store, key_of};
use pyo3::prelude::*;
use std::collections::{HashMap, HashSet};

/// Bytes of known words, before they are forgotten.
const MOST_BYTES: usize = 8 << 20;
/// Bytes that a word or a run takes beside its texts, and the words of a language beside theirs.
const WORD_BYTES: usize = 96;
const TABLE_BYTES: usize = 512;
const MOST_WORD_BYTES: usize = 40;

/// The rest of a run of words, each with whether every word that begins so matches, and the facets
/// that the run mentions.
type Run = (Vec<(String, bool)>, u64);
/// The facets that a word mentions, and the runs that begin with it.
type Meaning = (u64, Vec<Run>);
/// By language and word.
type Lexicon = HashMap<Option<String>, Words>;
type Words = HashMap<String, Meaning>;

/// Where the mentions of a sentence belong: of a held event, or of an entity.
enum Place {
    Given(usize, usize),
    Stored(Key, u32),
}

/// What has to be asked about texts in a language.
#[derive(Default)]
struct Unknown {
    words: HashSet<String>,
    /// Sentences whose words are not enough.
    places: Vec<Place>,
    texts: Vec<String>,
}

#[derive(Default)]
pub struct TextReader {
    lexicon: Lexicon,
    /// Approximate bytes of the lexicon.
    pub memory_bytes: usize,
}

/// What is known of a text.
enum Found {
    Mentions(u64),
    /// Words that are not.
    Unknown(Vec<String>),
    /// It has to be read by Python.
    Nothing,
}

impl TextReader {
    /// Forget known words if they take more than this, or too much.
    pub fn evict(&mut self, most_bytes: usize) {
        if self.memory_bytes > most_bytes.min(MOST_BYTES) {
            (self.lexicon, self.memory_bytes) = Default::default();
        }
    }

    /// Find languages and mentions of these events, where facets depend on them. `ask` takes what
    /// is asked, a language and texts: the `language` of a text, given its tag; what each of `words`
    /// means in a language; what each of `texts` mentions, and the facets for
    /// which each is `quotable`.
    pub fn read(
        &mut self,
        py: Python<'_>,
        held: &mut [Event],
        entities: &mut Store,
        facets: &HashMap<i32, Criteria>,
        ask: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        for one in held.iter_mut() {
            if let Change::Upsert(upsert) = &mut one.change
                && let Some(whole) = upsert.whole.take()
            {
                let tag = upsert.details.language.as_deref();
                let [language]: [String; 1] = ask.call1(("language", tag, [whole]))?.extract()?;
                upsert.language = (!language.is_empty()).then(|| language.into());
            }
        }
        if !facets.values().any(|one| one.plain.finds_words) {
            return Ok(());
        }
        let mut unknown = py.detach(|| self.look(held, entities, facets));
        if unknown.values().any(|one| !one.words.is_empty()) {
            for (language, one) in unknown.into_iter().filter(|(_, one)| !one.words.is_empty()) {
                let words: Vec<String> = one.words.into_iter().collect();
                let meanings = ask.call1(("words", &language, &words))?.extract()?;
                self.learn(language, words, meanings);
            }
            unknown = py.detach(|| self.look(held, entities, facets));
        }
        for (language, Unknown { places, texts, .. }) in unknown {
            let found: Vec<u64> = ask.call1(("texts", language, texts))?.extract()?;
            for (place, bits) in places.into_iter().zip(found) {
                match place {
                    Place::Given(event, at) => {
                        if let Change::Upsert(upsert) = &mut held[event].change {
                            upsert.sentences[at].words = Some(bits);
                        }
                    }
                    Place::Stored(key, row) => {
                        if let Some(entity) = entities.get_mut(&key) {
                            entity.sentences[row as usize].words = Some(bits);
                        }
                    }
                }
            }
        }
        mark(held, facets, ask)
    }

    /// Note the mentions that known words give; what else has to be asked.
    fn look(
        &self,
        held: &mut [Event],
        entities: &mut Store,
        facets: &HashMap<i32, Criteria>,
    ) -> HashMap<Option<String>, Unknown> {
        let mut unknown = HashMap::new();
        for (event, one) in held.iter_mut().enumerate() {
            let key = key_of(&one.origin);
            if !facets.get(&key.0).is_some_and(|one| one.plain.finds_words) {
                continue;
            }
            match &mut one.change {
                Change::Upsert(upsert) => {
                    let language = language_of(upsert);
                    for (at, one) in upsert.sentences.iter_mut().enumerate() {
                        let place = || Place::Given(event, at);
                        self.note(&one.text, &mut one.words, &language, place, &mut unknown);
                    }
                }
                Change::DeleteSentences(named) => {
                    let Some(entity) = entities.get_mut(&key) else { continue };
                    let numbers = named.iter().filter_map(|(review, _)| entity.number(review));
                    for number in numbers.collect::<Vec<_>>() {
                        let (language, rows) = stored(entity, number);
                        for row in rows {
                            let one = &mut entity.sentences[row as usize];
                            let place = || Place::Stored(key.clone(), row);
                            self.note(&one.text, &mut one.words, &language, place, &mut unknown);
                        }
                    }
                }
                Change::DeleteReview { .. } => (),
            }
        }
        unknown
    }

    /// Note the mentions of a text, unless they are noted, or what has to be asked first.
    fn note(
        &self,
        text: &str,
        mentions: &mut Option<u64>,
        language: &Option<String>,
        place: impl Fn() -> Place,
        unknown: &mut HashMap<Option<String>, Unknown>,
    ) {
        if mentions.is_some() {
            return;
        }
        match found(text, self.lexicon.get(language)) {
            Found::Mentions(bits) => *mentions = Some(bits),
            Found::Unknown(words) => {
                unknown.entry(language.clone()).or_default().words.extend(words);
            }
            Found::Nothing => {
                let unknown = unknown.entry(language.clone()).or_default();
                unknown.places.push(place());
                unknown.texts.push(text.into());
            }
        }
    }

    /// Keep what these words mean.
    fn learn(&mut self, language: Option<String>, words: Vec<String>, meanings: Vec<Meaning>) {
        let known = self.lexicon.entry(language).or_insert_with(|| {
            self.memory_bytes += TABLE_BYTES;
            Words::default()
        });
        for (word, meaning) in words.into_iter().zip(meanings) {
            self.memory_bytes += measure(&word, &meaning.1);
            known.insert(word, meaning);
        }
    }
}

/// Note which facets quote the sentences of these events.
fn mark(
    held: &mut [Event],
    facets: &HashMap<i32, Criteria>,
    ask: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let mut asked: HashMap<Option<String>, (Vec<&mut Given>, Vec<&Criteria>)> = HashMap::new();
    for Event { origin, change } in held {
        let criteria = facets.get(&key_of(origin).0).filter(|one| one.plain.quoting != 0);
        let (Change::Upsert(upsert), Some(criteria)) = (change, criteria) else { continue };
        let language = language_of(upsert);
        for one in &mut upsert.sentences {
            let words = one.words.unwrap_or_default();
            if words & criteria.plain.quoting == 0 {
                one.labels = criteria.marks(one.labels, 0);
            } else {
                let (sentences, of) = asked.entry(language.clone()).or_default();
                sentences.push(one);
                of.push(criteria);
            }
        }
    }
    for (language, (sentences, criteria)) in asked {
        let texts: Vec<&str> = sentences.iter().map(|one| &*one.text).collect();
        let quotable: Vec<u64> = ask.call1(("quotable", language, texts))?.extract()?;
        for ((one, criteria), quotable) in sentences.into_iter().zip(criteria).zip(quotable) {
            one.labels = criteria.marks(one.labels, one.words.unwrap_or_default() & quotable);
        }
    }
    Ok(())
}

/// Approximate bytes of a known word.
fn measure(word: &str, runs: &[Run]) -> usize {
    let of_run = |(rest, _): &Run| {
        WORD_BYTES + rest.iter().map(|(part, _)| part.len() + WORD_BYTES).sum::<usize>()
    };
    WORD_BYTES + word.len() + runs.iter().map(of_run).sum::<usize>()
}

/// The languages whose words count: the one found and the event's tag, a line each.
fn languages(found: Option<&str>, tag: Option<&str>) -> Option<String> {
    Some(format!("{}\n{}", found.unwrap_or_default(), tag.unwrap_or_default()))
}

fn language_of(upsert: &Upsert) -> Option<String> {
    languages(upsert.language.as_deref(), upsert.details.language.as_deref())
}

/// Likewise of a stored review, and its live sentences.
fn stored(entity: &Entity, number: u32) -> (Option<String>, Vec<u32>) {
    let review = &entity.reviews[number as usize];
    let language =
        languages(review.findings().language.as_deref(), review.details.language.as_deref());
    (language, entity.sentences_of(number))
}

/// What known words say about a text; its words are those of `worker.facets.words`.
fn found(text: &str, known: Option<&Words>) -> Found {
    if !text.is_ascii() {
        return Found::Nothing;
    }
    let folded = text.to_ascii_lowercase();
    let is_end = |character: char| !matches!(character, 'a'..='z' | '0'..='9' | '\'');
    let words = folded.split(is_end).map(|word| word.trim_matches('\''));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    if words.iter().any(|word| word.len() > MOST_WORD_BYTES) {
        return Found::Nothing;
    }
    let (mut mentions, mut unknown) = (0, Vec::new());
    for (at, word) in words.iter().enumerate() {
        match known.and_then(|known| known.get(*word)) {
            None => unknown.push((*word).into()),
            Some((bits, runs)) => {
                let matching = runs.iter().filter(|(rest, _)| follows(rest, &words[at + 1..]));
                mentions |= matching.fold(*bits, |all, (_, bits)| all | bits);
            }
        }
    }
    if unknown.is_empty() { Found::Mentions(mentions) } else { Found::Unknown(unknown) }
}

/// Whether these words begin with the rest of a run.
fn follows(rest: &[(String, bool)], words: &[&str]) -> bool {
    let is_next = |((part, is_prefix), word): (&(String, bool), &&str)| {
        if *is_prefix { word.starts_with(&**part) } else { *word == part }
    };
    rest.len() <= words.len() && rest.iter().zip(words).all(is_next)
}
