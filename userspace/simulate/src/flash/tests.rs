// SPDX-License-Identifier: GPL-2.0-or-later
//! The model against theory, against cases worked out by hand, and against a
//! plain check of all its state.

use super::*;

fn config(pages: u64, unit: u64, op: f64) -> Config {
    Config {
        pages,
        unit,
        op,
        streams: 1,
        gc: Gc::Greedy,
        destination: Destination::Shared,
        keep_free: 0.0,
    }
}

/// As a drive is before a measurement.
fn fill(f: &mut Flash) {
    for page in 0..f.pages() {
        f.write(page, 0);
    }
}

/// xorshift64*: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((high * u64::from(n)) >> 32) as u32
    }
}

/// Restarts all counts.
fn assert_sound(f: &Flash) {
    let mut valid = vec![0; f.units.len()];
    for (page, &at) in f.map.iter().enumerate() {
        if at == NONE {
            continue;
        }
        assert_eq!(f.owner[at as usize] as usize, page);
        valid[(at / f.unit) as usize] += 1;
    }
    for (unit, &n) in valid.iter().enumerate() {
        assert_eq!(f.units.valid(unit as u32), n);
    }
}

/// The principal branch of Lambert's W, by Newton's method.
fn lambert_w0(x: f64) -> f64 {
    let mut w: f64 = if x < -0.3 { -0.5 } else { x };
    for _ in 0..100 {
        let e = w.exp();
        w -= (w * e - x) / (e * (w + 1.0));
    }
    w
}

fn theory(a: f64) -> f64 {
    a / (a + lambert_w0(-a * (-a).exp()))
}

fn uniform_random(c: &Config, seed: u64) -> f64 {
    let mut f = Flash::new(c).unwrap();
    let mut random = Random(seed);
    fill(&mut f);
    let pages = f.pages();
    for _ in 0..3 * pages {
        f.write(random.below(pages), 0);
    }
    let start = f.counts().clone();
    for _ in 0..3 * pages {
        f.write(random.below(pages), 0);
    }
    assert_sound(&f);
    f.counts().waf_since(&start)
}

#[test]
fn theory_has_the_known_values() {
    for (op, waf) in [
        (0.07, 7.82),
        (0.15, 4.02),
        (0.25, 2.69),
        (0.30, 2.36),
        (0.50, 1.72),
    ] {
        assert!(
            (theory(1.0 + op) - waf).abs() < 0.01,
            "{op}: {}",
            theory(1.0 + op)
        );
    }
}

#[test]
fn uniform_random_writes_amplify_as_theory_says() {
    for unit in [256, 1024] {
        for op in [0.07, 0.15, 0.25, 0.30, 0.50] {
            // The open units and the free one take part in nothing: with many
            // units they do not matter.
            let (waf, theory) = (
                uniform_random(&config(unit * 1024, unit, op), 1),
                theory(1.0 + op),
            );
            println!("unit {unit} op {op}: {waf:.3}, theory {theory:.3}");
            assert!(
                (waf / theory - 1.0).abs() < 0.02,
                "unit {unit} op {op}: {waf:.3}, theory {theory:.3}"
            );
        }
    }
}

#[test]
fn two_streams_of_uniform_writes_do_as_well_as_two_drives() {
    // Half of the pages, written at random, beside a half that is never written
    // again: in streams of its own the hot half has all the spare units.
    let mut c = config(256 * 512, 256, 0.25);
    c.streams = 2;
    c.destination = Destination::Stream;
    let mut f = Flash::new(&c).unwrap();
    let half = f.pages() / 2;
    for page in 0..2 * half {
        f.write(page, usize::from(page >= half));
    }
    let mut random = Random(3);
    for _ in 0..6 * half {
        f.write(random.below(half), 0);
    }
    let start = f.counts().clone();
    for _ in 0..6 * half {
        f.write(random.below(half), 0);
    }
    assert_sound(&f);
    let (waf, theory) = (f.counts().waf_since(&start), theory(1.5));
    assert!((waf / theory - 1.0).abs() < 0.03, "{waf:.3}, theory {theory:.3}");
    assert_eq!(f.counts().gc[1], 0, "no cold page was copied");
}

#[test]
fn sequential_writes_do_not_amplify() {
    for gc in [Gc::Greedy, Gc::CostBenefit] {
        let mut f = Flash::new(&Config {
            gc,
            ..config(4096, 64, 0.1)
        })
        .unwrap();
        for _ in 0..10 {
            fill(&mut f);
        }
        assert_eq!(f.counts().gc_pages(), 0, "{gc:?}");
        assert_eq!(f.counts().waf_since(&FlashCounts::default()), 1.0);
        // 70 units; all but the free ones were filled again and again.
        assert!(f.wear().max - f.wear().min <= 1, "{:?}", f.wear());
        assert_sound(&f);
    }
}

/// Pages that a write had copied, and units that it had erased.
fn work(f: &mut Flash, page: u32, stream: usize) -> (u64, u64) {
    let cost = |f: &Flash| (f.counts().gc_pages(), f.counts().erases);
    let before = cost(f);
    f.write(page, stream);
    (cost(f).0 - before.0, cost(f).1 - before.1)
}

/// Eight logical pages in units of two, and eight units.
fn small(gc: Gc, streams: usize) -> Flash {
    Flash::new(&Config {
        gc,
        streams,
        ..config(8, 2, 1.0)
    })
    .unwrap()
}

#[test]
fn greedy_takes_the_unit_with_the_fewest_valid_pages() {
    let mut f = small(Gc::Greedy, 1);
    // Units 0 to 3: 01 23 45 67
    fill(&mut f);
    // Units 4 to 6: 02 41 60; invalid are now 0, 1, 2, 4, 6 and the 0 of unit 4
    for page in [0, 2, 4, 1, 6] {
        assert_eq!(work(&mut f, page, 0), (0, 0));
    }
    assert_eq!(work(&mut f, 0, 0), (0, 0));
    // One unit is free, so that space is made: of unit 0 nothing is valid.
    assert_eq!(work(&mut f, 3, 0), (0, 1));
    assert_eq!(work(&mut f, 1, 0), (0, 0));
    // 3 left unit 1 empty, which is the next victim.
    assert_eq!(work(&mut f, 5, 0), (0, 1));
    assert_eq!(f.counts().gc_pages(), 0);
    assert_eq!(f.counts().host_pages(), 17);
    assert_sound(&f);
}

#[test]
fn copies_are_counted_and_keep_their_pages() {
    // Eight logical pages in units of two, and seven units: 01 23 45 67 02 46
    let mut f = Flash::new(&config(8, 2, 0.75)).unwrap();
    fill(&mut f);
    for page in [0, 2, 4, 6] {
        assert_eq!(work(&mut f, page, 0), (0, 0));
    }
    // Units 0 to 3 have one page each, 1 3 5 7; unit 6 is free. To get one more,
    // 1 and 3 are copied to it, and units 0 and 1 are erased.
    assert_eq!(work(&mut f, 0, 0), (2, 2));
    assert_eq!(f.counts().gc, [2]);
    assert_eq!(work(&mut f, 2, 0), (0, 0));
    // Nothing in unit 4 is valid any more.
    assert_eq!(work(&mut f, 4, 0), (0, 1));
    assert_eq!(f.counts().erases, 3);
    assert_sound(&f);
    assert!((0..8).all(|page| f.at(page).is_some()));
}

#[test]
fn cost_benefit_weighs_age_against_copies() {
    let mut units = Units::new(3, 4);
    for unit in 0..2 {
        units.open(unit, 0, 0);
        for _ in 0..4 {
            units.gain_page(unit);
        }
        units.close(unit);
    }
    // Unit 0: half valid since 10. Unit 1: a quarter valid since 100.
    for (unit, now) in [(0, 9), (0, 10), (1, 98), (1, 99), (1, 100)] {
        units.lose_page(unit, now);
    }
    // 92 * 2 / 4 = 46 against 2 * 3 / 2 = 3
    assert_eq!(units.best_value(101), 0);
    assert_eq!(units.fewest_valid(), 1);
    // 2990 * 2 / 4 = 1495 against 2900 * 3 / 2 = 4350
    assert_eq!(units.best_value(2999), 1);
    // What is empty comes first.
    units.lose_page(0, 2999);
    units.lose_page(0, 2999);
    assert_eq!(units.best_value(3000), 0);
}

#[test]
fn a_trimmed_page_is_not_copied() {
    let mut with = Flash::new(&config(256 * 64, 256, 0.25)).unwrap();
    fill(&mut with);
    let half = with.pages() / 2;
    for page in half..2 * half {
        with.trim(page);
        with.trim(page);
    }
    assert!(with.at(half).is_none() && with.at(half - 1).is_some());
    let mut random = Random(5);
    for _ in 0..4 * half {
        with.write(random.below(half), 0);
    }
    let start = with.counts().clone();
    for _ in 0..8 * half {
        with.write(random.below(half), 0);
    }
    assert_sound(&with);
    let (waf, theory) = (with.counts().waf_since(&start), theory(2.5));
    assert!((waf / theory - 1.0).abs() < 0.02, "{waf:.3}, theory {theory:.3}");
}

#[test]
fn collected_pages_stay_in_their_stream_or_do_not() {
    for destination in [Destination::Shared, Destination::Stream, Destination::Host] {
        for gc in [Gc::Greedy, Gc::CostBenefit] {
            let mut f = Flash::new(&Config {
                streams: 4,
                destination,
                gc,
                ..config(64 * 128, 64, 0.25)
            })
            .unwrap();
            let mut random = Random(7);
            for _ in 0..10 * f.pages() {
                // The stream is the residue, so that it can be checked below.
                let page = random.below(f.pages());
                f.write(page, page as usize % 4);
            }
            assert_sound(&f);
            for unit in 0..f.units.len() as u32 {
                let stream = f.units.stream(unit);
                let first = unit * f.unit;
                let on_unit = |at: &u32| (first..first + f.unit).contains(at);
                for page in (0..f.pages()).filter(|page| f.at(*page).as_ref().is_some_and(on_unit)) {
                    let mixed = destination == Destination::Shared && stream == MIXED;
                    assert!(mixed || page % 4 == u32::from(stream));
                }
            }
            assert_eq!(
                f.counts().mixed > 0,
                destination == Destination::Shared,
                "{destination:?}"
            );
            assert!(f.counts().gc.iter().all(|&n| n > 0));
        }
    }
}

/// Streams that come when they are needed write as if they had been there.
#[test]
fn streams_may_come_later() {
    for destination in [Destination::Shared, Destination::Stream, Destination::Host] {
        let c = Config {
            destination,
            ..config(64 * 128, 64, 0.25)
        };
        let mut early = Flash::new(&Config { streams: 3, ..c }).unwrap();
        let mut late = Flash::new(&c).unwrap();
        let mut random = Random(7);
        for n in 0..10 * early.pages() {
            if n == early.pages() || n == 3 * early.pages() {
                late.add_stream().unwrap();
            }
            let stream = (n / early.pages()).min(3).saturating_sub(1) as usize;
            let page = random.below(early.pages());
            assert_eq!(work(&mut early, page, stream), work(&mut late, page, stream));
            assert_eq!(early.at(page), late.at(page));
        }
        assert_sound(&late);
        let (early, late) = (early.counts(), late.counts());
        assert_eq!((early.gc_pages(), early.erases), (late.gc_pages(), late.erases));
        assert_eq!(late.mixed > 0, destination == Destination::Shared);
        if destination != Destination::Shared {
            assert_eq!(early, late);
        }
    }
    // Of 33 units 7 are spare units: enough for three streams.
    let mut f = Flash::new(&Config {
        destination: Destination::Stream,
        ..config(26 * 64, 64, 0.25)
    })
    .unwrap();
    f.add_stream().unwrap();
    f.add_stream().unwrap();
    assert_eq!(
        f.add_stream().unwrap_err(),
        GeometryError::Spare {
            streams: 4,
            needed: 9,
            spare: 7,
            units: 33
        }
    );
}

/// What was copied while there was one stream is everybody's from the second one on, and
/// so is what its unit gets then.
#[test]
fn a_second_stream_shares_the_unit_of_copies() {
    let mut f = Flash::new(&config(64 * 128, 64, 0.25)).unwrap();
    fill(&mut f);
    let of_stream_0 = |f: &Flash| {
        (0..f.units.len() as u32)
            .filter(|u| f.units.stream(*u) == 0)
            .count()
    };
    let mut random = Random(11);
    let mut write = |f: &mut Flash, stream| f.write(random.below(64 * 128), stream);
    while f.collected[0].next % 64 == 0 {
        write(&mut f, 0);
    }
    let (unit, units) = (f.collected[0].next / 64, f.units.len());
    assert_eq!((of_stream_0(&f), f.counts().mixed), (units, 0));
    f.add_stream().unwrap();
    assert_eq!((of_stream_0(&f), f.units.stream(unit)), (units - 1, MIXED));
    // Nothing else fills it: it is copied from for the first time when it is full.
    while f.collected[0].next / 64 == unit {
        write(&mut f, 1);
    }
    let (before, valid) = (f.counts().clone(), u64::from(f.units.valid(unit)));
    f.collect(unit);
    assert!(valid > 0);
    assert_eq!(
        (f.counts().mixed - before.mixed, &f.counts().gc),
        (valid, &before.gc)
    );
    assert_sound(&f);

    // Where nothing was copied no unit changes.
    let mut f = Flash::new(&config(64 * 128, 64, 0.25)).unwrap();
    fill(&mut f);
    f.add_stream().unwrap();
    assert_eq!(of_stream_0(&f), f.units.len());
}

#[test]
fn impossible_drives_are_refused() {
    let good = config(64 * 128, 64, 0.1);
    assert!(Flash::new(&good).is_ok());
    let error = |c: Config| Flash::new(&c).err().unwrap().to_string();
    assert!(error(Config { pages: 0, ..good }).starts_with("a drive without pages"));
    assert!(error(Config { unit: 1, ..good }).starts_with("an erase unit of 1 pages"));
    assert!(error(Config {
        unit: 1 << 31,
        ..good
    })
    .starts_with("an erase unit of 2147483648"));
    for op in [0.0, -0.1, 10.5, f64::NAN] {
        assert!(error(Config { op, ..good }).starts_with("over-provisioning"));
    }
    assert!(error(Config { streams: 0, ..good }).starts_with("0 streams"));
    assert!(error(Config {
        pages: 1 << 32,
        ..good
    })
    .contains("would have"));
    assert_eq!(
        error(Config { streams: 12, ..good }),
        "12 streams need 14 spare erase units, and 13 is what over-provisioning leaves (141 units in all): \
         use a smaller unit, more over-provisioning or fewer streams"
    );
    assert!(Flash::new(&Config { streams: 11, ..good }).is_ok());
    // The least drive never runs out of victims.
    let mut f = Flash::new(&Config { streams: 11, ..good }).unwrap();
    let mut random = Random(9);
    for n in 0..100_000 {
        f.write(random.below(f.pages()), n % 11);
    }
    assert_sound(&f);
}

/// With one stream and copies among the host's writes, the unit that a victim's pages go to
/// takes the host's, too: six pages in units of three, and four units.
#[test]
fn copies_share_a_unit_with_the_host() {
    let mut f = Flash::new(&Config {
        destination: Destination::Host,
        ..config(6, 3, 1.0)
    })
    .unwrap();
    // Units 0 to 2: 012 345 013
    for page in [0, 1, 2, 3, 4, 5, 0, 1, 3] {
        assert_eq!(work(&mut f, page, 0), (0, 0));
    }
    // Unit 3 is free: pages 2 and 5 are copied to it, and what the host writes follows.
    assert_eq!(work(&mut f, 4, 0), (2, 2));
    assert_eq!([2, 5, 4].map(|page| f.at(page)), [Some(9), Some(10), Some(11)]);
    assert_sound(&f);
}

/// What is kept free cannot be used as over-provisioning: the drive behaves as one that has
/// so much less of it.
#[test]
fn what_is_kept_free_is_over_provisioning_lost() {
    for keep_free in [0.02, 0.05] {
        let c = Config {
            keep_free,
            ..config(256 * 512, 256, 0.15)
        };
        // Of 512 units' worth of pages; every drive keeps two.
        let more = (reserve(&c) - 2) as f64 / 512.0;
        let (waf, theory) = (uniform_random(&c, 5), theory(1.15 - more));
        assert!((waf / theory - 1.0).abs() < 0.03, "{waf:.3}, theory {theory:.3}");
    }
    // None is no more than the one unit that copies need.
    let c = config(256 * 512, 256, 0.15);
    let one = Config {
        keep_free: 0.001,
        ..c
    };
    assert_eq!(uniform_random(&c, 5), uniform_random(&one, 5));
}

#[test]
fn no_more_is_kept_free_than_there_is() {
    let c = Config {
        keep_free: 0.09,
        ..config(64 * 128, 64, 0.1)
    };
    let error = |c: &Config| Flash::new(c).err().unwrap().to_string();
    // 141 units, 13 of them spare: an open one for the host and one for copies.
    let least = Config {
        keep_free: 12.0 / 141.0,
        ..c
    };
    let mut f = Flash::new(&least).unwrap();
    let mut random = Random(9);
    fill(&mut f);
    for _ in 0..100_000 {
        f.write(random.below(f.pages()), 0);
    }
    assert_sound(&f);
    assert_eq!(
        error(&c),
        "garbage collection keeps 13 of 141 erase units free, and with 1 streams over-provisioning leaves 12: \
         keep fewer free, or give it more over-provisioning"
    );
    for keep_free in [-0.1, 1.0, f64::NAN] {
        assert!(error(&Config { keep_free, ..c }).contains("kept free"));
    }
}

#[test]
fn no_more_than_16_bytes_a_page() {
    let f = Flash::new(&config(1 << 18, 256, 0.5)).unwrap();
    let bytes = 4 * (f.map.capacity() + f.owner.capacity()) + f.units.bytes();
    assert!(bytes as f64 / f64::from(f.pages()) < 16.0);
    let said = super::bytes(&config(1 << 18, 256, 0.5));
    assert!(said.abs_diff(bytes as u64) < 4096, "{said} {bytes}");
}
