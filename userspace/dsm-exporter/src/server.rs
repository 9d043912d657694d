// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections, and the limit of their number.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use runtime::wake;

use crate::http::{self, HttpAnswer, RequestHead};

/// Clients at a time, and of one address.
const CLIENTS: usize = 32;
const OF_ONE: usize = 12;
/// Who was refused may still be sending its request: an answer is lost when the
/// connection is closed meanwhile.
const REFUSED: usize = 64;
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// Until it is looked whether there is a client, if nobody comes.
const LONG: Duration = Duration::from_secs(3600);

pub(crate) type Answers = Arc<dyn Fn(&RequestHead) -> HttpAnswer + Send + Sync>;

/// Who is being answered, in the order in which they came.
#[derive(Default)]
struct Clients(Mutex<VecDeque<(IpAddr, Arc<TcpStream>)>>);

/// A place among them.
struct ConnectionSlot {
    clients: Arc<Clients>,
    stream: Arc<TcpStream>,
}

impl Clients {
    /// A place for who came last: who came first is let go when there is none.  An answer takes
    /// milliseconds, or as long as the client likes.
    fn slot(self: &Arc<Self>, peer: IpAddr, stream: &Arc<TcpStream>) -> Option<ConnectionSlot> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.iter().filter(|(of, _)| *of == peer).count() >= OF_ONE {
            return None;
        }
        if clients.len() >= CLIENTS {
            if let Some((_, first)) = clients.pop_front() {
                // Its thread sees that, and ends.
                let _ = first.shutdown(Shutdown::Both);
            }
        }
        clients.push_back((peer, Arc::clone(stream)));
        Some(ConnectionSlot {
            clients: Arc::clone(self),
            stream: Arc::clone(stream),
        })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut clients = self.clients.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|(_, stream)| !Arc::ptr_eq(stream, &self.stream));
    }
}

/// Connections of those who were refused, until they have read why.
#[derive(Default)]
struct Refused(VecDeque<(Arc<TcpStream>, Instant)>);

impl Refused {
    fn add(&mut self, stream: Arc<TcpStream>) {
        let reason = "this address has too many connections at this moment";
        let answer = HttpAnswer::refusal("503 Service Unavailable", reason);
        let answer = answer.head() + &answer.text;
        // A new connection has room for it; nobody is waited for.
        let reported = stream
            .set_nonblocking(true)
            .and_then(|()| (&*stream).write_all(answer.as_bytes()))
            .and_then(|()| stream.shutdown(Shutdown::Write));
        if reported.is_err() {
            return;
        }
        if self.0.len() == REFUSED {
            self.0.pop_front();
        }
        self.0.push_back((stream, Instant::now() + REFUSED_FOR));
    }

    /// Lets go of those whose time has come; how long until the next.
    fn expire(&mut self) -> Option<Duration> {
        let now = Instant::now();
        while self.0.front().is_some_and(|(_, end)| *end <= now) {
            self.0.pop_front();
        }
        self.0.front().map(|(_, end)| *end - now)
    }
}

/// Serves for ever.
pub(crate) fn serve(listener: &TcpListener, answers: &Answers) -> Result<()> {
    let clients = Arc::new(Clients::default());
    let mut refused = Refused::default();
    listener
        .set_nonblocking(true)
        .context("cannot set O_NONBLOCK on the listener")?;
    loop {
        let timeout = refused.expire().unwrap_or(LONG);
        wake::wait(&[listener.as_fd()], timeout).context("cannot wait for clients")?;
        match listener.accept() {
            Ok((stream, peer)) => {
                let stream = Arc::new(stream);
                match clients.slot(peer.ip(), &stream) {
                    Some(slot) => begin(slot, Arc::clone(answers)),
                    None => refused.add(stream),
                }
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            // Gone before it was taken, or out of descriptors, most likely: do not spin.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn begin(slot: ConnectionSlot, answers: Answers) {
    let attend = move || {
        // A client's failure is its own.
        let _ = slot
            .stream
            .set_nonblocking(false)
            .and_then(|()| http::attend(&slot.stream, &*answers));
    };
    // Without a thread the connection is closed with what it was to run.
    let _ = thread::Builder::new()
        .name("client".into())
        .stack_size(256 * 1024)
        .spawn(attend);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{Ipv4Addr, SocketAddr};

    fn start() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers: Answers = Arc::new(|head| match head.target.as_str() {
            "/history" => HttpAnswer::ok("text/plain", "x".repeat(16 << 20)),
            target => HttpAnswer::ok("text/plain", format!("you want {target}")),
        });
        thread::spawn(move || serve(&listener, &answers));
        address
    }

    fn connect(to: SocketAddr, from: Ipv4Addr) -> TcpStream {
        use rustix::net::{bind, connect, socket, AddressFamily, SocketType};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from((from, 0))).unwrap();
        connect(&socket, &to).unwrap();
        TcpStream::from(socket)
    }

    fn all(mut stream: TcpStream) -> String {
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    }

    fn said(to: SocketAddr, text: &[u8]) -> String {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.write_all(text).unwrap();
        all(stream)
    }

    const GET: &[u8] = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn requests_in_every_form() {
        let to = start();
        for (text, status, end) in [
            (GET, "200", "you want /x"),
            (b"GET /x HTTP/1.0\n\n", "200", "you want /x"),
            (b"GET /x HTTP/1.1\nHost: a\n\n", "200", "you want /x"),
            (b"HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n", "200", "\r\n\r\n"),
            (b"GET /x HTTP/1.1\r\n\r\n", "400", "has a Host\n"),
            (b"hello\n\n", "400", "malformed: invalid token\n"),
        ] {
            let said = said(to, text);
            assert!(
                said.starts_with(&format!("HTTP/1.1 {status} ")) && said.ends_with(end),
                "{said}"
            );
        }
        assert!(said(to, b"HEAD /x HTTP/1.0\n\n").contains("Content-Length: 11\r\n"));
    }

    #[test]
    fn long_heads_are_refused_with_a_reason() {
        let to = start();
        let line = format!("X: {}\r\n", "y".repeat(1000));
        let fits = format!("GET /x HTTP/1.0\r\n{}\r\n", line.repeat(16));
        assert!(fits.len() < 16 * 1024 && said(to, fits.as_bytes()).starts_with("HTTP/1.1 200 "));
        // All of it is sent before anything is read.
        for lines in [17, 50] {
            let long = format!("GET /x HTTP/1.0\r\n{}\r\n", line.repeat(lines));
            assert!(said(to, long.as_bytes()).starts_with("HTTP/1.1 431 "), "{lines}");
        }
    }

    #[test]
    fn who_says_nothing_is_let_go() {
        let to = start();
        let began = Instant::now();
        let said = all(TcpStream::connect(to).unwrap());
        assert!(
            said.starts_with("HTTP/1.1 408 ") && said.ends_with("1 s for its first byte\n"),
            "{said}"
        );
        assert!(began.elapsed() >= http::FIRST_BYTE);
        // One byte at a time is no way, either.
        let mut slow = TcpStream::connect(to).unwrap();
        let mut reader = slow.try_clone().unwrap();
        let drip = thread::spawn(move || {
            for byte in b"GET /x HTTP/1.0\nX: ".iter().chain([b'y'].iter().cycle()) {
                if slow.write_all(&[*byte]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(50));
            }
        });
        let mut text = [0; 12];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"HTTP/1.1 408");
        drop(reader);
        drip.join().unwrap();
    }

    #[test]
    fn one_address_does_not_take_all_places() {
        let to = start();
        let (greedy, other) = (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3));
        // A first byte each, so that they stay for as long as a head may take.
        let idle = |from| {
            let mut stream = connect(to, from);
            stream.write_all(b"G").unwrap();
            stream
        };
        let held: Vec<TcpStream> = (0..OF_ONE).map(|_| idle(greedy)).collect();
        for _ in 0..3 {
            let refused = all(connect(to, greedy));
            assert!(
                refused.starts_with("HTTP/1.1 503 ") && refused.contains("Retry-After: 1"),
                "{refused}"
            );
            assert!(refused.ends_with("this address has too many connections at this moment\n"));
        }
        // Also with a request, which nobody reads.
        let mut late = connect(to, greedy);
        late.write_all(GET).unwrap();
        assert!(all(late).starts_with("HTTP/1.1 503 "));
        let mut asks = connect(to, other);
        asks.write_all(GET).unwrap();
        assert!(all(asks).starts_with("HTTP/1.1 200 "));
        // They go, and their places are free.
        drop(held);
        loop {
            let mut asks = connect(to, greedy);
            asks.write_all(GET).unwrap();
            if all(asks).starts_with("HTTP/1.1 200 ") {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// All places are taken by those who ask for much and do not read it.
    #[test]
    fn slow_readers_keep_nobody_away() {
        let to = start();
        let slow = |n: usize| {
            let mut stream = connect(to, Ipv4Addr::new(127, 0, 0, 2 + (n / OF_ONE) as u8));
            stream.write_all(b"GET /history HTTP/1.0\r\n\r\n").unwrap();
            // It is being answered.
            stream.read_exact(&mut [0]).unwrap();
            stream
        };
        let held: Vec<TcpStream> = (0..CLIENTS).map(slow).collect();
        // Fewer than one address may have, whose places may be free only a little later.
        for _ in 1..OF_ONE {
            assert!(said(to, GET).ends_with("you want /x"));
        }
        // Who came first has made room for them.
        let mut answer = Vec::new();
        let ended = (&held[0]).read_to_end(&mut answer);
        assert!(ended.is_err() || answer.len() < 16 << 20);
    }
}
