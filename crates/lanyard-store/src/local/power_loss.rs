//! Power cuts in the middle of everything, recovery included.

use std::{env, sync::Arc};

use super::{
    Local,
    disk_tests::{check_tables, put},
};
use crate::{
    Error, Expect, Revision,
    engine::{
        Engine,
        file::FileEngine,
        sim_disk::{Random, SimDisk},
    },
};

/// Power cuts of a normal run; `LANYARD_POWER_CUTS` asks for more.
const POWER_CUTS: u64 = 200;

fn number_from_env(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[tokio::test]
async fn no_acknowledged_write_is_lost_by_a_power_cut() {
    let seed = number_from_env("LANYARD_POWER_SEED", 1);
    let cuts = number_from_env("LANYARD_POWER_CUTS", POWER_CUTS);
    let mut random = Random::new(seed);
    let disk = SimDisk::default();
    let mut writers = Writers::default();
    let (mut cut_in_recovery, mut acknowledged) = (0, 0);
    for cut in 0..cuts {
        let at = format!("seed {seed}, cut {cut}");
        if random.below(4) == 0 {
            disk.cut_after(1 + random.below(12));
        }
        let engine = match FileEngine::open(disk.clone()) {
            Ok(engine) => Arc::new(engine),
            Err(error) => {
                assert!(disk.is_off(), "{at}: cannot be opened: {error}");
                cut_in_recovery += 1;
                disk.power_cycle(&mut random);
                continue;
            }
        };
        let Ok(local) = Local::start(engine.clone()) else {
            assert!(disk.is_off(), "{at}: cannot be started");
            cut_in_recovery += 1;
            engine.close();
            disk.power_cycle(&mut random);
            continue;
        };
        if !disk.is_off() {
            // A cut may come while this is checked; what was read until then must be right.
            match check_tables(&*engine) {
                Ok(()) => writers.check(&local, &at).await,
                Err(error) => assert!(disk.is_off(), "{at}: {error}"),
            }
            disk.cut_after(1 + random.below(300));
            acknowledged += writers.write_until_failure(&local, &mut random).await;
        }
        local.close().await;
        disk.power_cycle(&mut random);
    }
    assert!(acknowledged > cuts, "{acknowledged} writes, {cut_in_recovery} cuts in recovery");
}

/// Writers of one key each, who count; and who remember what was acknowledged.
#[derive(Default)]
struct Writers([Writer; 8]);

#[derive(Clone, Default)]
struct Writer {
    /// What is certainly there: a count and its revision.
    known: Option<(u64, Revision)>,
    /// What may be there instead.
    trying: Option<u64>,
}

impl Writers {
    /// Whether each key has what was acknowledged, or what was tried after that.
    async fn check(&mut self, local: &Local, at: &str) {
        for (n, writer) in self.0.iter_mut().enumerate() {
            let Ok(found) = local.get(&key(n)).await else {
                return;
            };
            let count = found.as_ref().map(|entry| {
                let digits = entry.value.split(|byte| *byte == b' ').next().unwrap();
                std::str::from_utf8(digits).unwrap().parse::<u64>().unwrap()
            });
            let known = writer.known.map(|(count, _)| count);
            assert!(
                count == known || count == writer.trying,
                "{at}: {} holds {count:?}, not {known:?} or {:?}",
                key(n),
                writer.trying
            );
            *writer =
                Writer { known: found.map(|entry| (count.unwrap(), entry.revision)), trying: None };
        }
    }

    /// All write at the same time until the disk fails; answers how many writes were acknowledged.
    async fn write_until_failure(&mut self, local: &Local, random: &mut Random) -> u64 {
        let before: u64 = self.total();
        for _ in 0..200 {
            let size = random.below(6000) as usize;
            if random.below(10) == 0 {
                let _ = local.compact(Revision(local.head().map_or(0, |head| head.0))).await;
            }
            let attempts: Vec<_> = self
                .0
                .iter_mut()
                .enumerate()
                .map(|(n, writer)| {
                    let count = writer.known.map_or(0, |(count, _)| count) + 1;
                    writer.trying = Some(count);
                    let expect = match writer.known {
                        Some((_, revision)) => Expect::At(revision),
                        None => Expect::Absent,
                    };
                    let value = format!("{count} {}", "x".repeat(size));
                    let local = local.clone();
                    tokio::spawn(async move { put(&local, &key(n), expect, value).await })
                })
                .collect();
            let mut failed = false;
            for (writer, attempt) in self.0.iter_mut().zip(attempts) {
                match attempt.await.unwrap() {
                    Ok(revision) => {
                        *writer =
                            Writer { known: Some((writer.trying.unwrap(), revision)), trying: None }
                    }
                    Err(Error::Conflict { key, .. }) => panic!("{key} has one writer only"),
                    Err(_) => failed = true,
                }
            }
            if failed {
                break;
            }
        }
        self.total() - before
    }

    fn total(&self) -> u64 {
        self.0.iter().filter_map(|writer| writer.known).map(|(count, _)| count).sum()
    }
}

fn key(n: usize) -> String {
    format!("/writers/{n}")
}
