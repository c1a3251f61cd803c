//! Couriers: schedulers stage, release and settle, consumers record dead letters; each may sleep between any two of its steps.

use curfew_book::{BookState, Told};
use curfew_domain::State;

use super::{Moves, Swapped};
use crate::ask::Ask;
use crate::book::{Came, Entry};
use crate::config::Plant;
use crate::real::at;
use crate::world::{Courier, Errand, World};

/// Which courier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Who {
    Scheduler(usize),
    Consumer(usize),
    Operator,
}

impl Who {
    pub(super) fn of(self, world: &mut World) -> &mut Courier {
        match self {
            Who::Scheduler(n) => &mut world.schedulers[n],
            Who::Consumer(n) => &mut world.consumers[n],
            Who::Operator => &mut world.operator,
        }
    }

    pub(super) fn name(self) -> String {
        match self {
            Who::Scheduler(n) => format!("scheduler {n}"),
            Who::Consumer(n) => format!("consumer {n}"),
            Who::Operator => "the operator".to_owned(),
        }
    }
}

/// What a create found.
enum Created {
    Written,
    Exists,
    EarlierUnclosed,
    Refused(&'static str),
}

impl Moves<'_> {
    pub(super) fn couriers(&mut self) {
        (0..self.config.schedulers).for_each(|n| self.courier(Who::Scheduler(n)));
        (0..self.config.consumers).for_each(|n| self.courier(Who::Consumer(n)));
        self.courier(Who::Operator);
        let from = self.from;
        for j in (0..self.config.jobs).filter(|j| from.jobs[*j].wake) {
            let mut world = from;
            world.jobs[j].wake = false;
            self.fault(world, |_| format!("fault: the wake-up of job {j} is lost"));
        }
    }

    fn courier(&mut self, who: Who) {
        let me = *who.of(&mut self.from.clone());
        if me.errand == Errand::Idle {
            match who {
                Who::Scheduler(_) => (0..self.config.jobs).for_each(|j| self.scheduler_begins(who, j)),
                Who::Consumer(_) => (0..self.config.jobs).for_each(|j| self.reads(who, j, |state| state == State::DeadLetter)),
                Who::Operator => (0..self.config.jobs).for_each(|j| self.operator_begins(j)),
            }
            return;
        }
        if self.config.crashes {
            let mut world = self.from;
            *who.of(&mut world) = Courier::default();
            self.fault(world, |_| format!("fault: {} crashes", who.name()));
        }
        if me.incarnation != self.from.incarnation && !self.config.has(Plant::OldErrandsGoOn) {
            self.begins_anew(who, me);
            return;
        }
        match me.errand {
            Errand::Idle => {}
            Errand::Create => self.create_of(who, me),
            Errand::Mark => self.mark(who, me, Courier::default()),
            Errand::Tell => self.tell(who, me),
            Errand::Close => self.close(who, me),
            Errand::Publish => self.published(who, me),
            Errand::Look => self.look(who, me),
            Errand::StageFirst => self.stage_first(who, me),
            Errand::MarkFirst => self.mark(who, me, Courier { errand: Errand::Swap, ..me }),
            Errand::Swap => self.swap_verb(who, me),
            Errand::Apply => self.close_verb(who, me, Entry::Applied(me.verb, me.rec)),
            Errand::Refuse => self.close_verb(who, me, Entry::Refused(me.verb)),
            Errand::InBook => self.close_verb(who, me, Entry::InTheBook(me.verb)),
            Errand::Done => self.answered(who, me),
        }
    }

    /// An errand of an earlier incarnation is refused everywhere.
    fn begins_anew(&mut self, who: Who, me: Courier) {
        let mut world = self.from;
        let incarnation = world.incarnation;
        *who.of(&mut world) = match me.errand {
            Errand::Look | Errand::StageFirst | Errand::MarkFirst | Errand::Swap | Errand::Apply | Errand::Refuse | Errand::InBook => {
                Courier { errand: Errand::Look, job: me.job, verb: me.verb, incarnation, ..Courier::default() }
            }
            Errand::Done => Courier { incarnation, ..me },
            Errand::Idle | Errand::Create | Errand::Mark | Errand::Tell | Errand::Close | Errand::Publish => Courier::default(),
        };
        self.step(world, |_| format!("{}: its errand is of an earlier incarnation, it begins anew", who.name()));
    }

    pub(super) fn begin(&mut self, who: Who, courier: Courier, what: &'static str) {
        let mut world = self.from;
        *who.of(&mut world) = Courier { incarnation: world.incarnation, ..courier };
        self.step(world, |real| format!("{} {what} (job {}, {})", who.name(), courier.job, real.say(courier.rec)));
    }

    fn scheduler_begins(&mut self, who: Who, j: usize) {
        let (from, job) = (self.from, j as u8);
        let book = self.real.books.get(from.jobs[j].book);
        let (planned, generation, release_at) = (book.row.state == BookState::Planned, book.row.generation, book.row.job.release_at);
        let mut open = [0; 4];
        book.open_verbs().zip(&mut open).for_each(|(verb, place)| *place = verb);
        let near = !self.config.far || release_at <= at(from.tick);
        if planned && open[0] == 0 && near && self.works() {
            let rec = self.real.first(from.jobs[j].book);
            let rec = self.real.read_in(rec, from.incarnation);
            let generation = u8::try_from(generation).expect("few generations");
            self.begin(who, Courier { errand: Errand::Create, job, rec, generation, ..Courier::default() }, "reads a planned row");
        }
        self.reads(who, j, |state| matches!(state, State::Sent | State::Cancelled | State::Suppressed));
        for verb in open.into_iter().filter(|verb| *verb != 0) {
            self.begin(who, Courier { errand: Errand::Look, job, verb, ..Courier::default() }, "finds a verb that is open for 5 s");
        }
        let rec = from.jobs[j].rec;
        if self.config.messages && self.works() && self.real.waits(rec) {
            self.publish(who, j, rec);
        }
    }

    /// A release, or a repetition into silence.
    fn publish(&mut self, who: Who, j: usize, rec: u32) {
        let due = at(self.from.tick) >= self.real.rec(rec).due();
        let silent = self.real.state(rec) == State::Scheduled || !self.from.jobs[j].wake;
        if !due || !silent || self.asked(rec, Ask::Release).is_none() {
            return;
        }
        let mut world = self.from;
        world.jobs[j].wake = true;
        *who.of(&mut world) = Courier { errand: Errand::Publish, job: j as u8, rec, incarnation: world.incarnation, ..Courier::default() };
        self.step(world, |_| format!("{} publishes a wake-up of job {j}", who.name()));
    }

    fn published(&mut self, who: Who, me: Courier) {
        if !self.works() {
            return;
        }
        let (mut world, j) = (self.from, usize::from(me.job));
        let swapped = match self.asked(me.rec, Ask::Release) {
            Some(answer) => self.swap(&mut world, j, me.rec, answer) == Swapped::Written,
            None => false,
        };
        *who.of(&mut world) = Courier::default();
        self.step(world, |_| format!("{} swaps job {j} to queued: {}", who.name(), if swapped { "done" } else { "refused" }));
    }

    /// Reads an ended record, to carry its story into the book.
    fn reads(&mut self, who: Who, j: usize, wanted: impl Fn(State) -> bool) {
        let rec = self.from.jobs[j].rec;
        if self.real.is_live(rec) && wanted(self.real.state(rec)) && self.answers() {
            let rec = self.real.read_in(rec, self.from.incarnation);
            self.begin(who, Courier { errand: Errand::Tell, job: j as u8, rec, ..Courier::default() }, "reads an ended record");
        }
    }

    /// What the ledger's script says to a create.
    fn create(&mut self, world: &mut World, me: Courier) -> Created {
        let j = usize::from(me.job);
        if me.old && !self.config.has(Plant::NoReadAt) {
            return Created::Refused("the book read is older than 60 s");
        }
        if let Some(stands) = self.real.standing(world.jobs[j].rec) {
            let ours = u32::from(me.generation);
            if stands.generation > ours && !self.config.has(Plant::LowerGeneration) {
                return Created::Refused("a higher generation stands there");
            }
            if stands.generation == ours {
                return Created::Exists;
            }
            let recorded = stands.state == State::DeadLetter && stands.closed;
            if !recorded && !self.config.has(Plant::OverUnrecorded) && !self.config.has(Plant::LowerGeneration) {
                return Created::EarlierUnclosed;
            }
        }
        self.put(world, j, me.rec);
        world.jobs[j].wake = false;
        Created::Written
    }

    fn create_of(&mut self, who: Who, me: Courier) {
        if !self.works() {
            return;
        }
        let (mut world, j) = (self.from, usize::from(me.job));
        let created = self.create(&mut world, me);
        let stands = world.jobs[j].rec;
        let ended = stands != 0 && self.real.state(stands).is_terminal();
        let (next, what) = match created {
            Created::Written => (Courier { errand: Errand::Mark, ..me }, "written"),
            Created::Exists | Created::EarlierUnclosed if ended => {
                (Courier { errand: Errand::Tell, rec: stands, ..me }, "an ended one stands there, its story is told again")
            }
            Created::Exists => (Courier { errand: Errand::Mark, ..me }, "stands there"),
            Created::EarlierUnclosed => (Courier::default(), "an earlier generation isn't closed"),
            Created::Refused(why) => (Courier::default(), why),
        };
        *who.of(&mut world) = Courier { rec: if next.errand == Errand::Tell { next.rec } else { 0 }, ..next };
        self.step(world, |_| format!("{} creates job {j} g{}: {what}", who.name(), me.generation));
    }

    fn stage_first(&mut self, who: Who, me: Courier) {
        if !self.works() {
            return;
        }
        let (mut world, j) = (self.from, usize::from(me.job));
        let created = self.create(&mut world, me);
        let stands = world.jobs[j].rec;
        let live = stands != 0 && !self.real.state(stands).is_terminal();
        let errand = match created {
            Created::Written => Errand::MarkFirst,
            Created::Exists if live => Errand::MarkFirst,
            Created::Exists | Created::EarlierUnclosed | Created::Refused(_) => Errand::Swap,
        };
        *who.of(&mut world) = Courier { errand, rec: 0, before_end: false, old: false, ..me };
        self.step(world, |_| format!("{} stages job {j} g{} first", who.name(), me.generation));
    }

    fn mark(&mut self, who: Who, me: Courier, next: Courier) {
        let (mut world, j) = (self.from, usize::from(me.job));
        self.enter(&mut world, j, Entry::Mark(me.generation));
        *who.of(&mut world) = next;
        self.step(world, |_| format!("{} marks job {j} g{} staged", who.name(), me.generation));
    }

    fn tell(&mut self, who: Who, me: Courier) {
        let (mut world, j) = (self.from, usize::from(me.job));
        let came = self.enter(&mut world, j, Entry::Tell(me.rec));
        let leave = self.config.has(Plant::OlderStaysOpen) && came == Came::Told(Told::Older);
        *who.of(&mut world) = if leave { Courier::default() } else { Courier { errand: Errand::Close, ..me } };
        self.step(world, |real| format!("{} tells the book {}: {came:?}", who.name(), real.say(me.rec)));
    }

    fn close(&mut self, who: Who, me: Courier) {
        if !self.answers() {
            return;
        }
        let (mut world, j) = (self.from, usize::from(me.job));
        let closed = match self.asked(me.rec, Ask::Closed) {
            Some(answer) => self.swap(&mut world, j, me.rec, answer) == Swapped::Written,
            None => false,
        };
        *who.of(&mut world) = Courier::default();
        self.step(world, |real| format!("{} closes {}: {}", who.name(), real.say(me.rec), if closed { "done" } else { "refused" }));
    }
}
