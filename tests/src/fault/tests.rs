//! The proxy alone, between two plain sockets: tests may rely on each fault that they request.

use super::*;

/// A listener that echoes all bytes to the end, then closes.
fn echo() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            thread::spawn(move || io::copy(&mut &socket, &mut &socket).map(drop));
        }
    });
    port
}

fn connect(proxy: &FaultProxy) -> TcpStream {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

/// Sends these bytes and the end, and reads the reply.
fn round(proxy: &FaultProxy, bytes: &[u8]) -> (Vec<u8>, Option<io::ErrorKind>) {
    let mut socket = connect(proxy);
    let mut back = Vec::new();
    let written = socket.write_all(bytes).and_then(|()| socket.shutdown(Shutdown::Write));
    let read = socket.read_to_end(&mut back).map(drop);
    (back, written.and(read).err().map(|error| error.kind()))
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i % 251) as u8).collect()
}

#[test]
fn a_proxy_without_faults_changes_nothing() {
    let proxy = FaultProxy::before(echo());
    let sent = bytes(300_000);
    let sending = sent.clone();
    let mut socket = connect(&proxy);
    let mut writer = socket.try_clone().unwrap();
    thread::spawn(move || writer.write_all(&sending).and_then(|()| writer.shutdown(Shutdown::Write)));
    let mut back = Vec::new();
    socket.read_to_end(&mut back).unwrap();
    assert!(back == sent);
    assert_eq!(proxy.bytes(), (300_000, 300_000));
}

#[test]
fn trickled_jittered_and_delayed_bytes_arrive_in_order() {
    let sent = bytes(5_000);
    for seed in 0..3 {
        let way = Way {
            delay: Duration::from_millis(2),
            jitter: Duration::from_millis(5),
            trickle: Some((700, Duration::from_micros(100))),
            ..Way::default()
        };
        let proxy = FaultProxy::scripted(echo(), move |_| Plan { forth: way, back: way, ..Plan::default() });
        assert_eq!(round(&proxy, &sent), (sent.clone(), None), "{seed}");
    }
}

#[test]
fn a_cut_comes_after_exactly_the_given_number_of_bytes() {
    for cut in [0, 1, 77, 4_999] {
        let back = Way { cut: Some((cut, End::Close)), ..Way::default() };
        let proxy = FaultProxy::scripted(echo(), move |_| Plan { back, ..Plan::default() });
        let (read, _) = round(&proxy, &bytes(5_000));
        assert_eq!(read, bytes(5_000)[..cut as usize]);
    }
}

#[test]
fn a_reset_is_a_reset_and_a_half_closed_connection_still_carries_the_other_way() {
    let reset = Way { cut: Some((10, End::Reset)), ..Way::default() };
    let proxy = FaultProxy::scripted(echo(), move |_| Plan { back: reset, ..Plan::default() });
    let mut socket = connect(&proxy);
    socket.write_all(&bytes(100)).unwrap();
    let error = socket.read_to_end(&mut Vec::new()).map(drop).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

    let half = Way { cut: Some((10, End::HalfClose)), ..Way::default() };
    let proxy = FaultProxy::scripted(echo(), move |_| Plan { forth: half, ..Plan::default() });
    let mut socket = connect(&proxy);
    socket.write_all(&bytes(100)).unwrap();
    let mut back = Vec::new();
    socket.read_to_end(&mut back).unwrap();
    assert_eq!(back, bytes(10), "the echo received ten bytes and the end, and its answer arrived");
}

#[test]
fn a_refused_connection_is_reset_and_a_stalled_one_goes_on_later() {
    let proxy = FaultProxy::before(echo());
    proxy.refuse(true);
    let mut refused = connect(&proxy);
    // The kernel reports the reset once, to the first call: a slow write or the read.
    let outcome = refused.write_all(b"x").and_then(|()| refused.read(&mut [0]));
    assert!(outcome.is_err());
    proxy.refuse(false);

    let mut socket = connect(&proxy);
    proxy.stall(true);
    socket.write_all(b"hello").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(socket.read(&mut [0; 5]).is_err(), "nothing passes");
    proxy.stall(false);
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut back = [0; 5];
    socket.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
    proxy.stall(true);
    socket.write_all(b"lost").unwrap();
    proxy.cut_all(End::Reset);
    assert!(socket.read(&mut [0]).is_err());
    assert_eq!(proxy.open(), 0);
}

#[test]
fn lost_packets_are_not_acknowledged_and_arrive_later() {
    if let Err(refused) = may_lose_packets() {
        crate::skipped(&format!("lost packets: the kernel refuses the filter of a socket: {refused}"));
        return;
    }
    let proxy = FaultProxy::before(echo());
    let (mut socket, mut cut) = (connect(&proxy), connect(&proxy));
    for socket in [&mut socket, &mut cut] {
        socket.write_all(b"x").unwrap();
        socket.read_exact(&mut [0]).unwrap();
    }
    SockRef::from(&cut).set_tcp_user_timeout(Some(Duration::from_millis(300))).unwrap();
    proxy.vanish(true);
    cut.write_all(b"hello").unwrap();
    assert_eq!(cut.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut, "the kernel's error, not a reset");
    let timed_out = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, proxy.port()).into(), Duration::from_millis(300));
    assert_eq!(timed_out.unwrap_err().kind(), io::ErrorKind::TimedOut);
    socket.write_all(b"hello").unwrap();
    proxy.vanish(false);
    let mut back = [0; 5];
    socket.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello", "sent again");
}

#[test]
fn a_seed_draws_the_same_plans_again() {
    let plans = |seed| {
        let mut rng = Rng::new(seed);
        format!("{:?}", (0..50).map(|_| Plan::drawn(&mut rng, 1000)).collect::<Vec<_>>())
    };
    assert_eq!(plans(5), plans(5));
    assert_ne!(plans(5), plans(6));
}
