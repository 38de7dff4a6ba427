//! Entities in memory by partition and id, those that were not used for longest first to go.

use crate::entity::Entity;
use crate::event::Origin;
use std::collections::{HashMap, HashSet, VecDeque};
use std::mem::take;
use std::sync::Arc;

pub type Key = (i32, Arc<str>);

/// Bytes that a shared text takes beside its own.
const SHARED: usize = 32;

pub fn key_of(origin: &Origin) -> Key {
    (origin.partition, origin.entity.clone())
}

#[derive(Default)]
pub struct Store {
    entities: HashMap<Key, Entity>,
    /// Approximate bytes of all.
    pub memory_bytes: usize,
    /// Micro-batches so far.
    now: u64,
    /// Keys by the time of a use, which need not be the last.
    order: VecDeque<(u64, Key)>,
    /// Those put since the last micro-batch.
    put: Vec<Key>,
}

impl Store {
    /// A micro-batch begins.
    pub fn begin(&mut self) {
        self.now += 1;
    }

    /// A micro-batch is carried out: entities that do not exist after it are dropped.
    pub fn end(&mut self) {
        for key in take(&mut self.put) {
            if self.entities.get(&key).is_some_and(|entity| !entity.exists) {
                self.remove(&key);
            }
        }
        if self.order.len() > 2 * self.entities.len() + 64 {
            let entities = &self.entities;
            self.order.retain(|(used, key)| entities.get(key).is_some_and(|one| one.used == *used));
        }
    }

    pub fn len(&self) -> usize {
        self.entities.len()
    }

    pub fn get(&self, key: &Key) -> Option<&Entity> {
        self.entities.get(key)
    }

    pub fn get_mut(&mut self, key: &Key) -> Option<&mut Entity> {
        self.entities.get_mut(key)
    }

    pub fn put(&mut self, key: Key, entity: Entity) {
        self.remove(&key);
        self.entities.insert(key.clone(), entity);
        self.put.push(key.clone());
        self.used(key);
    }

    /// Note that an entity was used, and what it takes now. Its id is kept once.
    pub fn used(&mut self, key: Key) {
        let Some((own, _)) = self.entities.get_key_value(&key) else { return };
        let own = own.clone();
        if let Some(entity) = self.entities.get_mut(&own) {
            self.memory_bytes -= entity.bytes;
            (entity.used, entity.bytes) = (self.now, entity.measure() + measure(&own));
            self.memory_bytes += entity.bytes;
            self.order.push_back((self.now, own));
        }
    }

    pub fn remove(&mut self, key: &Key) {
        if let Some(entity) = self.entities.remove(key) {
            self.memory_bytes -= entity.bytes;
        }
    }

    /// Drop all entities of these partitions.
    pub fn forget(&mut self, partitions: &HashSet<i32>) {
        self.entities.retain(|(partition, _), _| !partitions.contains(partition));
        self.memory_bytes = self.entities.values().map(|entity| entity.bytes).sum();
    }

    /// Drop those not used for longest, down to so many bytes; how many it dropped.
    pub fn evict(&mut self, most_bytes: usize) -> usize {
        let before = self.entities.len();
        while self.memory_bytes > most_bytes {
            let Some((used, key)) = self.order.pop_front() else { break };
            if self.entities.get(&key).is_some_and(|entity| entity.used == used) {
                self.remove(&key);
            }
        }
        before - self.entities.len()
    }
}

/// Approximate bytes of a key, and of its last use.
fn measure(key: &Key) -> usize {
    2 * size_of::<Key>() + key.1.len() + SHARED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reservoir::Copies;

    #[test]
    fn uses_are_forgotten() {
        let mut store = Store::default();
        for _ in 0..1000 {
            let mut entity = Entity::new(3, 1, Copies::Each);
            entity.exists = true;
            store.begin();
            store.put((0, "a".into()), entity);
            store.end();
        }
        assert!(store.order.len() <= 66);
    }
}
