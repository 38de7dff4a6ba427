mod checks;
mod model;
mod replay;
mod state;
use model::{Commits, Rule, Rule::*};
use stateright::{Checker, HasDiscoveries, Model};
use std::time::Instant;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("traces") {
        let mut replay: Option<replay::Replay> = None;
        let (mut seed, mut bad, mut n, mut steps) = (String::new(), false, 0, 0);
        for (number, line) in std::io::stdin().lines().enumerate() {
            let line = line.unwrap();
            if let Some(rest) = line.strip_prefix("seed ") {
                seed = rest.to_string();
                bad = false;
                n += 1;
                replay =
                    Some(replay::Replay::new(rest.split(' ').nth(1).unwrap().parse().unwrap()));
            } else if !bad {
                if let Err(why) = replay.as_mut().unwrap().line(&line) {
                    println!("seed {seed}, line {}: {line}: {why}", number + 1);
                    bad = true;
                }
                steps += 1;
            }
        }
        println!("{n} seeds, {steps} steps");
        return;
    }
    let args: Vec<u16> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let (ids, r0, r1, faults) = (args[0] as usize, args[1], args[2], args[3] as u32);
    let rules: Vec<Vec<Rule>> = if args.len() > 4 {
        let rules = [
            OneTransaction,
            OnePartInFlight,
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
            StableOffsets,
            UncommittedEnd,
            CommittedRows,
        ];
        let mut all: Vec<Vec<Rule>> = rules.into_iter().map(|r| vec![r]).collect();
        all.push(vec![FlushedBeforeOffsets, OffsetsBeforeEnd]);
        if args.len() > 5 {
            all.push(vec![FlushedBeforeOffsets]);
            all.push(vec![OffsetsBeforeEnd]);
        }
        all
    } else {
        vec![vec![]]
    };
    for without in rules {
        let started = Instant::now();
        let model = Commits { ids, records: [r0, r1, 0], faults, without: without.clone() };
        let safety =
            model.properties().iter().map(|p| p.name).filter(|n| *n != checks::LIVE).collect();
        let until =
            if without.is_empty() { HasDiscoveries::Any } else { HasDiscoveries::AnyOf(safety) };
        let checker = model
            .checker()
            .threads(2)
            .finish_when(until)
            .timeout(std::time::Duration::from_secs(100))
            .spawn_bfs()
            .join();
        println!(
            "{without:?}: {} states, depth {}, {:.1} s",
            checker.unique_state_count(),
            checker.max_depth(),
            started.elapsed().as_secs_f64()
        );
        for (name, path) in checker.discoveries() {
            println!("  fails: {name} in {} steps", path.clone().into_actions().len());
            println!("{:?}", path.into_actions());
        }
    }
}
