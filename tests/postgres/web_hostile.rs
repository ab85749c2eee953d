//! An API under overload, and the pool beside it, which must not be affected.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weir_tests::{Api, Mode, Setup, Site};

fn ask(api: Api, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(api.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

fn status(stream: &mut TcpStream) -> u16 {
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    String::from_utf8_lossy(&head[9..]).parse().unwrap()
}

#[test]
fn an_overload_of_the_api_is_refused_and_affects_no_client() {
    let api = Api::default();
    let site = Site::with(Setup::new(Mode::Transaction).size(2).more(&api.section()), Mode::Transaction);
    let host = api.address();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let work = || {
            let mut client = site.connect();
            let mut done = 0_u64;
            while !ended.load(Ordering::Relaxed) || done == 0 {
                assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
                done += 1;
            }
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        let events = format!("GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let mut streams: Vec<_> = (0..1_000).map(|_| ask(api, &events)).collect();
        assert_eq!(api.ask("GET", "/healthz", "").0, 200, "after a thousand streams");
        let statuses: Vec<_> = streams.iter_mut().map(status).collect();
        let count = |wanted| statuses.iter().filter(|one| **one == wanted).count();
        assert_eq!((count(200), count(429)), (64, 936));
        for _ in 0..100 {
            for (head, expected) in [
                ("GET /api/v1/pools HTTP/1.1\r\nHost: evil.example\r\n".to_owned(), 421),
                (format!("POST /api/v1/pause HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.example\r\n"), 403),
                (format!("POST /api/v1/pause HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"), 403),
                (format!("POST /api/v1/pools HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9999999999\r\n"), 413),
                (format!("GET /..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: {host}\r\n"), 404),
            ] {
                assert_eq!(status(&mut ask(api, &format!("{head}\r\n"))), expected, "{head}");
            }
        }
        assert_eq!(api.ask("GET", "/readyz", "").0, 200);
        ended.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().expect("no client was affected"));
    });
}
