//! Words and languages of reviews, which Python's code of texts finds: before a micro-batch is
//! carried out it is asked about the held events.
//!
//! Python says what each word means, once. Of a text in ASCII it is asked no more then.

use crate::entity::Entity;
use crate::event::{Change, Event, Upsert};
use crate::facets::Criteria;
use crate::store::{Key, Store, key_of};
use std::collections::{HashMap, HashSet};

/// Bytes of known words, before they are forgotten.
const MOST_BYTES: usize = 8 << 20;
/// Bytes that a word or a run takes beside its texts, and the words of a language beside theirs.
const WORD_BYTES: usize = 96;
const TABLE_BYTES: usize = 512;
const MOST_WORD_BYTES: usize = 40;

/// What is asked: `language` of the text, given its tag; what each of `words` means in the
/// language; what each of `texts` mentions.
pub type Question = (&'static str, Option<String>, Vec<String>);

/// Where an answer belongs.
enum Asked {
    Language { event: usize },
    Words(Option<String>, Vec<String>),
    Given { event: usize, sentences: Vec<usize> },
    Stored { key: Key, rows: Vec<u32> },
}

/// The rest of a run of words, each with whether every word that begins so matches, and the facets
/// that the run mentions.
type Run = (Vec<(String, bool)>, u64);
/// The facets that a word mentions, and the runs that begin with it.
type Meaning = (u64, Vec<Run>);
/// By language and word.
type Lexicon = HashMap<Option<String>, Words>;
type Words = HashMap<String, Meaning>;

#[derive(Default)]
pub struct TextReader {
    lexicon: Lexicon,
    /// Approximate bytes of the lexicon.
    pub memory_bytes: usize,
    asked: Vec<Asked>,
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

    /// The next questions; none once all is known.
    pub fn questions(
        &mut self,
        held: &mut [Event],
        entities: &mut Store,
        facets: &HashMap<i32, Criteria>,
    ) -> Vec<Question> {
        self.asked.clear();
        let mut questions = self.of_languages(held);
        if questions.is_empty() {
            let mut unknown = HashMap::<_, HashSet<String>>::new();
            let mut texts = self.of_texts(held, entities, facets, &mut unknown);
            if unknown.is_empty() {
                questions =
                    texts.iter_mut().map(|(question, _)| std::mem::take(question)).collect();
                self.asked = texts.into_iter().map(|(_, asked)| asked).collect();
            }
            for (language, words) in unknown {
                let words: Vec<String> = words.into_iter().collect();
                questions.push(("words", language.clone(), words.clone()));
                self.asked.push(Asked::Words(language, words));
            }
        }
        questions
    }

    fn of_languages(&mut self, held: &mut [Event]) -> Vec<Question> {
        let mut questions = Vec::new();
        for (event, one) in held.iter_mut().enumerate() {
            if let Change::Upsert(upsert) = &mut one.change
                && let Some(whole) = upsert.whole.take()
            {
                let tag = upsert.details.language.as_deref().map(Into::into);
                questions.push(("language", tag, vec![whole]));
                self.asked.push(Asked::Language { event });
            }
        }
        questions
    }

    /// The questions about texts that known words do not answer; words that are not known.
    fn of_texts(
        &self,
        held: &mut [Event],
        entities: &mut Store,
        facets: &HashMap<i32, Criteria>,
        unknown: &mut HashMap<Option<String>, HashSet<String>>,
    ) -> Vec<(Question, Asked)> {
        let mut questions = Vec::new();
        for (event, one) in held.iter_mut().enumerate() {
            let key = key_of(&one.origin);
            if !facets.get(&key.0).is_some_and(Criteria::finds_words) {
                continue;
            }
            match &mut one.change {
                Change::Upsert(upsert) => {
                    let language = language_of(upsert);
                    let own = upsert.sentences.iter_mut().enumerate();
                    let own = own.map(|(at, one)| (at, &*one.text, &mut one.words));
                    let (sentences, texts) = self.look(own, &language, unknown);
                    if !texts.is_empty() {
                        let asked = Asked::Given { event, sentences };
                        questions.push((("texts", language, texts), asked));
                    }
                }
                Change::DeleteSentences(named) => {
                    let Some(entity) = entities.get_mut(&key) else { continue };
                    for (review, _) in named {
                        let Some(number) = entity.number(review) else { continue };
                        let (language, rows) = stored(entity, number);
                        let own =
                            entity.sentences.iter_mut().enumerate().filter_map(|(at, one)| {
                                let row = at as u32;
                                rows.contains(&row).then_some((row, &*one.text, &mut one.words))
                            });
                        let (rows, texts) = self.look(own, &language, unknown);
                        if !texts.is_empty() {
                            let asked = Asked::Stored { key: key.clone(), rows };
                            questions.push((("texts", language, texts), asked));
                        }
                    }
                }
                Change::DeleteReview { .. } => (),
            }
        }
        questions
    }

    /// Note the mentions of sentences that known words give; the others, with their texts.
    fn look<'a, T>(
        &self,
        sentences: impl Iterator<Item = (T, &'a str, &'a mut Option<u64>)>,
        language: &Option<String>,
        unknown: &mut HashMap<Option<String>, HashSet<String>>,
    ) -> (Vec<T>, Vec<String>) {
        let (mut places, mut texts) = (Vec::new(), Vec::new());
        let known = self.lexicon.get(language);
        for (place, text, mentions) in sentences.filter(|(_, _, mentions)| mentions.is_none()) {
            match found(text, known) {
                Found::Mentions(bits) => *mentions = Some(bits),
                Found::Unknown(words) => {
                    unknown.entry(language.clone()).or_default().extend(words);
                }
                Found::Nothing => {
                    places.push(place);
                    texts.push(text.into());
                }
            }
        }
        (places, texts)
    }

    /// Keep the answers, a list for each question. `None`: one is missing, or of another kind.
    pub fn answer(
        &mut self,
        held: &mut [Event],
        entities: &mut Store,
        answers: Vec<Vec<Answer>>,
    ) -> Option<()> {
        if answers.len() != self.asked.len() {
            return None;
        }
        for (asked, answers) in std::mem::take(&mut self.asked).into_iter().zip(answers) {
            let mut answers = answers.into_iter();
            match asked {
                Asked::Language { event } => {
                    let (Change::Upsert(upsert), Answer::Language(language)) =
                        (&mut held.get_mut(event)?.change, answers.next()?)
                    else {
                        return None;
                    };
                    upsert.language = (!language.is_empty()).then(|| language.into());
                }
                Asked::Words(language, words) => {
                    let known = self.lexicon.entry(language).or_insert_with(|| {
                        self.memory_bytes += TABLE_BYTES;
                        Words::default()
                    });
                    for word in words {
                        let Answer::Word(bits, runs) = answers.next()? else { return None };
                        self.memory_bytes += measure(&word, &runs);
                        known.insert(word, (bits, runs));
                    }
                }
                Asked::Given { event, sentences } => {
                    let Change::Upsert(upsert) = &mut held.get_mut(event)?.change else {
                        return None;
                    };
                    for at in sentences {
                        upsert.sentences[at].words = Some(answers.next()?.mentions()?);
                    }
                }
                Asked::Stored { key, rows } => {
                    let entity = entities.get_mut(&key)?;
                    for row in rows {
                        entity.sentences[row as usize].words = Some(answers.next()?.mentions()?);
                    }
                }
            }
        }
        Some(())
    }
}

/// What a text mentions, what a word means, or a language.
#[derive(pyo3::FromPyObject)]
pub enum Answer {
    Mentions(u64),
    Word(u64, Vec<Run>),
    Language(String),
}

impl Answer {
    fn mentions(self) -> Option<u64> {
        if let Answer::Mentions(bits) = self { Some(bits) } else { None }
    }
}

/// Approximate bytes of a known word.
fn measure(word: &str, runs: &[Run]) -> usize {
    let of_run = |(rest, _): &Run| {
        WORD_BYTES + rest.iter().map(|(part, _)| part.len() + WORD_BYTES).sum::<usize>()
    };
    WORD_BYTES + word.len() + runs.iter().map(of_run).sum::<usize>()
}

/// The language whose words count.
fn language_of(upsert: &Upsert) -> Option<String> {
    upsert.language.as_deref().or(upsert.details.language.as_deref()).map(Into::into)
}

/// Likewise of a stored review, and its live sentences.
fn stored(entity: &Entity, number: u32) -> (Option<String>, Vec<u32>) {
    let review = &entity.reviews[number as usize];
    let found = review.findings().language.as_deref();
    let language = found.or(review.details.language.as_deref()).map(Into::into);
    (language, entity.sentences_of(number))
}

/// What known words say about a text; its words are those of `worker.facets.words`.
fn found(text: &str, known: Option<&Words>) -> Found {
    if !text.is_ascii() {
        return Found::Nothing;
    }
    let folded = text.to_ascii_lowercase();
    let is_end = |character: char| !matches!(character, 'a'..='z' | '0'..='9' | '\'');
    let words: Vec<&str> = folded.split(is_end).filter(|word| !word.is_empty()).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_take_too_much_are_forgotten() {
        let mut reader = TextReader::default();
        let mut most = 0;
        for round in 0..200 {
            let words: Vec<String> = (0..1000).map(|word| format!("{round}-{word}")).collect();
            let answers = words.iter().map(|_| Answer::Word(0, Vec::new())).collect();
            reader.asked = vec![Asked::Words(None, words)];
            assert!(reader.answer(&mut [], &mut Store::default(), vec![answers]).is_some());
            most = most.max(reader.memory_bytes);
            reader.evict(usize::MAX);
        }
        assert!(most > MOST_BYTES && reader.memory_bytes < MOST_BYTES);
        let known: usize = reader.lexicon.values().map(HashMap::len).sum();
        assert!(known * WORD_BYTES < reader.memory_bytes);
        reader.evict(reader.memory_bytes - 1);
        assert_eq!((reader.lexicon.len(), reader.memory_bytes), (0, 0));
    }
}
