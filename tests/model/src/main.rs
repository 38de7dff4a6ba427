//! The commit protocol, searched completely; or, with `traces`, held beside the simulator's runs.
//!
//!     commit-model [small]        all rules, then without each
//!     commit-model traces < FILE  runs that `tests.model.traces` wrote

mod checks;
mod model;
mod replay;
mod state;

use model::{Commits, Rule, Rule::*};
use stateright::{Checker, HasDiscoveries, Model};
use std::io::stdin;
use std::process::ExitCode;

/// Each fails some invariant when it is taken out; the last two guard against the same.
const RULES: [&[Rule]; 16] = [
    &[OneTransaction],
    &[OnePartInFlight],
    &[CapturedMembership],
    &[StaleBatchesDropped],
    &[CursorFromOffsets],
    &[CachesForgotten],
    &[StartTakesOverId],
    &[DoubtDecided],
    &[DoubtNotRepeated],
    &[DoubtStoresNothing],
    &[StoredAfterCommit],
    &[OneLocalBatch],
    &[StableOffsets],
    &[UncommittedEnd],
    &[CommittedRows],
    &[FlushedBeforeOffsets, OffsetsBeforeEnd],
];

/// Search all states; the names of invariants that do not hold.
fn search(ids: usize, records: [u16; 3], faults: u32, without: &[Rule]) -> Vec<&'static str> {
    let model = Commits { ids, records, faults, without: without.to_vec() };
    let properties = model.properties().into_iter().map(|property| property.name);
    let safety = properties.filter(|&name| name != checks::LIVE).collect();
    let until =
        if without.is_empty() { HasDiscoveries::Any } else { HasDiscoveries::AnyOf(safety) };
    let found = model
        .checker()
        .threads(if without.is_empty() { 2 } else { 1 })
        .finish_when(until)
        .spawn_bfs()
        .join();
    let broken = found.discoveries();
    let kept = format!("{ids} workers, {records:?} records, {faults} faults, every rule");
    let what = if without.is_empty() { kept } else { format!("without {without:?}") };
    println!("{what}: {} states, depth {}", found.unique_state_count(), found.max_depth());
    for (name, path) in &broken {
        println!("  not so: {name}; after {} steps", path.clone().into_actions().len());
        if without.is_empty() {
            println!("  {:?}", path.clone().into_actions());
        }
    }
    broken.into_keys().collect()
}

fn search_all(is_small: bool) -> bool {
    let setups = [(1, [1, 0, 0], 2), (2, [2, 0, 0], 1), (2, [1, 1, 0], 1)];
    let mut setups = setups.iter().take(if is_small { 1 } else { setups.len() });
    let holds = setups.all(|&(ids, records, faults)| search(ids, records, faults, &[]).is_empty());
    holds && RULES.iter().all(|without| !search(2, [2, 0, 0], 1, without).is_empty())
}

/// Take the runs of standard input; whether the model accepts each.
fn accept_all() -> bool {
    let (mut seeds, mut steps, mut refused) = (0, 0, 0);
    let mut run: Option<replay::Replay> = None;
    let mut name = String::new();
    for line in stdin().lines().map_while(Result::ok) {
        if let Some(begun) = line.strip_prefix("seed ") {
            let numbers: Vec<usize> = begun.split(' ').filter_map(|n| n.parse().ok()).collect();
            run = Some(replay::Replay::new(numbers[1], numbers[2]));
            (name, seeds) = (line, seeds + 1);
        } else if let Some(Err(why)) = run.as_mut().map(|run| run.line(&line)) {
            println!("{name}: {line}: {why}");
            (run, refused) = (None, refused + 1);
        }
        steps += 1;
    }
    println!("{seeds} runs with {steps} steps: {refused} refused");
    refused == 0 && seeds > 0
}

fn main() -> ExitCode {
    let holds = match std::env::args().nth(1).as_deref() {
        Some("traces") => accept_all(),
        kind => search_all(kind == Some("small")),
    };
    if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
