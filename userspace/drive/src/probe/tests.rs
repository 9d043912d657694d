// SPDX-License-Identifier: GPL-2.0-or-later
//! Drives of every kind, and what is said of them.

use std::collections::HashSet;

use super::*;

/// What a drive does with a discard.
#[derive(Clone, Copy, PartialEq)]
enum Habit {
    /// Whole units of it are deallocated, which begin so far behind multiples of their size.
    Units(u64, u64),
    /// Multiples of a length, wherever they begin at a multiple of 4 KiB.
    Lengths(u64),
    Nothing,
    /// Every other one.
    Moody,
}

/// What deallocated blocks read as.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    Zeroes,
    Ones,
    AsBefore,
    Rubbish,
    Errors,
}

/// How the drive counts what is allocated.
#[derive(Clone, Copy, PartialEq)]
enum Nuse {
    None,
    Constant,
    Counts,
    /// Only whole units of this size are freed, whatever reads as zeroes.
    Frees(u64),
}

struct Drive {
    habit: Habit,
    reads: Reads,
    nuse: Nuse,
    /// Zeroes are written, and the flash says so.
    writes_zeroes: bool,
    media: bool,
    /// The page behind a discard goes as well.
    neighbour: bool,
    takes: Duration,
    /// A discard is carried out only when it is waited for.
    late: bool,
    /// The file system moves the file in so many rounds.
    moves: u32,
    /// Others write so much between two counts.
    others: u64,
    /// The kernel counts no writes.
    uncounted: bool,
    /// Nothing is sent by the layer above.
    refused: bool,
    slots: usize,
    /// How long the discards of a round may take
    limit: Duration,
    data: Vec<u8>,
    gone: HashSet<u64>,
    freed: HashSet<u64>,
    pending: Vec<Range<u64>>,
    flash: u128,
    written: u64,
    discards: u64,
    waits: u32,
}

impl Default for Drive {
    fn default() -> Self {
        Self {
            habit: Habit::Units(PAGE, 0),
            reads: Reads::Zeroes,
            nuse: Nuse::None,
            writes_zeroes: false,
            media: false,
            neighbour: false,
            takes: Duration::from_micros(50),
            late: false,
            moves: 0,
            others: 0,
            uncounted: false,
            refused: false,
            slots: 8,
            limit: Duration::from_secs(60),
            data: Vec::new(),
            gone: HashSet::new(),
            freed: HashSet::new(),
            pending: Vec::new(),
            flash: 0,
            written: 0,
            discards: 0,
            waits: 0,
        }
    }
}

fn pages(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE..range.end / PAGE
}

impl Drive {
    /// The part of a discard that is taken.
    fn taken(&self, r: &Range<u64>) -> Range<u64> {
        match self.habit {
            Habit::Units(unit, begin) => {
                let first = (r.start + unit - begin).div_ceil(unit) * unit + begin - unit;
                let last = (r.end + unit - begin) / unit * unit + begin - unit;
                first..last.max(first)
            }
            Habit::Lengths(length) => r.start..r.start + (r.end - r.start) / length * length,
            Habit::Nothing => 0..0,
            Habit::Moody if self.discards % 2 == 0 => 0..0,
            Habit::Moody => r.clone(),
        }
    }

    fn carry_out(&mut self, r: &Range<u64>) {
        let mut taken = pages(&self.taken(r));
        if self.writes_zeroes {
            self.flash += u128::from((taken.end - taken.start) * PAGE);
        }
        self.freed.extend(taken.clone());
        if self.neighbour && taken.start < taken.end {
            taken.end += 1;
        }
        self.gone.extend(taken);
    }

    /// The pages that are free, as NUSE has it.
    fn free(&self) -> u64 {
        match self.nuse {
            Nuse::Frees(unit) => {
                let unit = unit / PAGE;
                let begins = self.freed.iter().filter(|p| *p % unit == 0);
                begins
                    .filter(|p| (**p..**p + unit).all(|p| self.freed.contains(&p)))
                    .count() as u64
                    * unit
            }
            _ => self.freed.len() as u64,
        }
    }

    fn measure(&mut self, promise: Promise) -> Measured {
        self.data = vec![0; self.slots * SLOT as usize];
        self.freed = (0..self.data.len() as u64 / PAGE).collect();
        let said = Said {
            promise,
            smallest: PAGE,
        };
        let limit = self.limit;
        run(self, said, limit).unwrap()
    }
}

impl Medium for Drive {
    fn slots(&self) -> Vec<Slot> {
        let slot = |n| Slot {
            at: n * SLOT,
            device: n * SLOT,
        };
        (0..self.slots as u64).map(slot).collect()
    }

    fn write(&mut self, at: u64, data: &Aligned) -> io::Result<()> {
        self.data[at as usize..at as usize + data.len()].copy_from_slice(data);
        for page in pages(&(at..at + data.len() as u64)) {
            self.gone.remove(&page);
            self.freed.remove(&page);
        }
        self.flash += data.len() as u128;
        self.written += data.len() as u64;
        Ok(())
    }

    fn read(&mut self, at: u64, data: &mut [u8]) -> io::Result<()> {
        data.copy_from_slice(&self.data[at as usize..at as usize + data.len()]);
        for (n, page) in (at / PAGE..).zip(data.chunks_exact_mut(PAGE as usize)) {
            if !self.gone.contains(&n) {
                continue;
            }
            match self.reads {
                Reads::Zeroes => page.fill(0),
                Reads::Ones => page.fill(0xff),
                Reads::AsBefore => {}
                Reads::Rubbish => page.fill(0x5a),
                Reads::Errors => return Err(io::Error::other("deallocated")),
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    fn discard(&mut self, ranges: &[Range<u64>]) -> Result<ProbeSent> {
        let mut done = ProbeSent::default();
        if self.refused {
            return Ok(done);
        }
        for r in ranges {
            let (begin, last) = (r.start % SLOT, (r.end - 1) % SLOT);
            assert!(MARGIN <= begin && begin <= last && last < SLOT - MARGIN, "{r:?}");
            self.discards += 1;
            match self.late {
                true => self.pending.push(r.clone()),
                false => self.carry_out(r),
            }
            done.bytes += r.end - r.start;
            done.took += self.takes;
        }
        self.written += self.others;
        Ok(done)
    }

    fn is_undisturbed(&mut self) -> Result<bool> {
        let moved = self.moves > 0;
        self.moves = self.moves.saturating_sub(1);
        Ok(!moved)
    }

    fn witness(&mut self) -> Result<Witness> {
        let all = self.data.len() as u64;
        Ok(Witness {
            used: match self.nuse {
                Nuse::None => None,
                Nuse::Constant => Some(all),
                _ => Some(all - self.free() * PAGE),
            },
            media: self.media.then_some(self.flash),
            written: (!self.uncounted).then_some(self.written),
        })
    }

    fn wait(&mut self) -> Result<()> {
        self.waits += 1;
        for r in std::mem::take(&mut self.pending) {
            self.carry_out(&r);
        }
        Ok(())
    }
}

const K4: u64 = 4 << 10;
const K64: u64 = 64 << 10;
const K128: u64 = 128 << 10;

fn fit(m: &Measured) -> (Verdict, Option<Proof>, Option<(u64, u64)>) {
    (m.verdict, m.proof, m.granularity.zip(m.alignment))
}

fn taken(proof: Proof, granularity: u64, alignment: u64) -> (Verdict, Option<Proof>, Option<(u64, u64)>) {
    (Verdict::Taken, Some(proof), Some((granularity, alignment)))
}

#[test]
fn what_a_drive_takes() {
    for (habit, granularity, alignment) in [
        (Habit::Units(K4, 0), K4, K4),
        (Habit::Units(16 << 10, 0), 16 << 10, 16 << 10),
        (Habit::Units(K64, 0), K64, K64),
        (Habit::Units(K128, 0), K128, K128),
        (Habit::Units(512 << 10, 0), 512 << 10, 512 << 10),
        (Habit::Lengths(K128), K128, K4),
        (Habit::Lengths(16 << 10), 16 << 10, K4),
    ] {
        let mut drive = Drive {
            habit,
            ..Drive::default()
        };
        let m = drive.measure(Promise::Zeroes);
        assert_eq!(
            fit(&m),
            taken(Proof::Reads, granularity, alignment),
            "{}",
            m.reason
        );
        assert!(m.reason.contains("no counter of the drive says"));
        // All 8 lengths at 5 offsets, and at half of the length where that is another.
        assert_eq!(m.pieces.len(), 8 * 5 + 3);
    }
}

#[test]
fn two_witnesses_prove_it() {
    let counts = |nuse, media| Drive {
        nuse,
        media,
        ..Drive::default()
    };
    let m = counts(Nuse::Counts, true).measure(Promise::Nothing);
    assert_eq!(fit(&m), taken(Proof::Nuse, K4, K4));
    let [trial] = m.trials.as_slice() else {
        panic!("{:?}", m.trials)
    };
    // Every other page of 8 slots, but for their ends.
    assert_eq!((trial.discarded_bytes, trial.gone_bytes), (6 << 20, 6 << 20));
    assert_eq!(trial.nuse_fell_bytes, Some(6 << 20));
    assert_eq!(trial.media_wrote_bytes, Some(0));
    let m = counts(Nuse::Constant, true).measure(Promise::Zeroes);
    assert_eq!(
        fit(&m),
        taken(Proof::Media, K4, K4),
        "a count that stands still says nothing"
    );
    let m = counts(Nuse::Constant, false).measure(Promise::Zeroes);
    assert_eq!(fit(&m), taken(Proof::Reads, K4, K4));
}

#[test]
fn drives_that_lie() {
    // Reads zeroes and frees nothing: a bitmap beside the map, or a write.
    let m = Drive {
        nuse: Nuse::Frees(SLOT),
        ..Drive::default()
    }
    .measure(Promise::Zeroes);
    assert_eq!(fit(&m), (Verdict::NotTaken, Some(Proof::Nuse), None));
    assert!(m.reason.contains("nothing is freed"), "{}", m.reason);
    assert_eq!(m.trials.len(), 8);
    let m = Drive {
        writes_zeroes: true,
        media: true,
        ..Drive::default()
    }
    .measure(Promise::Zeroes);
    assert_eq!(fit(&m), (Verdict::NotTaken, Some(Proof::Media), None));
    assert!(m.reason.contains("the flash writes as much"), "{}", m.reason);
    // Reads zeroes by 4 KiB and frees whole units of 64 KiB.
    let m = Drive {
        nuse: Nuse::Frees(K64),
        ..Drive::default()
    }
    .measure(Promise::Zeroes);
    assert_eq!(fit(&m), taken(Proof::Nuse, K64, K64));
    // Takes every other one.
    let m = Drive {
        habit: Habit::Moody,
        ..Drive::default()
    }
    .measure(Promise::Zeroes);
    assert_eq!((m.verdict, m.granularity), (Verdict::NotDecidable, None));
    let m = Drive {
        reads: Reads::Rubbish,
        ..Drive::default()
    }
    .measure(Promise::Zeroes);
    assert_eq!((m.verdict, m.granularity), (Verdict::NotDecidable, None));
    assert!(m.reason.contains("neither as before"), "{}", m.reason);
}

#[test]
fn a_neighbour_that_changes_ends_it() {
    for habit in [Habit::Units(K4, 0), Habit::Units(K64, 0)] {
        let mut drive = Drive {
            habit,
            neighbour: true,
            slots: 1,
            ..Drive::default()
        };
        let m = drive.measure(Promise::Zeroes);
        assert_eq!((m.verdict, m.granularity), (Verdict::Broken, None));
        assert_eq!(m.changed_beside_bytes, PAGE);
        assert!(m.reason.contains("nothing may be discarded"), "{}", m.reason);
        // With one slot a round is a discard: none is sent after the first that does it.
        let before = if habit == Habit::Units(K4, 0) {
            1
        } else {
            5 * 4 + 3
        };
        assert!(drive.discards <= before, "{} discards", drive.discards);
    }
}

#[test]
fn what_is_read_as_before() {
    let not = |promise, nuse, habit| {
        let mut drive = Drive {
            reads: if habit == Habit::Nothing {
                Reads::Zeroes
            } else {
                Reads::AsBefore
            },
            habit,
            nuse,
            ..Drive::default()
        };
        let m = drive.measure(promise);
        assert!(drive.waits > 0, "it may be late");
        fit(&m)
    };
    // A drive that promises zeroes, or ones.
    for promise in [Promise::Zeroes, Promise::Ones] {
        let said = not(promise, Nuse::None, Habit::Nothing);
        assert_eq!(said, (Verdict::NotTaken, Some(Proof::Promise), None));
    }
    // One that promises nothing: only its count shows it.
    let said = not(Promise::Nothing, Nuse::None, Habit::Nothing);
    assert_eq!(said, (Verdict::NotDecidable, None, None));
    let said = not(Promise::Nothing, Nuse::Constant, Habit::Units(K4, 0));
    assert_eq!(said, (Verdict::NotDecidable, None, None));
    let said = not(Promise::Nothing, Nuse::Counts, Habit::Nothing);
    assert_eq!(said, (Verdict::NotTaken, Some(Proof::Nuse), None));
    let said = not(Promise::Nothing, Nuse::Counts, Habit::Units(K128, 0));
    assert_eq!(said, taken(Proof::Nuse, K128, K128));
    let said = not(Promise::Nothing, Nuse::Counts, Habit::Units(K4, 0));
    assert_eq!(said, taken(Proof::Nuse, K4, K4));
}

#[test]
fn ones_errors_and_late_drives() {
    let m = Drive {
        reads: Reads::Ones,
        ..Drive::default()
    }
    .measure(Promise::Ones);
    assert_eq!(fit(&m), taken(Proof::Reads, K4, K4));
    let m = Drive {
        reads: Reads::Errors,
        ..Drive::default()
    }
    .measure(Promise::Zeroes);
    assert_eq!(fit(&m), (Verdict::Taken, Some(Proof::Errors), None));
    assert!(m.reason.contains("dsmd discards nothing here"));
    let mut drive = Drive {
        late: true,
        habit: Habit::Units(K64, 0),
        nuse: Nuse::Counts,
        ..Drive::default()
    };
    assert_eq!(fit(&drive.measure(Promise::Zeroes)), taken(Proof::Nuse, K64, K64));
    assert!(drive.waits > 0);
}

#[test]
fn units_that_no_feature_can_state() {
    for (unit, begin, said) in [
        (96 << 10, 0, "whole units of 96 KiB are taken that begin 0 bytes behind"),
        (K64, K4, "whole units of 64 KiB are taken that begin 4 KiB behind multiples of it, which no feature of dsm can state: align the partition"),
    ] {
        let m = Drive {
            habit: Habit::Units(unit, begin),
            ..Drive::default()
        }
        .measure(Promise::Zeroes);
        assert_eq!((m.verdict, m.granularity), (Verdict::NotDecidable, None));
        assert!(m.reason.starts_with(said), "{}", m.reason);
    }
}

#[test]
fn slow_drives_and_moved_files() {
    let mut drive = Drive {
        takes: Duration::from_secs(10),
        ..Drive::default()
    };
    let m = drive.measure(Promise::Zeroes);
    assert_eq!((m.verdict, m.slowest_ms), (Verdict::NotDecidable, 10_000));
    assert!(
        m.reason.contains("one of them 10.0 s: leave discards off"),
        "{}",
        m.reason
    );
    assert_eq!(drive.discards, 7);
    let m = Drive {
        takes: Duration::from_secs(10),
        limit: Duration::from_secs(86_400),
        ..Drive::default()
    }
    .measure(Promise::Zeroes);
    assert_eq!(fit(&m), taken(Proof::Reads, K4, K4));

    let moved = |moves| {
        Drive {
            moves,
            ..Drive::default()
        }
        .measure(Promise::Zeroes)
    };
    assert_eq!(fit(&moved(2)), taken(Proof::Reads, K4, K4));
    let m = moved(3);
    assert_eq!(m.verdict, Verdict::NotDecidable);
    assert!(
        m.reason.contains("moved the scratch file 3 times"),
        "{}",
        m.reason
    );
}

#[test]
fn others_and_layers_above() {
    // What others write makes the witnesses say nothing, the reads still do.
    let m = Drive {
        nuse: Nuse::Counts,
        others: 1 << 20,
        ..Drive::default()
    }
    .measure(Promise::Zeroes);
    assert_eq!(fit(&m), taken(Proof::Reads, K4, K4));
    assert_eq!(m.trials.len(), ATTEMPTS as usize);
    // Nor do they where nobody counts what others write.
    let m = Drive {
        nuse: Nuse::Counts,
        uncounted: true,
        ..Drive::default()
    }
    .measure(Promise::Zeroes);
    assert_eq!(fit(&m), taken(Proof::Reads, K4, K4));
    let [t] = &m.trials[..] else { panic!("{m:?}") };
    assert_eq!((t.freed, t.others_bytes), (Freed::Unknown, None));
    let m = Drive {
        refused: true,
        ..Drive::default()
    }
    .measure(Promise::Zeroes);
    assert_eq!(m.verdict, Verdict::NotDecidable);
    assert!(m.reason.contains("none of the discards was sent"));
    let mut none = Drive {
        slots: 0,
        ..Drive::default()
    };
    let said = run(
        &mut none,
        Said {
            promise: Promise::Zeroes,
            smallest: PAGE,
        },
        Duration::MAX,
    );
    assert_eq!(
        said.unwrap_err().to_string(),
        "no 2 MiB in a row lie at a multiple of it"
    );
}
