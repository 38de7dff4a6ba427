//! The steps of brokers, group and workers, as `docs/delivery.md` describes them.

use crate::state::{Mark, Phase, Reply, Stage, Transaction, *};
use Rule::*;

/// A rule of delivery that can be taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    OneTransaction,
    OnePartInFlight,
    FlushedBeforeOffsets,
    CapturedMembership,
    StaleBatchesDropped,
    CursorFromOffsets,
    CachesForgotten,
    StartTakesOverId,
    DoubtDecided,
    DoubtNotRepeated,
    DoubtStoresNothing,
    StoredAfterCommit,
    OneLocalBatch,
    OffsetsBeforeEnd,
    StableOffsets,
    UncommittedEnd,
    CommittedRows,
}

/// What can happen: to a worker or an instance id, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Start(usize),
    Join(usize),
    Generation(ByPartition<usize>),
    FetchOffsets(usize),
    FetchEnds(usize),
    Again(usize), // the takeover begins again: an answer was lost
    Restore(usize),
    Process(usize, ByPartition<Offset>),
    Begin(usize),
    Act(usize),    // brokers act on the call of a worker
    Answer(usize), // the worker hears of it
    Store(usize),
    Decide(usize),
    MarkGroup(usize),
    MarkLog(usize),
    Expel(usize),  // from here on these may be faults, which are counted
    Expire(usize), // the timeout of a transaction
    Late(usize),   // brokers act on a call that its worker gave up
    GiveUp(usize),
    Kill(usize),
    Replace(usize), // a frozen worker gets a successor of its instance id, and thaws
    Rebalance,
    Restart, // of all brokers: calls under way are lost
}

/// What broke the invariant that a step could break.
pub const MEMBERSHIP: &str = "nothing is committed under a past membership";
pub const LOCAL: &str = "the local copy is never ahead of the decided log, and never goes back";
pub const STATE: &str = "processing begins only on complete rows";
pub const DOUBT: &str = "a doubt ends as the coordinator decided";

#[derive(Clone, Debug)]
pub struct Commits {
    pub ids: usize,
    pub records: ByPartition<Offset>,
    pub faults: u32,
    pub without: Vec<Rule>,
}

impl Commits {
    /// The state after an action; None if it cannot happen.
    pub fn step(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.apply(&mut next, action)?;
        Some(next)
    }

    pub fn keeps(&self, rule: Rule) -> bool {
        !self.without.contains(&rule)
    }

    pub fn apply(&self, s: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Start(w) => self.start(s, w),
            Action::Join(w) => self.join(s, w),
            Action::Generation(owners) => generation(s, owners),
            Action::FetchOffsets(w) => self.fetch_offsets(s, w),
            Action::FetchEnds(w) => self.fetch_ends(s, w),
            Action::Again(w) => {
                s.faults += 1;
                holds(matches!(s.workers[w].phase, Phase::Taking { starts: Some(_), .. }))?;
                s.workers[w].phase = Phase::Taking { starts: None, ends: None };
                Some(())
            }
            Action::Restore(w) => self.restore(s, w),
            Action::Process(w, to) => self.process(s, w, to),
            Action::Begin(w) => self.begin(s, w),
            Action::Act(w) => {
                let (id, flight) = (s.workers[w].id, *s.workers[w].flights.last()?);
                let (epoch, transaction) = s.transactions[id];
                let must_wait = matches!(transaction, Transaction::Decided(_));
                holds(flight.reply == Reply::None && flight.stage < Stage::Store)?;
                holds(epoch != flight.epoch || !must_wait)?; // for the markers of the last one
                let reply = self.act(s, id, flight);
                let ends = std::array::from_fn(|p| s.log[p].len() as Offset);
                let ends = if flight.stage == Stage::Flush { ends } else { flight.ends };
                *s.workers[w].flights.last_mut()? = Flight { reply, ends, ..flight };
                Some(())
            }
            Action::Answer(w) => self.answer(&mut s.workers[w]),
            Action::Store(w) => self.store(s, w),
            Action::Decide(w) => self.decide(s, w),
            Action::MarkGroup(id) => {
                let Transaction::Decided(Some(part)) = s.transactions[id].1 else { return None };
                part.partitions().for_each(|p| s.committed[p] = part.to[p]);
                s.transactions[id].1 = Transaction::Decided(None);
                finish(s, id)
            }
            Action::MarkLog(id) => {
                holds(s.mark(id, Mark::Decided, Mark::Committed))?;
                finish(s, id)
            }
            Action::Expel(id) => {
                s.faults += s.has_heartbeats(id) as u32;
                s.members[id].take()?;
                rebalance(s)
            }
            Action::Expire(id) => {
                s.faults += !s.is_left_open(id) as u32;
                fence(s, id)
            }
            Action::Late(w) => {
                let flight = s.workers[w].late.take()?;
                self.act(s, s.workers[w].id, flight);
                Some(())
            }
            Action::GiveUp(w) => {
                s.faults += 1;
                self.give_up(&mut s.workers[w], true)
            }
            Action::Kill(w) => {
                s.faults += 1;
                die(&mut s.workers[w])
            }
            Action::Replace(w) => {
                s.faults += 1;
                let successor = Worker { id: s.workers[w].id, ..Default::default() };
                let frozen = std::mem::replace(&mut s.workers[w], successor);
                s.workers.push(frozen);
                Some(())
            }
            Action::Rebalance => {
                s.faults += 1;
                holds(s.joined.is_none())?;
                rebalance(s)
            }
            Action::Restart => {
                s.faults += 1;
                let lost = s.workers.iter_mut().filter_map(|worker| self.give_up(worker, false));
                holds(lost.count() > 0)
            }
        }
    }

    /// Brokers act on a call.
    fn act(&self, s: &mut State, id: usize, flight: Flight) -> Reply {
        let Flight { stage, epoch, part, .. } = flight;
        let transaction = s.transactions[id].1;
        if epoch != s.transactions[id].0 || matches!(transaction, Transaction::Decided(_)) {
            return Reply::Fenced;
        }
        let Transaction::Open(offsets) = transaction else {
            if stage == Stage::Commit {
                return Reply::Fenced;
            }
            s.transactions[id].1 = Transaction::Open(None);
            return self.act(s, id, flight);
        };
        match stage {
            Stage::Flush => part.partitions().for_each(|p| {
                let (from, to) = (part.from[p], part.to[p]);
                s.log[p].push(Entry { id, epoch, from, to, mark: Mark::Open });
            }),
            Stage::Offsets => {
                if !s.is_member(id, part.membership) {
                    if self.keeps(CapturedMembership) {
                        return Reply::Overtaken;
                    }
                    s.broken.push(MEMBERSHIP);
                }
                s.transactions[id].1 = Transaction::Open(Some(part));
            }
            _ => {
                s.transactions[id].1 = Transaction::Decided(offsets);
                s.mark(id, Mark::Open, Mark::Decided);
            }
        }
        Reply::Done
    }

    // -- the group

    fn start(&self, s: &mut State, w: usize) -> Option<()> {
        let id = s.workers[w].id;
        holds(s.workers[w].phase == Phase::Dead)?;
        s.faults += (w >= self.ids) as u32; // it was frozen while it started
        if self.keeps(StartTakesOverId) {
            fence(s, id)?;
        }
        s.workers[w].phase = Phase::Out;
        s.workers[w].epoch = s.transactions[id].0;
        Some(())
    }

    /// The worker lets go of what it holds and joins the next generation.
    fn join(&self, s: &mut State, w: usize) -> Option<()> {
        let worker = &mut s.workers[w];
        let id = worker.id;
        let is_member = s.members[id] == Some(worker.member);
        let is_asked = s.joined.as_ref().is_some_and(|joined| !joined[id]);
        holds(worker.phase != Phase::Dead && worker.flights.is_empty())?;
        holds(!is_member || is_asked)?;
        if s.replaced.contains(&(id, worker.member)) {
            return die(worker);
        }
        worker.phase = Phase::Joined;
        worker.doubt = None;
        worker.waiting = worker.waiting.filter(|_| !self.keeps(StaleBatchesDropped));
        if !is_member {
            s.numbers[id] += 1;
            worker.member = s.numbers[id];
            let former = s.members[id].replace(worker.member);
            s.replaced.extend(former.map(|number| (id, number)));
            if former.is_some() && s.joined.is_none() && s.assigned[id] {
                assign(s, w);
                return Some(());
            }
        }
        rebalance(s)?;
        s.joined.as_mut()?[id] = true;
        Some(())
    }

    // -- takeover

    fn fetch_offsets(&self, s: &mut State, w: usize) -> Option<()> {
        let worker = &s.workers[w];
        let Phase::Taking { starts: None, ends } = worker.phase else { return None };
        let is_pending = worker.owned().any(|p| s.is_pending(p));
        holds(!worker.undecided && (ends.is_some() || self.keeps(OffsetsBeforeEnd)))?;
        holds(!is_pending || !self.keeps(StableOffsets))?;
        let starts = s.committed;
        if let Some(Flight { part, epoch, .. }) = worker.doubt {
            let is_member = s.is_member(worker.id, part.membership);
            let is_it = |e: &Entry, p| {
                e.to >= part.to[p] && (!is_member || (e.id, e.epoch) == (worker.id, epoch))
            };
            let is_in = |p: usize| {
                s.log[p]
                    .iter()
                    .any(|e| matches!(e.mark, Mark::Decided | Mark::Committed) && is_it(e, p))
            };
            let happened = part.partitions().all(|p| starts[p] >= part.to[p]);
            if happened != part.partitions().all(is_in) {
                s.broken.push(DOUBT);
            }
        }
        s.workers[w].doubt = None;
        s.workers[w].phase = Phase::Taking { starts: Some(starts), ends };
        Some(())
    }

    fn fetch_ends(&self, s: &mut State, w: usize) -> Option<()> {
        let Phase::Taking { starts, ends: None } = s.workers[w].phase else { return None };
        holds(starts.is_some() || !self.keeps(OffsetsBeforeEnd))?;
        let end =
            |p: usize| if self.keeps(UncommittedEnd) { s.log[p].len() } else { s.stable_end(p) };
        let ends = Some(std::array::from_fn(|p| end(p) as Offset));
        s.workers[w].phase = Phase::Taking { starts, ends };
        Some(())
    }

    fn restore(&self, s: &mut State, w: usize) -> Option<()> {
        let State { workers, log, .. } = s;
        let worker = &mut workers[w];
        let Phase::Taking { starts: Some(starts), ends: Some(ends) } = worker.phase else {
            return None;
        };
        for p in worker.owned() {
            let below = &log[p][..ends[p] as usize];
            let is_any = !self.keeps(CommittedRows);
            holds(is_any || below.iter().all(|entry| entry.mark >= Mark::Aborted))?;
            let unread = below.iter().skip(worker.stored[p] as usize);
            let last = unread.rev().find(|entry| is_any || entry.mark == Mark::Committed);
            worker.rows[p] = last.map_or(worker.rows[p], |entry| entry.to);
            worker.stored[p] = worker.stored[p].max(ends[p]);
            if self.keeps(CachesForgotten) || worker.memory[p] == 0 {
                worker.memory[p] = worker.rows[p];
            }
            if self.keeps(CursorFromOffsets) || worker.cursor[p] == 0 {
                worker.cursor[p] = starts[p];
            }
        }
        worker.phase = Phase::Ready;
        Some(())
    }

    // -- processing and commit

    fn process(&self, s: &mut State, w: usize, to: ByPartition<Offset>) -> Option<()> {
        let worker = &mut s.workers[w];
        let part = Part { from: worker.cursor, to, membership: worker.membership };
        holds(worker.phase == Phase::Ready && worker.waiting.is_none())?;
        holds(part.partitions().all(|p| worker.owned[p] && to[p] <= self.records[p]))?;
        holds(part.partitions().count() > 0)?;
        let is_complete = part.partitions().all(|p| worker.memory[p] == part.from[p]);
        part.partitions().for_each(|p| worker.memory[p] = to[p]);
        worker.cursor = to;
        worker.waiting = Some(part);
        let id = worker.id;
        if !is_complete && s.is_member(id, part.membership) {
            s.broken.push(STATE);
        }
        Some(())
    }

    fn begin(&self, s: &mut State, w: usize) -> Option<()> {
        let worker = &mut s.workers[w];
        let is_decided = |flight: &Flight| flight.stage == Stage::Store;
        let is_free = |flight| is_decided(flight) && !self.keeps(OnePartInFlight);
        holds(worker.phase == Phase::Ready && worker.flights.last().is_none_or(is_free))?;
        let part = worker.waiting.take()?;
        if !self.keeps(StoredAfterCommit) {
            part.partitions().for_each(|p| worker.stored[p] = s.log[p].len() as Offset + 1);
        }
        self.send(worker, part);
        Some(())
    }

    fn send(&self, worker: &mut Worker, part: Part) {
        let is_first = self.keeps(FlushedBeforeOffsets);
        let stage = if is_first { Stage::Flush } else { Stage::Offsets };
        let ends = [0; PARTITIONS];
        worker.flights.push(Flight { stage, epoch: worker.epoch, part, reply: Reply::None, ends });
    }

    fn answer(&self, worker: &mut Worker) -> Option<()> {
        let flight = worker.flights.last_mut()?;
        match flight.reply {
            Reply::None => return None,
            Reply::Fenced => self.doubt(worker, Phase::Doubt),
            Reply::Overtaken => self.doubt(worker, Phase::Lost),
            Reply::Done => {
                flight.reply = Reply::None;
                flight.stage = match (flight.stage, self.keeps(FlushedBeforeOffsets)) {
                    (Stage::Flush, true) => Stage::Offsets,
                    (Stage::Offsets, false) => Stage::Flush,
                    (Stage::Commit, _) => Stage::Store,
                    _ => Stage::Commit,
                };
            }
        }
        Some(())
    }

    /// The worker waits no longer for an answer; the call is lost, or may still arrive.
    fn give_up(&self, worker: &mut Worker, may_arrive: bool) -> Option<()> {
        let flight = worker.flights.last_mut()?;
        holds(flight.stage < Stage::Store)?;
        if flight.reply == Reply::None && may_arrive {
            worker.late = Some(*flight);
        }
        if flight.stage == Stage::Commit && !self.keeps(DoubtStoresNothing) {
            flight.stage = Stage::Store;
        } else {
            self.doubt(worker, Phase::Doubt);
        }
        Some(())
    }

    fn doubt(&self, worker: &mut Worker, phase: Phase) {
        worker.phase = phase;
        worker.undecided = true;
        worker.doubt = worker.flights.pop();
        worker.waiting = worker.waiting.filter(|_| !self.keeps(StaleBatchesDropped));
    }

    /// A new client takes over the transactional id.
    fn decide(&self, s: &mut State, w: usize) -> Option<()> {
        let id = s.workers[w].id;
        holds(s.workers[w].undecided)?;
        if self.keeps(DoubtDecided) {
            fence(s, id)?;
        }
        s.faults += (w >= self.ids) as u32; // a heartbeat will end it, as its successor decides too
        let worker = &mut s.workers[w];
        worker.undecided = false;
        worker.epoch = s.transactions[id].0;
        if worker.phase == Phase::Doubt {
            worker.phase = Phase::Taking { starts: None, ends: None };
            if !self.keeps(DoubtNotRepeated) {
                worker.phase = Phase::Ready;
                let part = worker.doubt.take()?.part;
                self.send(worker, part);
            }
        }
        Some(())
    }

    fn store(&self, s: &mut State, w: usize) -> Option<()> {
        let worker = &mut s.workers[w];
        let Flight { stage, part, ends, .. } = *worker.flights.first()?;
        holds(stage >= Stage::Store)?;
        if part.partitions().any(|p| worker.stored[p] > ends[p]) {
            s.broken.push(LOCAL);
        }
        part.partitions().for_each(|p| worker.stored[p] = ends[p]);
        if stage == Stage::Store && !self.keeps(OneLocalBatch) {
            worker.flights[0].stage = Stage::HalfStored;
            return Some(());
        }
        part.partitions().for_each(|p| worker.rows[p] = part.to[p]);
        worker.flights.remove(0);
        Some(())
    }
}

fn holds(condition: bool) -> Option<()> {
    condition.then_some(())
}

/// A process ends: its disk remains, and a call that it has sent.
fn die(worker: &mut Worker) -> Option<()> {
    holds(worker.phase != Phase::Dead)?;
    let Worker { id, rows, stored, late, .. } = *worker;
    let sent = |flight: &&Flight| flight.reply == Reply::None && flight.stage < Stage::Store;
    let late = worker.flights.last().filter(sent).copied().or(late);
    *worker = Worker { id, rows, stored, late, ..Default::default() };
    Some(())
}

/// A client takes over a transactional id: it aborts an open transaction, and waits for a decided
/// one.
fn fence(s: &mut State, id: usize) -> Option<()> {
    holds(!matches!(s.transactions[id].1, Transaction::Decided(_)))?;
    s.transactions[id] = (s.transactions[id].0 + 1, Transaction::None);
    s.mark(id, Mark::Open, Mark::Aborted);
    Some(())
}

/// A decided transaction is over once all of its markers are written.
fn finish(s: &mut State, id: usize) -> Option<()> {
    let is_unmarked = s.log.iter().flatten().any(|e| e.id == id && e.mark == Mark::Decided);
    if s.transactions[id].1 == Transaction::Decided(None) && !is_unmarked {
        s.transactions[id].1 = Transaction::None;
    }
    Some(())
}

/// All members must join the next generation; who has joined as another member has not.
fn rebalance(s: &mut State) -> Option<()> {
    let joined = s.joined.take().unwrap_or_else(|| vec![false; s.members.len()]);
    let is_in = |(id, has): (usize, bool)| has && s.members[id].is_some();
    s.joined = Some(joined.into_iter().enumerate().map(is_in).collect());
    Some(())
}

fn generation(s: &mut State, owners: ByPartition<usize>) -> Option<()> {
    let joined = s.joined.take()?;
    holds(s.members.iter().map(Option::is_some).eq(joined.iter().copied()))?;
    holds(owners.iter().all(|&id| joined[id]))?;
    s.generation += 1;
    (s.owners, s.assigned) = (owners, joined);
    for w in 0..s.workers.len() {
        if s.workers[w].phase == Phase::Joined {
            assign(s, w);
        }
    }
    Some(())
}

/// The group gives a worker its partitions, and the worker captures its membership.
fn assign(s: &mut State, w: usize) {
    let worker = &mut s.workers[w];
    worker.membership = (s.generation, worker.member);
    worker.owned = s.owners.map(|id| id == worker.id);
    worker.phase = match worker.owned().next() {
        Some(_) => Phase::Taking { starts: None, ends: None },
        None => Phase::Ready,
    };
}
