// SPDX-License-Identifier: GPL-2.0-or-later
//! As much of HTTP/1.1 as Prometheus and browsers need to get a page: a request has a head
//! and no body, and each connection one request.  httparse reads heads.  No server crate:
//! tiny_http (five crates) has no timeouts at all, and hyper (17) needs tokio and the same
//! limits around it; deadlines and limits are most of what is here.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Browsers open connections that they do not use.
pub(crate) const FIRST_BYTE: Duration = Duration::from_secs(1);
/// A client that is slower with its head is let go.
const HEAD: Duration = Duration::from_secs(5);
/// So is one that has not taken all of its answer by then: /history has about 1 MB for each device.
const ANSWER: Duration = Duration::from_secs(20);
/// A longer head is neither Prometheus's nor a browser's.
const LONGEST: usize = 16 * 1024;
const LINES: usize = 64;
/// What is read of a request that was answered already.
const REST: usize = 64 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestHead {
    pub method: String,
    pub target: String,
    pub host: Option<String>,
}

#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub status: &'static str,
    pub kind: &'static str,
    pub text: String,
    /// Where it is a long one.
    pub _share: Option<Share>,
}

/// Bytes of answers that are under way.
#[derive(Debug, Default)]
pub(crate) struct AnswerRoom(AtomicUsize);

/// A part of it, until the answer is gone.
#[derive(Debug)]
pub(crate) struct Share {
    room: Arc<AnswerRoom>,
    bytes: usize,
}

impl AnswerRoom {
    /// One has room, however long it is.
    pub(crate) fn share(self: &Arc<Self>, bytes: usize, most: usize) -> Option<Share> {
        let more = |now: usize| (now == 0 || now + bytes <= most).then_some(now + bytes);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Share {
            room: Arc::clone(self),
            bytes,
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl HttpAnswer {
    pub(crate) fn ok(kind: &'static str, text: String) -> Self {
        Self {
            status: "200 OK",
            kind,
            text,
            _share: None,
        }
    }

    pub(crate) fn refusal(status: &'static str, reason: &str) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            text: format!("{reason}\n"),
            _share: None,
        }
    }

    /// A connection has one answer: the head of it.
    pub(crate) fn head(&self) -> String {
        let more = match &self.status[..3] {
            "405" => "Allow: GET, HEAD\r\n",
            "503" => "Retry-After: 1\r\n",
            _ => "",
        };
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n{more}\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Security-Policy: default-src 'none'; connect-src 'self'; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\r\n",
            self.status,
            self.kind,
            self.text.len(),
        )
    }
}

fn bad(reason: &str) -> HttpAnswer {
    HttpAnswer::refusal("400 Bad Request", reason)
}

/// What a head says, or the answer to one that is wrong; nothing while it is not all there.
pub(crate) fn parse(text: &[u8]) -> Option<Result<RequestHead, HttpAnswer>> {
    let mut lines = [httparse::EMPTY_HEADER; LINES];
    let mut request = httparse::Request::new(&mut lines);
    match request.parse(text) {
        Ok(httparse::Status::Complete(_)) => Some(head(&request)),
        Ok(httparse::Status::Partial) => None,
        Err(httparse::Error::TooManyHeaders) => Some(Err(too_long(format!("more than {LINES} lines")))),
        Err(e) => Some(Err(bad(&format!("the head of the request is malformed: {e}")))),
    }
}

fn head(request: &httparse::Request<'_, '_>) -> Result<RequestHead, HttpAnswer> {
    let target = request.path.unwrap_or_default();
    let mut host = None;
    for line in request.headers.iter() {
        if line.name.eq_ignore_ascii_case("host") {
            let value = std::str::from_utf8(line.value).map_err(|_| bad("the Host is not UTF-8"))?;
            if host.replace(value.trim().to_owned()).is_some() {
                return Err(bad("there are two lines with a Host"));
            }
        }
    }
    if request.version == Some(1) && host.is_none() {
        return Err(bad("a request of HTTP/1.1 has a Host"));
    }
    // As proxies are asked; the Host does not count then: RFC 9112, 3.2.2.
    let absolute = target.strip_prefix("http://");
    let absolute = absolute.map(|rest| rest.split_at(rest.find('/').unwrap_or(rest.len())));
    let (host, target) = match absolute {
        Some((host, "")) => (Some(host.to_owned()), "/"),
        Some((host, path)) => (Some(host.to_owned()), path),
        None => (host, target),
    };
    Ok(RequestHead {
        method: request.method.unwrap_or_default().to_owned(),
        target: target.to_owned(),
        host,
    })
}

fn too_long(what: String) -> HttpAnswer {
    let reason = format!("the head of the request is longer than it may be: {what}");
    HttpAnswer::refusal("431 Request Header Fields Too Large", &reason)
}

/// Reads a head; nothing: the client has nothing to say.
fn read_head(mut stream: &TcpStream) -> io::Result<Option<Result<RequestHead, HttpAnswer>>> {
    let began = Instant::now();
    let mut head = Vec::new();
    let mut buf = [0u8; 2048];
    loop {
        let timeout = if head.is_empty() { FIRST_BYTE } else { HEAD };
        let left = timeout.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(Some(Err(late(&head))));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buf) {
            Ok(0) if head.is_empty() => return Ok(None),
            Ok(0) => return Ok(Some(Err(bad("incomplete request head")))),
            Ok(n) => head.extend_from_slice(&buf[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Some(Err(late(&head)))),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        match parse(&head[..head.len().min(LONGEST)]) {
            Some(parsed) => return Ok(Some(parsed)),
            None if head.len() <= LONGEST => {}
            None => return Ok(Some(Err(too_long(format!("{LONGEST} bytes"))))),
        }
    }
}

fn late(head: &[u8]) -> HttpAnswer {
    let (what, timeout) = match head {
        [] => ("its first byte", FIRST_BYTE),
        _ => ("its head", HEAD),
    };
    let reason = format!("the request took longer than {} s for {what}", timeout.as_secs());
    HttpAnswer::refusal("408 Request Timeout", &reason)
}

/// Answers the one request of a connection.
pub(crate) fn attend(stream: &TcpStream, answer: &dyn Fn(&RequestHead) -> HttpAnswer) -> io::Result<()> {
    let (method, answer) = match read_head(stream)? {
        None => return Ok(()),
        Some(Ok(head)) => {
            let answer = answer(&head);
            (head.method, answer)
        }
        Some(Err(refusal)) => (String::new(), refusal),
    };
    let text = if method == "HEAD" { "" } else { &answer.text };
    let end = Instant::now() + ANSWER;
    send(stream, answer.head().as_bytes(), end)?;
    send(stream, text.as_bytes(), end)?;
    hang_up(stream, FIRST_BYTE)
}

/// Sends all of it until then, however much of it each write takes.
fn send(mut stream: &TcpStream, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Closing a connection with something unread takes the answer from the client.
fn hang_up(mut stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let end = Instant::now() + timeout;
    let mut rest = 0;
    let mut buf = [0u8; 4096];
    while rest < REST {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buf)? {
            0 => break,
            n => rest += n,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    fn code(head: &str) -> String {
        match parse(head.as_bytes()) {
            Some(Ok(_)) => "ok".into(),
            Some(Err(a)) => a.status[..3].into(),
            None => "more".into(),
        }
    }

    #[test]
    fn heads() {
        let head = parse(b"GET /metrics HTTP/1.1\r\nhost: localhost:19187\r\nAccept: */*\r\n\r\n");
        let head = head.unwrap().unwrap();
        assert_eq!(
            (head.method.as_str(), head.target.as_str(), head.host.as_deref()),
            ("GET", "/metrics", Some("localhost:19187"))
        );
        for (head, wanted) in [
            ("GET / HTTP/1.0\n\n", "ok"),
            ("\r\nGET / HTTP/1.0\r\n\r\n", "ok"),
            ("\nGET / HTTP/1.0\n\n", "ok"),
            ("\r\n\r\nGET / HTTP/1.0\r\n\r\n", "ok"),
            ("GET / HTTP/1.0\r\n\r\nbody", "ok"),
            ("GET / HTTP/1.0\r\n\nbody", "ok"),
            ("GET / HTTP/1.0\r\n\r", "more"),
            ("GET / HTTP/1.0\r\nHost: a\r\n", "more"),
            ("HEAD / HTTP/1.1\nHost: a\n\n", "ok"),
            ("POST / HTTP/1.1\nHost: a\n\n", "ok"),
            ("GET / HTTP/1.1\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\nHost\r\n\r\n", "400"),
            ("GET / HTTP/2\r\n\r\n", "400"),
            ("GET /\r\n\r\n", "400"),
            ("\r\n\r\n", "more"),
            ("", "more"),
        ] {
            assert_eq!(code(head), wanted, "{head:?}");
        }
        for head in [&b"GET /\xff HTTP/1.0\n\n"[..], b"GET / HTTP/1.0\nHost: \xff\n\n"] {
            let refusal = parse(head).unwrap().unwrap_err();
            assert_eq!(refusal.status, "400 Bad Request");
        }
        let lines = |n: usize| code(&format!("GET / HTTP/1.0\n{}\n", "A: b\n".repeat(n)));
        assert_eq!([LINES, LINES + 1].map(lines), ["ok", "431"]);
    }

    #[test]
    fn targets_with_a_host() {
        for (target, wanted) in [
            ("/metrics", ("/metrics", "a")),
            (
                "http://db1:19187/history?after=3",
                ("/history?after=3", "db1:19187"),
            ),
            ("http://db1", ("/", "db1")),
            ("https://db1/", ("https://db1/", "a")),
        ] {
            let head = parse(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            let head = head.unwrap().unwrap();
            assert_eq!((head.target.as_str(), head.host.as_deref().unwrap()), wanted);
        }
    }

    /// Somebody who always takes a little, and never all.
    #[test]
    fn an_answer_has_an_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let reader = thread::spawn(move || {
            let mut taken = 0;
            while let Ok(n @ 1..) = slow.read(&mut [0; 65536]) {
                taken += n;
                thread::sleep(Duration::from_millis(1));
            }
            taken
        });
        let answer = vec![0; 1 << 30];
        let e = send(&stream, &answer, Instant::now() + Duration::from_millis(100)).unwrap_err();
        assert!(
            matches!(e.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock),
            "{e}"
        );
        drop(stream);
        assert!((1..answer.len()).contains(&reader.join().unwrap()));
    }

    #[test]
    fn answers() {
        let a = HttpAnswer::ok("text/plain", "hello".into());
        let ask = |method: &str| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            client
                .write_all(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())
                .unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            attend(&stream, &|_| HttpAnswer::ok("text/plain", "hello".into())).unwrap();
            drop(stream);
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            text
        };
        assert!(a.head().starts_with("HTTP/1.1 200 OK\r\n") && a.head().ends_with("\r\n\r\n"));
        assert_eq!(ask("GET"), a.head() + "hello");
        assert_eq!(ask("HEAD"), a.head(), "the same but for the body");
    }

    #[test]
    fn answers_under_way_share_their_room() {
        let room = Arc::new(AnswerRoom::default());
        let large = room.share(500, 100).unwrap();
        assert!(room.share(1, 100).is_none());
        drop(large);
        let [first, _second] = [60, 40].map(|n| room.share(n, 100).unwrap());
        assert!(room.share(1, 100).is_none());
        drop(first);
        assert!(room.share(61, 100).is_none() && room.share(60, 100).is_some());
    }
}
