// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use crate::trace::Event;

fn parse(text: &str) -> Result<Trace, ReadError> {
    read(text.as_bytes())
}

#[test]
fn every_kind_of_event() {
    let t = parse(
        "dsm-trace,1\n0,W,a.wt,4096,8192\n1,L\n1,C\n2,W,b,0,1\n3,R,b,a.wt\n4,D,a.wt,0,4096\n5,X,a.wt\n5,X,c\n",
    )
    .unwrap();
    let events: Vec<What> = t.events().map(|e| e.what).collect();
    assert_eq!(
        events,
        [
            What::Name { file: 0, name: 0 },
            What::Write {
                file: 0,
                offset: 4096,
                length: 8192
            },
            What::LoadEnd,
            What::Checkpoint,
            What::Name { file: 1, name: 1 },
            What::Write {
                file: 1,
                offset: 0,
                length: 1
            },
            What::Delete { file: 0 },
            What::Name { file: 1, name: 2 },
            What::Discard {
                file: 1,
                offset: 0,
                length: 4096
            },
            What::Delete { file: 1 },
        ]
    );
    assert_eq!(t.names, ["a.wt", "b", "a.wt"]);
    assert_eq!(t.files, 2);
    assert_eq!(
        t.events().nth(9).unwrap(),
        Event {
            us: 5,
            what: What::Delete { file: 1 }
        }
    );
    // A stream holds for its own write.
    let t = parse("dsm-trace,1\n0,W,a,0,1,3\n1,W,a,0,1,3\n2,W,a,0,1\n").unwrap();
    let streams: Vec<u8> = t
        .events()
        .filter_map(|e| match e.what {
            What::Stream { stream } => Some(stream),
            _ => None,
        })
        .collect();
    assert_eq!(streams, [3, 0]);
    assert!(t.has_streams());
    for bad in ["0", "256", "x", "-1", ""] {
        let e = parse(&format!("dsm-trace,1\n0,W,a,0,1,{bad}\n")).unwrap_err();
        assert!(e.to_string().contains("is not a number from 1 to 255"), "{e}");
    }
    // A last line without an end, and the ends of another system.
    assert_eq!(parse("dsm-trace,1\r\n7,C").unwrap().events().count(), 1);
    assert_eq!(parse("dsm-trace,1\n").unwrap(), Trace::default());
}

#[test]
fn what_is_written_can_be_read() {
    let text = "dsm-trace,1\n0,W,a.wt,4096,8192\n0,W,a.wt,4096,8192,255\n1,L\n1,B\n1,C\n2,W,b,0,1\n3,R,b,c\n4,D,a.wt,0,4096\n5,X,c\n\
                6,M\n7,A,a.wt,40960,4096,8192,20480,4096\n7,A,a.wt,4096\n7,S\n8,N\n";
    let trace = parse(text).unwrap();
    let mut written = Vec::new();
    write(&trace, Names::Exact, &mut written).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), text);
}

#[test]
fn bad_input_is_named_by_its_line() {
    for (text, error) in [
        (
            "",
            "this is not a trace: the first line must be 'dsm-trace,1', not ''",
        ),
        (
            "PK\u{3}\u{4}\n",
            "this is not a trace: the first line must be 'dsm-trace,1', not 'PK\\u{3}\\u{4}'",
        ),
        (
            "dsm-trace,2\n",
            "this is not a trace: the first line must be 'dsm-trace,1', not 'dsm-trace,2'",
        ),
        (
            "dsm-trace,1\n\nnow\n",
            "line 3: 'now': an event is <microseconds>,<W|D|L|B|C|X|R|M|A|S|N>[,...]",
        ),
        (
            "dsm-trace,1\n1,C\nx,C\n",
            "line 3: the time 'x' is not a number of microseconds",
        ),
        (
            "dsm-trace,1\n-1,C\n",
            "line 2: the time '-1' is not a number of microseconds",
        ),
        (
            "dsm-trace,1\n1,Q,a\n",
            "line 2: there is no event 'Q', only W, D, L, B, C, X, R, M, A, S and N",
        ),
        (
            "dsm-trace,1\n1,W,a,0\n",
            "line 2: W takes a file, an offset, a length, and a stream or none, and there are 2 fields after it",
        ),
        (
            "dsm-trace,1\n1,C,a\n",
            "line 2: C takes nothing, and there are 1 fields after it",
        ),
        (
            "dsm-trace,1\n1,W,a,0,4k\n",
            "line 2: the length '4k' is not a number of bytes",
        ),
        (
            "dsm-trace,1\n1,W,a,+1,4\n",
            "line 2: the offset '+1' is not a number of bytes",
        ),
        ("dsm-trace,1\n1,W,a,0,0\n", "line 2: a length of 0"),
        ("dsm-trace,1\n1,W,,0,1\n", "line 2: a file without a name"),
        ("dsm-trace,1\n1,R,a,\n", "line 2: a file without a name"),
        (
            "dsm-trace,1\n100006,C\n5,C\n",
            "line 3: the time 5 is 100001 us before that of an event above, of which 100000 are sorted",
        ),
        (
            "dsm-trace,1\n5,L\n6,L\n",
            "line 3: the load phase has ended before",
        ),
        (
            "dsm-trace,1\n1,W,a,17592186044415,2\n",
            "line 2: offset 17592186044415 and length 2 reach beyond 16 TiB",
        ),
        (
            "dsm-trace,1\n1,W,a,18446744073709551615,2\n",
            "line 2: offset 18446744073709551615 and length 2 reach beyond 16 TiB",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), error, "{text:?}");
    }
    assert!(matches!(read(&b"\xff\xfe\n"[..]), Err(ReadError::Foreign(_))));
}

#[test]
fn times_that_go_back_a_little_are_sorted() {
    let sorted = |text: &str| -> Vec<(u64, String)> {
        let t = parse(text).unwrap();
        let name = |what| match what {
            What::Write { offset, .. } => format!("W{offset}"),
            What::Checkpoint => "C".into(),
            other => format!("{other:?}"),
        };
        let named = |e: &Event| !matches!(e.what, What::Name { .. });
        t.events().filter(named).map(|e| (e.us, name(e.what))).collect()
    };
    let is = |us, what: &str| (us, what.to_owned());
    assert_eq!(
        sorted("dsm-trace,1\n7,W,a,0,1\n100007,C\n7,W,a,1,1\n9,W,a,2,1\n8,W,a,3,1\n"),
        [
            is(7, "W0"),
            is(7, "W1"),
            is(8, "W3"),
            is(9, "W2"),
            is(100_007, "C")
        ]
    );
    // More than are held at a time, and far apart: what was handed on stays.
    let mut text = "dsm-trace,1\n".to_owned();
    for n in 0..2 * HELD as u64 {
        text += &format!("{},C\n", n ^ 1);
    }
    let all = sorted(&text);
    assert_eq!(all.len(), 2 * HELD);
    assert!(all.windows(2).all(|w| w[0].0 <= w[1].0));
    // An error above is reported before one below.
    let said = parse("dsm-trace,1\n1,W,a,0,0\nx,C\n").unwrap_err().to_string();
    assert_eq!(said, "line 2: a length of 0");
}

/// With names that a comma, a quote, a line's end, a terminal or another encoding would
/// take apart.
#[test]
fn names_survive() {
    let names: [&[u8]; 8] = [
        b"a,b.wt",
        b"new\nline.wt",
        b"cr\r\n",
        b"\"quoted\" and \"",
        b"esc\x1b]0;pwn\x07.wt",
        b"\xff\xfe.wt",
        b"\xff\xfd.wt",
        b" blanks ",
    ];
    let mut b = Builder::default();
    for (us, name) in (0..).zip(names) {
        b.write(us, path(name), 4096, 4096).unwrap();
    }
    b.rename(9, path(names[1]), path(b"\r")).unwrap();
    b.delete(9, path(b"\r")).unwrap();
    let trace = b.finish();
    let mut written = Vec::new();
    write(&trace, Names::Exact, &mut written).unwrap();
    assert_eq!(read(&written[..]).unwrap(), trace);

    let mut shown = Vec::new();
    write(&trace, Names::Shown, &mut shown).unwrap();
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    assert_eq!(shown.lines().count(), 1 + names.len() + 2);
}

/// A line is where its record begins, also behind names of several lines.
#[test]
fn lines_are_counted_as_an_editor_does() {
    for text in [
        "dsm-trace,1\n1,C\n\n2,X,\"a\nb\nc\"\n3,Q\n",
        "dsm-trace,1\r\n1,C\r\n\r\n2,X,\"a\r\nb\r\nc\"\r\n3,Q\r\n",
    ] {
        let said = parse(text).unwrap_err().to_string();
        assert!(
            said.starts_with("line 7: there is no event 'Q'"),
            "{text:?}: {said}"
        );
    }
    assert!(parse("dsm-trace,1\n\n\n1,Q")
        .unwrap_err()
        .to_string()
        .starts_with("line 4: "));
    let said = parse("dsm-trace,1\n1,C\n2,X,\"a\n3,C\n4,C\n").unwrap();
    assert_eq!(said.events().count(), 1, "a file that was never written");
}
