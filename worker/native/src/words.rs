//! Words and languages of reviews, which Python's code of texts finds: before a micro-batch is
//! carried out it is asked about the texts of all held events.

use crate::entity::{Entity, Sentence};
use crate::event::{Change, Event};
use crate::facets::Criteria;
use crate::store::{Store, key_of};
use std::collections::{HashMap, HashSet};

/// About a review: its whole text if its language is to be found; else the language that is known,
/// that or its tag; and the sentences whose words are to be looked for.
pub type Question = (Option<String>, Option<String>, Vec<String>);

/// The questions about these events, in their order.
pub fn ask(held: &[Event], entities: &Store, facets: &HashMap<i32, Criteria>) -> Vec<Question> {
    let (mut questions, mut asked) = (Vec::new(), HashSet::new());
    for event in held {
        let key = key_of(&event.origin);
        let Some(facets) = facets.get(&key.0).filter(|facets| facets.asks()) else { continue };
        match &event.change {
            Change::Upsert(upsert) => {
                let texts = upsert.sentences.iter().filter(|_| facets.finds_words());
                let tag = upsert.details.language.as_deref().map(Into::into);
                let texts = texts.map(|one| one.text.to_string()).collect();
                questions.push((upsert.whole.clone(), tag, texts));
            }
            Change::DeleteSentences(named) if facets.finds_words() => {
                let Some(entity) = entities.get(&key) else { continue };
                for number in unknown(entity, named) {
                    if !asked.insert((key.clone(), number)) {
                        continue; // the answer will be known
                    }
                    let review = &entity.reviews[number as usize];
                    let language = match &*review.language {
                        "" => review.details.language.as_deref(),
                        found => Some(found),
                    };
                    let rows = entity.sentences_of(number);
                    let text = |row: &u32| entity.sentences[*row as usize].text.to_string();
                    let texts = rows.iter().map(text).collect();
                    questions.push((None, language.map(Into::into), texts));
                }
            }
            _ => (),
        }
    }
    questions
}

/// Keep the answers: the language of each review, and the facets whose words each sentence has.
pub fn tell(
    held: &mut [Event],
    entities: &mut Store,
    facets: &HashMap<i32, Criteria>,
    answers: Vec<(String, Vec<u64>)>,
) {
    let mut answers = answers.into_iter();
    for event in held {
        let key = key_of(&event.origin);
        let Some(facets) = facets.get(&key.0).filter(|facets| facets.asks()) else { continue };
        match &mut event.change {
            Change::Upsert(upsert) => {
                let Some((language, words)) = answers.next() else { return };
                upsert.language = language.into();
                for (one, words) in upsert.sentences.iter_mut().zip(words) {
                    one.words = Some(words);
                }
            }
            Change::DeleteSentences(named) if facets.finds_words() => {
                let Some(entity) = entities.get_mut(&key) else { continue };
                for number in unknown(entity, named) {
                    let Some((_, words)) = answers.next() else { return };
                    for (row, words) in entity.sentences_of(number).into_iter().zip(words) {
                        entity.sentences[row as usize].words = Some(words);
                    }
                }
            }
            _ => (),
        }
    }
}

/// The named reviews of which not all words are known.
fn unknown(entity: &Entity, named: &[(Box<str>, Vec<u32>)]) -> Vec<u32> {
    let is_unknown = |one: &Sentence| one.words.is_none();
    let numbers = named.iter().filter_map(|(review, _)| entity.number(review));
    let unknown = numbers.filter(|number| {
        let rows = entity.sentences_of(*number);
        rows.iter().any(|row| is_unknown(&entity.sentences[*row as usize]))
    });
    unknown.collect()
}
