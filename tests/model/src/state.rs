//! The state of the model: brokers, the consumer group and workers.

pub const PARTITIONS: usize = 3; // at most; one without records is never used
pub type ByPartition<T> = [T; PARTITIONS];
pub type Offset = u16;
pub type Membership = (u16, u16); // a generation, and the number of a member

/// A part of a micro-batch: records from..to of each partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    pub from: ByPartition<Offset>,
    pub to: ByPartition<Offset>,
    pub membership: Membership, // under which it was processed
}

impl Part {
    pub fn partitions(&self) -> impl Iterator<Item = usize> + '_ {
        (0..PARTITIONS).filter(|&p| self.from[p] < self.to[p])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mark {
    Open,
    Decided, // committed, but its marker is not written yet
    Aborted,
    Committed,
}

/// Rows and messages of a transaction in one partition: changelog and output are one log here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    pub id: usize, // the transactional id
    pub epoch: u16,
    pub from: Offset,
    pub to: Offset,
    pub mark: Mark,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transaction {
    #[default]
    None,
    Open(Option<Part>),    // with the source offsets that it would commit
    Decided(Option<Part>), // committed; the offsets are gone once the group has them
}

/// A commit is flushed, sends its offsets, commits, and is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    Flush,
    Offsets,
    Commit,
    Store,
    HalfStored, // only where rows and their offset are not one batch
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    None, // the brokers have not acted yet
    Done,
    Fenced,
    Overtaken,
}

/// A part in flight: the call that is under way, and what the brokers made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flight {
    pub stage: Stage,
    pub epoch: u16,
    pub part: Part,
    pub reply: Reply,
    pub ends: ByPartition<Offset>, // of the changelog after its rows
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    #[default]
    Dead,
    Out, // started, not in the group
    Joined,
    Taking {
        starts: Option<ByPartition<Offset>>,
        ends: Option<ByPartition<Offset>>,
    },
    Ready,
    Doubt,
    Lost, // its membership was refused: it waits for the next assignment
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Worker {
    pub id: usize, // its instance id, and its transactional id
    pub phase: Phase,
    pub member: u16, // its number in the group; 0 before it joins
    pub membership: Membership,
    pub epoch: u16,
    pub undecided: bool, // it left a transaction open
    pub owned: ByPartition<bool>,
    pub cursor: ByPartition<Offset>,
    pub memory: ByPartition<Offset>, // the prefix that caches and rows in flight hold
    pub waiting: Option<Part>,
    pub flights: Vec<Flight>,
    pub doubt: Option<Flight>,
    pub late: Option<Flight>, // nobody waits for its call any more, and it may still arrive
    pub rows: ByPartition<Offset>, // the prefix that the copy on its disk holds
    pub stored: ByPartition<Offset>, // the changelog's offset of that copy
}

/// Instance ids are numbers, and members of one are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub faults: u32,
    pub log: ByPartition<Vec<Entry>>,
    pub transactions: Vec<(u16, Transaction)>, // by transactional id, with its producer epoch
    pub generation: u16,
    pub members: Vec<Option<u16>>,
    pub numbers: Vec<u16>,           // how many members an instance id has had
    pub replaced: Vec<(usize, u16)>, // members whose instance id another one has taken
    pub joined: Option<Vec<bool>>,   // while the group rebalances
    pub assigned: Vec<bool>,         // instance ids of this generation
    pub owners: ByPartition<usize>,
    pub committed: ByPartition<Offset>,
    pub workers: Vec<Worker>,
    pub broken: Vec<&'static str>, // invariants that a step broke
}

impl State {
    pub fn new(ids: usize) -> State {
        State {
            transactions: vec![Default::default(); ids],
            members: vec![None; ids],
            numbers: vec![0; ids],
            assigned: vec![false; ids],
            workers: (0..ids).map(|id| Worker { id, ..Default::default() }).collect(),
            ..Default::default()
        }
    }

    /// Whether the group takes offsets under this membership.
    pub fn is_member(&self, id: usize, (generation, member): Membership) -> bool {
        generation == self.generation && self.members[id] == Some(member)
    }

    /// Whether the member of an instance id sends heartbeats.
    pub fn has_heartbeats(&self, id: usize) -> bool {
        let mut alive = self.workers.iter().filter(|w| w.id == id && w.phase != Phase::Dead);
        alive.any(|worker| self.members[id] == Some(worker.member))
    }

    /// Whether a transaction is open that only its timeout will end.
    pub fn is_left_open(&self, id: usize) -> bool {
        let (epoch, transaction) = self.transactions[id];
        let has_it = |w: &Worker| w.epoch == epoch && (w.undecided || !w.flights.is_empty());
        matches!(transaction, Transaction::Open(_))
            && !self.workers.iter().any(|w| w.id == id && has_it(w))
    }

    /// Whether a transaction may still change the committed offset of a partition.
    pub fn is_pending(&self, p: usize) -> bool {
        self.transactions.iter().any(|(_, transaction)| match transaction {
            Transaction::Open(Some(part)) | Transaction::Decided(Some(part)) => {
                part.from[p] < part.to[p]
            }
            _ => false,
        })
    }

    /// Where a committed reader of a partition stops.
    pub fn stable_end(&self, p: usize) -> usize {
        let log = &self.log[p];
        log.iter().position(|entry| entry.mark < Mark::Aborted).unwrap_or(log.len())
    }

    /// Change the marks of a transactional id; whether there were any.
    pub fn mark(&mut self, id: usize, from: Mark, to: Mark) -> bool {
        let entries = self.log.iter_mut().flatten().filter(|e| e.id == id && e.mark == from);
        entries.map(|entry| entry.mark = to).count() > 0
    }
}

impl Worker {
    pub fn owned(&self) -> impl Iterator<Item = usize> {
        let owned = self.owned;
        (0..PARTITIONS).filter(move |&p| owned[p])
    }
}
