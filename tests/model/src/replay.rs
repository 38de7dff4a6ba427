//! The simulator's runs, step by step, in the model: it must accept each, and every invariant hold.

use crate::checks::LIVE;
use crate::model::{Action, Commits};
use crate::state::{ByPartition, Phase, Reply, Stage, State, PARTITIONS};
use stateright::Model;

pub struct Replay {
    model: Commits,
    state: State,
    partitions: usize,
}

impl Replay {
    pub fn new(ids: usize, partitions: usize) -> Replay {
        let model = Commits { ids, records: [u16::MAX; PARTITIONS], faults: 0, without: vec![] };
        Replay { model, state: State::new(ids), partitions }
    }

    /// Take the steps of a line. An error says why the model does not.
    pub fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split(' ').collect();
        let numbers: Vec<i32> = words[1..].iter().filter_map(|word| word.parse().ok()).collect();
        let w = numbers.first().map_or(0, |&number| number as usize);
        let per_partition = |at: usize| std::array::from_fn(|p| numbers[at + p]);
        match words[0] {
            "expire" => self.take(Action::Expire(w)),
            "start" => self.take(Action::Start(w)),
            "decide" => self.take(Action::Decide(w)),
            "join" => self.take(Action::Join(w)),
            "expel" => self.take(Action::Expel(w)),
            "rebalance" => self.take(Action::Rebalance),
            "generation" => self.take(Action::Generation(per_partition(0).map(|id| id as usize))),
            "kill" => self.take(Action::Kill(w)),
            "replace" => self.take(Action::Replace(w)),
            "fetch" => self.fetch(w, per_partition(1)),
            "restore" => self.restore(w, per_partition(1)),
            "process" => {
                let (to, cursor) = (per_partition(1), self.state.workers[w].cursor);
                let to = std::array::from_fn(|p| u16::try_from(to[p]).unwrap_or(cursor[p]));
                self.take(Action::Process(w, to))
            }
            "begin" => self.take(Action::Begin(w)),
            "call" => self.call(w),
            "act" => self.act(w, words[2], words[3] == "1"),
            "late" => self.late(w, words[2], words[3] == "1"),
            "mark" => self.take(Action::MarkGroup(w)).and_then(|()| self.take(Action::MarkLog(w))),
            "doubt" => match self.state.workers[w].flights.last().map(|flight| flight.reply) {
                Some(Reply::Fenced | Reply::Overtaken) => self.take(Action::Answer(w)),
                _ => self.take(Action::GiveUp(w)),
            },
            "store" => self.take(Action::Answer(w)).and_then(|()| self.take(Action::Store(w))),
            _ => Err("no such step".into()),
        }
    }

    fn take(&mut self, action: Action) -> Result<(), String> {
        let next = self.model.step(&self.state, action);
        self.state = next.ok_or_else(|| format!("the model has no {action:?} here"))?;
        let holds = |name, check: fn(&Commits, &State) -> bool| {
            name == LIVE || check(&self.model, &self.state)
        };
        match self.model.properties().iter().find(|one| !holds(one.name, one.condition)) {
            Some(broken) => Err(format!("after {action:?} it does not hold: {}", broken.name)),
            None => Ok(()),
        }
    }

    /// The committed offsets of its partitions are those that the simulated worker was told.
    fn fetch(&mut self, w: usize, offsets: ByPartition<i32>) -> Result<(), String> {
        match self.state.workers[w].phase {
            Phase::Taking { .. } if !self.is_of_now(w, offsets) => return Ok(()),
            Phase::Taking { starts: None, .. } => {}
            Phase::Taking { .. } => self.take(Action::Again(w))?,
            _ => return Ok(()), // a seek asks too, and changes nothing
        }
        self.take(Action::FetchOffsets(w))?;
        let is_same = |p: usize| offsets[p] == self.state.committed[p] as i32;
        match self.state.workers[w]
            .owned()
            .take_while(|&p| p < self.partitions)
            .find(|&p| !is_same(p))
        {
            Some(p) => {
                Err(format!("{:?} are committed, not {offsets:?} ({p})", self.state.committed))
            }
            None => self.take(Action::FetchEnds(w)),
        }
    }

    /// A takeover of a past assignment may still be under way; nothing comes of it.
    fn is_of_now(&self, w: usize, offsets: ByPartition<i32>) -> bool {
        let owned = self.state.workers[w].owned;
        (0..self.partitions).all(|p| (offsets[p] >= 0) == owned[p])
    }

    /// A member's copy is as long as the simulated worker's.
    fn restore(&mut self, w: usize, rows: ByPartition<i32>) -> Result<(), String> {
        let is_ready = matches!(self.state.workers[w].phase, Phase::Taking { ends: Some(_), .. });
        if !is_ready || !self.is_of_now(w, rows) {
            return Ok(());
        }
        self.take(Action::Restore(w))?;
        let worker = &self.state.workers[w];
        let is_member = self.state.is_member(worker.id, worker.membership);
        match (0..self.partitions)
            .find(|&p| is_member && rows[p] >= 0 && rows[p] != worker.rows[p] as i32)
        {
            Some(p) => Err(format!("{:?} are restored, not {rows:?} ({p})", worker.rows)),
            None => Ok(()),
        }
    }

    /// The next call: the one before was answered.
    fn call(&mut self, w: usize) -> Result<(), String> {
        match self.state.workers[w].flights.last().map(|flight| flight.reply) {
            Some(Reply::Done) => self.take(Action::Answer(w)),
            _ => Ok(()),
        }
    }

    fn act(&mut self, w: usize, stage: &str, is_accepted: bool) -> Result<(), String> {
        let at = self.state.workers[w].flights.last().map(|flight| flight.stage);
        if at != Some(stage_of(stage)) {
            return Err(format!("the model's commit is at {at:?}"));
        }
        self.take(Action::Act(w))?;
        let reply = self.state.workers[w].flights.last().map(|flight| flight.reply);
        let is_same = (reply == Some(Reply::Done)) == is_accepted;
        is_same.then_some(()).ok_or_else(|| format!("the model's brokers reply {reply:?}"))
    }

    /// A call that its worker gave up: the brokers refuse it, or take it as the model's do.
    fn late(&mut self, w: usize, stage: &str, is_accepted: bool) -> Result<(), String> {
        let worker = &self.state.workers[w];
        let (epoch, _) = self.state.transactions[worker.id];
        let is_it = worker.late.is_some_and(|f| f.stage == stage_of(stage) && f.epoch == epoch);
        match (is_it, is_accepted) {
            (true, _) => self.take(Action::Late(w)),
            (false, true) => Err("the model has no such call under way".into()),
            (false, false) => Ok(()),
        }
    }
}

fn stage_of(word: &str) -> Stage {
    match word {
        "flush" => Stage::Flush,
        "offsets" => Stage::Offsets,
        _ => Stage::Commit,
    }
}
