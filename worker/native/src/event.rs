//! Records as events: those that are usual, and these completely.
//!
//! A record is usual if each of its parts is certain to mean the same in the Python form
//! (`worker.events.decode`). `None` stands for all others, whether they are valid there or not.

use crate::facets::Criteria;
use crate::fields::{identifier, optional, passed_on, rating, timestamp, version};
use crate::json::{Raw, Reader, plain_string, string_of};
use crate::review::Details;
use crate::vector::{Workspace, is_base64, numbers};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::borrow::Cow;
use std::sync::Arc;

/// Known and unknown ones of a body.
const MOST_MEMBERS: usize = 64;
const MAX_ID_CHARS: usize = 1024;
const MAX_SENTENCE_ID_CHARS: usize = MAX_ID_CHARS + 20;
const MAX_LANGUAGE_CHARS: usize = 35;
const MAX_COUNTRY_BYTES: usize = 48;
const MAX_AUTHOR_BYTES: usize = 128;
/// Sentences that a deletion names.
const MOST_NAMED: usize = 1000;
/// A longer blank sentence may be cut into several.
const MAX_BLANK_CHARS: usize = 64;
/// As `worker.state.rows.CHUNK_BYTES`: a review beyond it has several rows of texts or vectors.
pub const CHUNK_BYTES: usize = 128 * 1024;

/// What the pool is made for: `worker.events.rules.Limits`.
#[derive(FromPyObject)]
pub struct Limits {
    pub dimension: usize,
    pub model: Option<String>,
    pub max_event_bytes: usize,
    pub max_text_bytes: usize,
    pub max_sentence_chars: usize,
    pub max_sentences_per_review: usize,
    pub max_sentences_per_deletion: usize,
    /// Most live sentences of an entity in the pool.
    #[pyo3(attribute("max_sentences_per_entity"))]
    pub most_sentences: usize,
}

/// A sentence that is not blank, and its position in the review.
#[derive(Debug, PartialEq)]
pub struct Given {
    pub ordinal: u32,
    pub text: Box<str>,
    /// Facets that take one of its labels, or quote it.
    pub labels: u64,
    /// Facets whose words it has, if that was asked.
    pub words: Option<u64>,
}

/// See `worker.processing.known_texts.KnownReview`.
#[derive(FromPyObject)]
pub struct Known {
    sentences: Vec<(u32, String, u64)>,
    vectors: PyBackedBytes,
    language: String,
}

#[derive(Debug)]
pub struct Upsert {
    pub review: Box<str>,
    pub version: Option<u64>,
    pub details: Details,
    pub sentences: Vec<Given>,
    /// Of these sentences, one after the other.
    pub vectors: Vec<i16>,
    /// Whether all vectors are the engine's.
    pub is_embedded: bool,
    /// All texts, blank ones too, where the language has to be found.
    pub whole: Option<String>,
    /// As it was found.
    pub language: Option<Box<str>>,
}

#[derive(Debug)]
pub enum Change {
    Upsert(Upsert),
    DeleteReview {
        review: Box<str>,
        version: Option<u64>,
    },
    /// Reviews with the positions of some sentences, in the order of the event.
    DeleteSentences(Vec<(Box<str>, Vec<u32>)>),
}

impl Change {
    /// The contract's name of the event.
    pub fn name(&self) -> &'static str {
        match self {
            Change::Upsert(_) => "review.upserted",
            Change::DeleteReview { .. } => "review.deleted",
            Change::DeleteSentences(_) => "sentences.deleted",
        }
    }
}

/// Where an event comes from.
#[derive(Debug)]
pub struct Origin {
    pub index: usize,
    pub partition: i32,
    pub offset: u64,
    pub timestamp_ms: i64,
    pub entity: Arc<str>,
    pub occurred_at: Option<Box<str>>,
}

/// A usual record.
#[derive(Debug)]
pub struct Event {
    pub origin: Origin,
    pub change: Change,
}

/// The members of a body, as they are written, with different names.
struct Members<'a>(Vec<(&'a str, Raw<'a>)>);

impl<'a> Members<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let mut found = Vec::with_capacity(16);
        Reader::object(text, |name, raw| {
            let is_usual = found.len() < MOST_MEMBERS && found.iter().all(|(own, _)| *own != name);
            found.push((name, raw));
            is_usual.then_some(())
        })?;
        Some(Members(found))
    }

    fn get(&self, name: &str) -> Option<Raw<'a>> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, raw)| *raw)
    }
}

/// The entity, the time and the change that a record's key and value mean; `known`: its sentences,
/// if it brings no vectors.
pub fn read(
    key: &[u8],
    value: &[u8],
    known: Option<&Known>,
    limits: &Limits,
    facets: Option<&Criteria>,
    workspace: &mut Workspace,
) -> Option<(Arc<str>, Option<Box<str>>, Change)> {
    if value.len() > limits.max_event_bytes {
        return None;
    }
    let members = Members::of(std::str::from_utf8(value).ok()?)?;
    let entity = identifier(members.get("entity_id")?, MAX_ID_CHARS)?;
    if entity.as_bytes() != key {
        return None;
    }
    let occurred_at = optional(members.get("occurred_at"), timestamp)?;
    let change = match plain_string(members.get("type")?)? {
        "review.upserted" => {
            let occurred_at = occurred_at.clone();
            Change::Upsert(upsert(&members, occurred_at, known, limits, facets, workspace)?)
        }
        "review.deleted" => {
            optional(members.get("reason"), |raw| string_of(raw).map(drop))?;
            Change::DeleteReview {
                review: identifier(members.get("review_id")?, MAX_ID_CHARS)?,
                version: optional(members.get("review_version"), version)?,
            }
        }
        "sentences.deleted" => {
            Change::DeleteSentences(named_sentences(members.get("sentence_ids")?, limits)?)
        }
        _ => return None,
    };
    Some((entity.into(), occurred_at, change))
}

fn upsert(
    members: &Members<'_>,
    occurred_at: Option<Box<str>>,
    known: Option<&Known>,
    limits: &Limits,
    facets: Option<&Criteria>,
    workspace: &mut Workspace,
) -> Option<Upsert> {
    let text = optional(members.get("text"), string_of)?;
    if text.is_some_and(|text| text.len() > limits.max_text_bytes) {
        return None;
    }
    let model = optional(members.get("embedding_model"), string_of)?;
    if let (Some(model), Some(own)) = (&model, &limits.model)
        && model != own
    {
        return None;
    }
    let language = optional(members.get("language"), string_of)?
        .filter(|tag| (1..=MAX_LANGUAGE_CHARS).contains(&tag.chars().count()));
    let details = Details {
        rating: optional(members.get("rating"), rating)?,
        occurred_at,
        language: language.map(Into::into),
        verified: optional(members.get("verified"), |raw| match raw {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })?,
        country: passed_on(members.get("country"), MAX_COUNTRY_BYTES)?,
        author_id: passed_on(members.get("author_id"), MAX_AUTHOR_BYTES)?,
    };
    let finds_language = known.is_none() && facets.is_some_and(|one| one.plain.finds_languages);
    let mut whole = finds_language.then(String::new);
    let (sentences, vectors) = match known {
        Some(known) => (known.sentences(), numbers(&known.vectors).collect()),
        None => given_sentences(members.get("sentences")?, limits, facets, &mut whole, workspace)?,
    };
    let bytes: usize = sentences.iter().map(|one| 4 * (one.text.chars().count() + 2)).sum();
    if bytes > CHUNK_BYTES || sentences.len() > of_a_row(limits) {
        return None;
    }
    let found = known.map(|known| &*known.language).filter(|found| !found.is_empty());
    Some(Upsert {
        review: identifier(members.get("review_id")?, MAX_ID_CHARS)?,
        version: optional(members.get("review_version"), version)?,
        details,
        sentences,
        is_embedded: known.is_some() || vectors.is_empty(),
        vectors,
        whole,
        language: found.map(Into::into),
    })
}

impl Known {
    fn sentences(&self) -> Vec<Given> {
        let given = |(ordinal, text, labels): &(u32, String, u64)| {
            let text = text.as_str().into();
            Given { ordinal: *ordinal, text, labels: *labels, words: None }
        };
        self.sentences.iter().map(given).collect()
    }
}

/// The sentences that are not blank, and their vectors; the whole text is appended where it is
/// needed.
fn given_sentences(
    raw: Raw<'_>,
    limits: &Limits,
    facets: Option<&Criteria>,
    whole: &mut Option<String>,
    workspace: &mut Workspace,
) -> Option<(Vec<Given>, Vec<i16>)> {
    let (mut sentences, mut vectors) = (Vec::new(), Vec::new());
    let mut items = 0;
    Reader::array(raw, |item| {
        let (text, embedding, labels) = sentence(item)?;
        let labels = labels_of(labels, facets)?;
        let chars = text.chars().count();
        if text.len() > limits.max_text_bytes || chars > limits.max_sentence_chars {
            return None;
        }
        if text.chars().all(is_space) {
            if chars > MAX_BLANK_CHARS || !embedding.is_none_or(|text| is_base64(&text)) {
                return None;
            }
        } else {
            workspace.decode(&embedding?, limits.dimension, &mut vectors)?;
            sentences.push(Given {
                ordinal: items,
                text: text.as_ref().into(),
                labels,
                words: None,
            });
        }
        if let Some(whole) = whole {
            if items > 0 {
                whole.push(' ');
            }
            whole.push_str(&text);
        }
        items += 1;
        Some(())
    })?;
    (items as usize <= limits.max_sentences_per_review).then_some((sentences, vectors))
}

/// Most sentences of a review in the pool: those with one row of vectors.
fn of_a_row(limits: &Limits) -> usize {
    (CHUNK_BYTES / (4 + 2 * limits.dimension)).max(1)
}

type Item<'a> = (Cow<'a, str>, Option<Cow<'a, str>>, Option<Raw<'a>>);

/// The text, the embedding and the labels of an item.
fn sentence(item: Raw<'_>) -> Option<Item<'_>> {
    if item.starts_with('"') {
        return Some((string_of(item)?, None, None));
    }
    let (mut text, mut embedding, mut labels) = (None, None, None);
    Reader::object(item, |name, raw| {
        let member = match name {
            "text" => &mut text,
            "embedding" => &mut embedding,
            "labels" => &mut labels,
            _ => return Some(()),
        };
        member.replace(raw).is_none().then_some(())
    })?;
    Some((string_of(text?)?, optional(embedding, string_of)?, labels))
}

/// The facets that take one of these labels, which are checked only where facets have labels.
fn labels_of(labels: Option<Raw<'_>>, facets: Option<&Criteria>) -> Option<u64> {
    let mut found = 0;
    if let Some(facets) = facets.filter(|facets| !facets.plain.labels.is_empty()) {
        optional(labels, |raw| {
            Reader::array(raw, |item| {
                found |= facets.plain.labels.get(&*string_of(item)?).copied().unwrap_or_default();
                Some(())
            })
        })?;
    }
    Some(found)
}

/// As Python's `str.isspace`.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// The reviews and positions in the ids of sentences; others are of none.
fn named_sentences(raw: Raw<'_>, limits: &Limits) -> Option<Vec<(Box<str>, Vec<u32>)>> {
    let (mut named, mut count) = (Vec::<(Box<str>, Vec<u32>)>::new(), 0);
    Reader::array(raw, |item| {
        count += 1;
        let identifier = identifier(item, MAX_SENTENCE_ID_CHARS)?;
        if let Some((review, ordinal)) = sentence_id(&identifier) {
            match named.iter_mut().find(|(name, _)| **name == *review) {
                Some((_, ordinals)) => ordinals.push(ordinal),
                None => named.push((review.into(), vec![ordinal])),
            }
        }
        Some(())
    })?;
    // No event may rewrite too many sentences of several reviews.
    let most = limits.max_sentences_per_deletion;
    let rewritten = limits.most_sentences.min(named.len() * of_a_row(limits));
    let is_usual = named.len() < 2 || rewritten <= most;
    (count <= most.min(MOST_NAMED) && is_usual).then_some(named)
}

/// The review and the position in an id of a sentence, as `worker.state.keys.parse_sentence_id`.
fn sentence_id(identifier: &str) -> Option<(&str, u32)> {
    let (review, digits) = identifier.rsplit_once('#')?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    if digits.is_empty() || !is_number || (digits.starts_with('0') && digits != "0") {
        return None;
    }
    Some((review, digits.parse().unwrap_or(u32::MAX))) // so large that none has it
}
