//! Breadth first, every interleaving: states by a 128-bit fingerprint, parents for the shortest trace, edges for the way back from the ends.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::config::Config;
use crate::moves::Moves;
use crate::real::Real;
use crate::rules::{BROKEN, STUCK};
use crate::seen::Seen;
use crate::world::World;

/// What a run found.
pub struct Found {
    pub states: usize,
    pub steps: u64,
    pub depth: usize,
    /// Whether every state was reached.
    pub complete: bool,
    /// Broken invariants and the shortest trace to each.
    pub broken: BTreeMap<&'static str, String>,
    pub seen: Seen,
}

/// Fingerprints and the number of each state; open addressing.
struct Table {
    prints: Vec<u128>,
    numbers: Vec<u32>,
    filled: usize,
}

impl Table {
    fn new(bits: u32) -> Self {
        Self { prints: vec![0; 1 << bits], numbers: vec![0; 1 << bits], filled: 0 }
    }

    /// The number of a state, and whether it is new.
    fn number(&mut self, print: u128, number: u32) -> (u32, bool) {
        if self.filled * 4 > self.prints.len() * 3 {
            self.grow();
        }
        let place = self.place(print);
        if self.prints[place] == print {
            return (self.numbers[place], false);
        }
        (self.prints[place], self.numbers[place]) = (print, number);
        self.filled += 1;
        (number, true)
    }

    fn place(&self, print: u128) -> usize {
        let mask = self.prints.len() - 1;
        let mut place = print as usize & mask;
        while self.prints[place] != 0 && self.prints[place] != print {
            place = (place + 1) & mask;
        }
        place
    }

    fn grow(&mut self) {
        let mut larger = Self { prints: vec![0; self.prints.len() * 2], numbers: vec![0; self.prints.len() * 2], filled: self.filled };
        for (print, number) in self.prints.iter().zip(&self.numbers).filter(|(print, _)| **print != 0) {
            let place = larger.place(*print);
            (larger.prints[place], larger.numbers[place]) = (*print, *number);
        }
        *self = larger;
    }
}

/// Two lanes of multiply and rotate, mixed at the end; never 0.
fn print(world: &World) -> u128 {
    let (mut a, mut b) = (0x243f_6a88_85a3_08d3_u64, 0x1319_8a2e_0370_7344_u64);
    for word in world.words() {
        a = (a.rotate_left(25) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        b = (b.rotate_left(31) ^ word ^ (a >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    let mix = |mut h: u64| {
        h = (h ^ (h >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        h = (h ^ (h >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
        h ^ (h >> 32)
    };
    (u128::from(mix(a)) << 64 | u128::from(mix(b))) | 1
}

/// The search's memory.
struct Search {
    real: Real,
    table: Table,
    /// Of each state: who it was reached from, and by which of its moves.
    parents: Vec<(u32, u16)>,
    /// Where the fault-free moves of each state lead.
    edges: Vec<u32>,
    offsets: Vec<usize>,
    ends: Vec<u32>,
    found: BTreeMap<u32, u32>,
    steps: u64,
}

/// Explores a configuration whole, or until its bound; with a plant, until something is broken.
pub fn explore(config: Config) -> Found {
    let mut real = Real::new(config);
    let first = real.first_world();
    let mut search = Search {
        real,
        table: Table::new(16),
        parents: vec![(0, 0)],
        edges: Vec::new(),
        offsets: vec![0],
        ends: Vec::new(),
        found: BTreeMap::new(),
        steps: 0,
    };
    search.table.number(print(&first), 0);
    let (mut layer, mut depth, mut complete) = (vec![(0, first)], 0, true);
    while !layer.is_empty() {
        let mut next = Vec::new();
        for (number, world) in &layer {
            search.expand(*number, world, &mut next);
        }
        (layer, depth) = (next, depth + 1);
        if config.states_max.is_some_and(|most| search.parents.len() > most) || (config.plant.is_some() && !search.found.is_empty()) {
            complete = false;
            break;
        }
    }
    search.report(&first, depth, complete)
}

impl Search {
    fn expand(&mut self, number: u32, world: &World, next: &mut Vec<(u32, World)>) {
        let moves = Moves::of(&mut self.real, world, false);
        if self.real.ended(world) || world.bad != 0 {
            self.ends.push(number);
        }
        for (n, (after, fault)) in moves.out.into_iter().enumerate() {
            self.steps += 1;
            let fresh = u32::try_from(self.parents.len()).expect("fewer than four thousand million states");
            let (known, new) = self.table.number(print(&after), fresh);
            if new {
                self.parents.push((number, u16::try_from(n).expect("few moves")));
                if after.bad != 0 {
                    self.found.entry(after.bad).or_insert(fresh);
                }
                next.push((fresh, after));
            }
            if !fault {
                self.edges.push(known);
            }
        }
        self.offsets.push(self.edges.len());
    }

    fn report(mut self, first: &World, depth: usize, complete: bool) -> Found {
        let mut broken = BTreeMap::new();
        let mut by_depth: Vec<(u32, u32)> = self.found.iter().map(|(bad, number)| (*number, *bad)).collect();
        by_depth.sort_unstable();
        for (number, bad) in by_depth {
            let trace = self.trace(first, number);
            for (_, name) in BROKEN.iter().enumerate().filter(|(n, _)| bad >> n & 1 == 1) {
                broken.entry(*name).or_insert_with(|| trace.clone());
            }
        }
        if complete && let Some(stuck) = self.stuck() {
            let trace = self.trace(first, stuck);
            broken.entry(STUCK).or_insert(trace);
        }
        Found { states: self.parents.len(), steps: self.steps, depth, complete, broken, seen: self.real.seen }
    }

    /// The first state from which no end can be reached without a fault: backwards from the ends.
    fn stuck(&self) -> Option<u32> {
        let states = self.parents.len();
        let mut heads = vec![0_usize; states + 1];
        for to in &self.edges {
            heads[*to as usize + 1] += 1;
        }
        for n in 0..states {
            heads[n + 1] += heads[n];
        }
        let mut from = vec![0_u32; self.edges.len()];
        let mut filled = heads.clone();
        for n in 0..states {
            for to in &self.edges[self.offsets[n]..self.offsets[n + 1]] {
                from[filled[*to as usize]] = n as u32;
                filled[*to as usize] += 1;
            }
        }
        let (mut good, mut open) = (vec![false; states], self.ends.clone());
        open.iter().for_each(|n| good[*n as usize] = true);
        while let Some(to) = open.pop() {
            for n in &from[heads[to as usize]..heads[to as usize + 1]] {
                if !std::mem::replace(&mut good[*n as usize], true) {
                    open.push(*n);
                }
            }
        }
        good.iter().position(|good| !good).map(|n| n as u32)
    }

    /// The moves from the beginning to a state, a line each, and how the world stands then.
    fn trace(&mut self, first: &World, number: u32) -> String {
        let mut path = Vec::new();
        let mut at = number;
        while at != 0 {
            let (from, by) = self.parents[at as usize];
            path.push(by);
            at = from;
        }
        let (mut world, mut text) = (*first, String::new());
        for by in path.into_iter().rev() {
            let moves = Moves::of(&mut self.real, &world, true);
            let _written = writeln!(text, "    {}", moves.names[by as usize]);
            world = moves.out[by as usize].0;
        }
        let _written = write!(text, "    = {}", self.real.describe(&world));
        text
    }
}
