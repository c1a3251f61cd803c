//! One connection between a process and a relay, in memory: two lanes of bytes that take time, and ends that close or break.
//!
//! What is written flies, then lands; only what has landed can be read. A lane keeps its order. A window bounds what is under way or unread.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Process, Service, World};

/// Bytes written and not read yet, per lane: few, so that a server that stops reading closes the window on a mail of some pages.
pub(super) const WINDOW_BYTES: usize = 4 * 1024;
/// How often what can't pass is sent again.
const AGAIN: Duration = Duration::from_millis(200);

/// An end of a connection; as a lane, the one that it writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Client,
    Server,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// How a closing end goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Close {
    /// What was written arrives.
    Orderly,
    /// What was written arrives, and a reset behind it.
    Break,
    /// What hasn't landed never does.
    Abort,
}

enum Cargo {
    Bytes(Vec<u8>),
    Fin,
    Reset,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Fin,
    Reset,
}

#[derive(Default)]
struct Lane {
    flying: VecDeque<(Instant, Cargo)>,
    landed: VecDeque<u8>,
    /// Bytes flying or landed.
    held: usize,
    /// How it ended for its reader, behind what has landed.
    end: Option<End>,
    /// Its writer writes no more.
    shut: bool,
    /// Its reader is gone.
    deaf: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Default)]
struct State {
    client: Lane,
    server: Lane,
    /// Nothing lands any more, and nobody is told.
    silent: bool,
}

impl State {
    fn lane(&mut self, side: Side) -> &mut Lane {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

/// One connection.
pub(super) struct Connection {
    world: World,
    process: Arc<Process>,
    service: Arc<Service>,
    state: Mutex<State>,
    client_moved: Notify,
    server_moved: Notify,
}

impl Connection {
    /// A connection that stands. Its lanes move on the current runtime, until both ends are closed.
    pub(super) fn open(world: &World, process: &Arc<Process>, service: &Arc<Service>) -> Arc<Self> {
        let connection = Arc::new(Self {
            world: world.clone(),
            process: Arc::clone(process),
            service: Arc::clone(service),
            state: Mutex::default(),
            client_moved: Notify::new(),
            server_moved: Notify::new(),
        });
        tokio::spawn(Arc::clone(&connection).move_lane(Side::Client));
        tokio::spawn(Arc::clone(&connection).move_lane(Side::Server));
        connection
    }

    pub(super) fn poll_read(&self, side: Side, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        let lane = state.lane(side.other());
        let count = buf.remaining().min(lane.landed.len());
        if count > 0 {
            for byte in lane.landed.drain(..count) {
                buf.put_slice(&[byte]);
            }
            lane.held -= count;
            wake(&mut lane.writer);
            return Poll::Ready(Ok(()));
        }
        match lane.end {
            Some(End::Fin) => Poll::Ready(Ok(())),
            Some(End::Reset) => Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
            None => {
                lane.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Takes what the window has room for; a marker whole, for a kernel always has room for five bytes.
    pub(super) fn poll_write(&self, side: Side, cx: &mut Context<'_>, bytes: &[u8], room_for_all: bool) -> Poll<io::Result<usize>> {
        let latency = self.latency();
        let mut state = self.state();
        if state.lane(side.other()).end == Some(End::Reset) {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let lane = state.lane(side);
        if lane.shut {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let room = if room_for_all { bytes.len() } else { WINDOW_BYTES.saturating_sub(lane.held) };
        let count = room.min(bytes.len());
        if count == 0 && !bytes.is_empty() {
            lane.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        lane.held += count;
        lane.send(latency, Cargo::Bytes(bytes[..count].to_vec()));
        drop(state);
        self.moved(side).notify_one();
        Poll::Ready(Ok(count))
    }

    /// The end writes no more.
    pub(super) fn shut(&self, side: Side) {
        let latency = self.latency();
        let mut state = self.state();
        let lane = state.lane(side);
        if !std::mem::replace(&mut lane.shut, true) {
            lane.send(latency, Cargo::Fin);
        }
        drop(state);
        self.moved(side).notify_one();
    }

    /// The end is gone: it neither writes nor reads. Repeating changes nothing.
    pub(super) fn close(&self, side: Side, how: Close) {
        let latency = self.latency();
        let mut state = self.state();
        let incoming = state.lane(side.other());
        if std::mem::replace(&mut incoming.deaf, true) {
            return;
        }
        let unread = incoming.landed.len();
        incoming.landed.clear();
        incoming.held -= unread;
        wake(&mut incoming.writer);
        let lane = state.lane(side);
        let was_shut = std::mem::replace(&mut lane.shut, true);
        if how == Close::Abort {
            lane.ground();
        }
        // A kernel that throws away what nobody read says so by a reset (RFC 1122 §4.2.2.13).
        if how != Close::Orderly || unread > 0 {
            lane.send(latency, Cargo::Reset);
        } else if !was_shut {
            lane.send(latency, Cargo::Fin);
        }
        drop(state);
        self.client_moved.notify_one();
        self.server_moved.notify_one();
    }

    /// Breaks it now, at both ends; what flies is lost. `unread`: so is what has landed.
    pub(super) fn reset(&self, unread: Close) {
        let mut state = self.state();
        for side in [Side::Client, Side::Server] {
            let lane = state.lane(side);
            lane.ground();
            if unread == Close::Abort {
                lane.held = 0;
                lane.landed.clear();
            }
            lane.end = Some(End::Reset);
            wake(&mut lane.reader);
            wake(&mut lane.writer);
        }
        drop(state);
        self.client_moved.notify_one();
        self.server_moved.notify_one();
    }

    /// Lands what one side wrote, each at its time, as the weather lets it.
    async fn move_lane(self: Arc<Self>, side: Side) {
        loop {
            let next = {
                let mut state = self.state();
                let both_gone = state.client.deaf && state.server.deaf;
                let lane = state.lane(side);
                match lane.flying.front() {
                    Some((at, _)) => Some(*at),
                    None if both_gone || lane.end == Some(End::Reset) => return,
                    None => None,
                }
            };
            match next {
                None => self.moved(side).notified().await,
                Some(at) => {
                    sleep_until(at).await;
                    while self.is_cut_off() {
                        sleep(AGAIN).await;
                    }
                    if !self.land(side) {
                        return;
                    }
                }
            }
        }
    }

    /// False once nothing lands any more.
    fn land(&self, side: Side) -> bool {
        let (down, lost) = {
            let weather = self.service.weather();
            let lost = match side {
                Side::Client => weather.lost_calls,
                Side::Server => weather.lost_answers,
            };
            (weather.down, lost)
        };
        if self.state().silent {
            return false;
        }
        if down {
            self.told("a connection met nobody");
            self.reset(Close::Orderly);
            return false;
        }
        if self.world.happens(lost) {
            if self.world.happens(50.0) {
                self.told("a connection broke");
                self.reset(Close::Orderly);
            } else {
                self.told("a connection went silent");
                self.state().silent = true;
            }
            return false;
        }
        let latency = self.latency();
        let mut state = self.state();
        let lane = state.lane(side);
        // What was aborted meanwhile isn't there any more.
        let Some((_, cargo)) = lane.flying.pop_front_if(|(at, _)| *at <= Instant::now()) else { return true };
        match cargo {
            Cargo::Bytes(bytes) if lane.deaf => {
                lane.held -= bytes.len();
                // Nobody is there to read it, and the writer hears that.
                state.lane(side.other()).send(latency, Cargo::Reset);
                drop(state);
                self.moved(side.other()).notify_one();
            }
            Cargo::Bytes(bytes) => {
                self.note(side, &bytes);
                lane.landed.extend(bytes);
                wake(&mut lane.reader);
            }
            Cargo::Fin => {
                lane.end.get_or_insert(End::Fin);
                wake(&mut lane.reader);
            }
            Cargo::Reset => {
                lane.end = Some(End::Reset);
                wake(&mut lane.reader);
                let back = state.lane(side.other());
                back.ground();
                wake(&mut back.writer);
            }
        }
        true
    }

    fn is_cut_off(&self) -> bool {
        self.service.weather().cut_off.contains(self.process.name())
    }

    fn latency(&self) -> Duration {
        let (from, to) = self.service.weather().latency;
        self.world.between(from, to)
    }

    fn moved(&self, side: Side) -> &Notify {
        match side {
            Side::Client => &self.client_moved,
            Side::Server => &self.server_moved,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    fn told(&self, what: &str) {
        self.world.count(&format!("{what}: {}", self.service.name()));
        self.world.note(&format!("{} {}: {what}", self.process.name(), self.service.name()));
    }

    /// The verb or the code alone: addresses and content stay out of a trace.
    fn note(&self, side: Side, bytes: &[u8]) {
        let word: String = bytes.iter().take(4).take_while(|b| b.is_ascii_alphanumeric()).map(|b| char::from(*b)).collect();
        let (from, to) = match side {
            Side::Client => (self.process.name(), self.service.name()),
            Side::Server => (self.service.name(), self.process.name()),
        };
        self.world.note(&format!("{from} -> {to}: {word} ({} bytes)", bytes.len()));
    }
}

impl Lane {
    fn send(&mut self, latency: Duration, cargo: Cargo) {
        let earliest = self.flying.back().map_or_else(Instant::now, |(at, _)| *at);
        self.flying.push_back(((Instant::now() + latency).max(earliest), cargo));
    }

    /// What flies never lands.
    fn ground(&mut self) {
        for (_, cargo) in self.flying.drain(..) {
            match cargo {
                Cargo::Bytes(bytes) => self.held -= bytes.len(),
                Cargo::Fin | Cargo::Reset => {}
            }
        }
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
