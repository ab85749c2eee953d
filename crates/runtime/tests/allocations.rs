//! In steady state the path of a query allocates nothing. A program of its own and without the test harness, whose
//! main thread allocates at any time: this test counts the whole process.

mod common;

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use common::*;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Answers each byte with two, on accepted connections, until they end.
fn serve_answers(listener: TcpListener, clients: usize) {
    for _ in 0..clients {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        thread::spawn(move || {
            let (mut question, answer) = ([0; 64], [b'.'; 128]);
            while let Ok(length @ 1..) = stream.read(&mut question) {
                stream.write_all(&answer[..2 * length]).unwrap();
            }
        });
    }
}

fn ask(stream: &mut TcpStream, times: usize) {
    let mut answer = [0; 64];
    for _ in 0..times {
        stream.write_all(&[b'?'; 32]).unwrap();
        stream.read_exact(&mut answer).unwrap();
    }
}

/// Allocations and reallocations in 8,000 turns.
fn measure(clients: &mut [TcpStream]) -> (usize, usize) {
    let region = Region::new(ALLOCATOR);
    for _ in 0..100 {
        clients.iter_mut().for_each(|c| ask(c, 20));
    }
    let change = region.change();
    (change.allocations, change.reallocations)
}

fn main() {
    const CLIENTS: usize = 4;
    let listener = TcpListener::bind((LOCAL, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let server = thread::spawn(move || serve_answers(listener, CLIENTS));
    let pooler = serve(|_| Forward::new(to));
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| client(&pooler)).collect();
    clients.iter_mut().for_each(|c| ask(c, 100));
    server.join().unwrap();
    // A thread that starts late allocates once; an allocation in a turn shows in every measurement.
    let measured: Vec<_> = (0..5).map(|_| measure(&mut clients)).collect();
    assert!(measured.contains(&(0, 0)), "allocations in 8,000 turns, measured again and again: {measured:?}");
    println!("test result: ok. 1 passed; 0 failed; forwarding allocates nothing");
}
