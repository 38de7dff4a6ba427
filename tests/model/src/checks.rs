//! What must hold, and what may happen next.

use crate::model::{Action, Commits, Rule, DOUBT, LOCAL, MEMBERSHIP, STATE};
use crate::state::{ByPartition, Flight, Mark, Phase, Reply, State, Worker, PARTITIONS};
use stateright::{Model, Property};

const PREFIX: &str = "outputs, rows and offsets cover the same records, each once";
const ONE: &str = "at most one part is in flight";
pub const LIVE: &str = "with fair brokers everything is committed and stored";

impl Commits {
    /// Whether each record is in one committed entry, in order, and the offsets follow.
    fn covers(&self, s: &State, p: usize) -> bool {
        let is_visible = |mark: Mark| match mark {
            Mark::Decided | Mark::Committed => true,
            _ => !self.keeps(Rule::OneTransaction),
        };
        let (mut before, mut end) = (0, 0);
        for entry in s.log[p].iter().filter(|entry| is_visible(entry.mark)) {
            if entry.from != end {
                return false;
            }
            (before, end) = (end, entry.to);
        }
        s.committed[p] == end || (s.committed[p] == before && s.is_pending(p))
    }

    /// Whether everything is committed, and stored by its owners.
    fn is_done(&self, s: &State) -> bool {
        let end = |p: usize| s.log[p].iter().rposition(|e| e.mark == Mark::Committed);
        let has = |w: &Worker, p: usize| end(p).is_none_or(|last| w.stored[p] as usize > last);
        let holds = |w: &Worker| w.phase == Phase::Ready && w.owned().all(|p| has(w, p));
        s.committed == self.records && s.workers[..self.ids].iter().all(holds)
    }

    /// What brokers and workers do without a fault.
    fn fair(&self, s: &State) -> Vec<Action> {
        use Action::*;
        let mut actions = Vec::new();
        for (w, worker) in s.workers.iter().enumerate() {
            actions.extend((w < self.ids).then_some(Start(w)));
            actions.extend([Join(w), FetchOffsets(w), FetchEnds(w), Restore(w)]);
            actions.extend([Begin(w), Act(w), Answer(w), Store(w)]);
            actions.extend((w < self.ids || s.faults < self.faults).then_some(Decide(w)));
            actions.extend(worker.owned().map(|p| {
                let mut to = worker.cursor;
                to[p] += 1;
                Process(w, to)
            }));
        }
        for id in 0..self.ids {
            actions.extend([MarkGroup(id), MarkLog(id)]);
            actions.extend((!s.has_heartbeats(id)).then_some(Expel(id)));
            actions.extend(s.is_left_open(id).then_some(Expire(id)));
        }
        let used = self.records.iter().filter(|&&records| records > 0).count();
        let any = s.members.iter().position(Option::is_some).unwrap_or(0);
        for choice in 0..self.ids.pow(used as u32) {
            let owner = |p: usize| choice / self.ids.pow(p as u32) % self.ids;
            let owners = |p: usize| if p < used { owner(p) } else { any };
            actions.push(Generation(std::array::from_fn(owners)));
        }
        actions
    }
}

/// A number that every step raises: so each run ends.
fn rank(s: &State) -> [usize; 11] {
    let total = |numbers: &[u16]| numbers.iter().map(|&n| n as usize).sum::<usize>();
    let sum = |of: &dyn Fn(&Worker) -> usize| s.workers.iter().map(of).sum::<usize>();
    [
        s.faults as usize,
        s.generation as usize,
        total(&s.numbers),
        s.transactions.iter().map(|(epoch, _)| *epoch as usize).sum(),
        sum(&|w| (w.phase == Phase::Dead) as usize),
        s.members.iter().filter(|member| member.is_none()).count(),
        s.joined.iter().flatten().filter(|&&has_joined| has_joined).count(),
        sum(&|w| w.undecided as usize),
        s.log.iter().flatten().filter(|entry| entry.mark > Mark::Decided).count(),
        total(&s.committed),
        sum(&|w| takeover(w) + 16 * (total(&w.stored) + total(&w.cursor)) + commit(w)),
    ]
}

fn takeover(worker: &Worker) -> usize {
    match worker.phase {
        Phase::Taking { starts, ends } => 2 + starts.is_some() as usize + ends.is_some() as usize,
        Phase::Ready => 100,
        _ => 0,
    }
}

fn commit(worker: &Worker) -> usize {
    let steps = |f: &Flight| 1 + 2 * f.stage as usize + (f.reply != Reply::None) as usize;
    worker.flights.iter().map(steps).sum()
}

impl Model for Commits {
    type State = State;
    type Action = Action;

    /// All workers have joined, and the first generation is about to begin.
    fn init_states(&self) -> Vec<State> {
        let mut state = State::new(self.ids);
        for w in 0..self.ids {
            self.apply(&mut state, Action::Start(w));
            self.apply(&mut state, Action::Join(w));
        }
        vec![state]
    }

    fn actions(&self, s: &State, actions: &mut Vec<Action>) {
        use Action::*;
        actions.extend(self.fair(s));
        actions.extend((0..s.workers.len()).map(Late));
        if s.faults < self.faults {
            let alive = (0..s.workers.len()).filter(|&w| s.workers[w].phase != Phase::Dead);
            actions.extend(alive.flat_map(|w| [Kill(w), GiveUp(w), Again(w), Replace(w)]));
            actions.extend((0..self.ids).flat_map(|id| [Expire(id), Expel(id)]));
            actions.extend([Rebalance, Restart]);
        }
    }

    fn next_state(&self, s: &State, action: Action) -> Option<State> {
        let next = self.step(s, action)?;
        let must_rise = self.without.is_empty() && !matches!(action, Action::Late(_));
        assert!(!must_rise || rank(&next) > rank(s), "{action:?} of {s:?}");
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        type Check = fn(&Commits, &State) -> bool;
        let unbroken: [(&'static str, Check); 7] = [
            (PREFIX, |m, s| (0..PARTITIONS).all(|p| m.covers(s, p))),
            (MEMBERSHIP, |_, s| !s.broken.contains(&MEMBERSHIP)),
            (LOCAL, |_, s| !s.broken.contains(&LOCAL) && s.workers.iter().all(|w| follows(s, w))),
            (STATE, |_, s| !s.broken.contains(&STATE)),
            (ONE, |_, s| s.workers.iter().all(|w| w.flights.len() < 2)),
            (DOUBT, |_, s| !s.broken.contains(&DOUBT)),
            (LIVE, |m, s| {
                m.is_done(s) || m.fair(s).into_iter().any(|action| m.step(s, action).is_some())
            }),
        ];
        unbroken.into_iter().map(|(name, check)| Property::always(name, check)).collect()
    }
}

/// Whether a worker's copy ends with a decided entry.
fn follows(s: &State, worker: &Worker) -> bool {
    let last: ByPartition<usize> = worker.stored.map(usize::from);
    (0..PARTITIONS).all(|p| {
        last[p] == 0 || s.log[p].get(last[p] - 1).is_some_and(|entry| entry.mark != Mark::Open)
    })
}
