//! Deadlines of waiting requests: one hierarchical timer wheel per reactor, 1 ms a tick.
//!
//! Scheduling and cancelling cost O(1) and no task; a waiting fetch is one entry. An entry fires on
//! the reactor on which it was scheduled (from other threads: on the first), never before its
//! deadline and at most one tick and one turn after it.

use crate::inbox::Inbox;
use model::Instant;
use parking_lot::Mutex;
use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Schedules callbacks.
#[derive(Debug)]
pub struct TimerService {
    wheels: Vec<ReactorWheel>,
}

#[derive(Debug, Default)]
struct ReactorWheel {
    wheel: Mutex<Wheel>,
    /// Woken when an entry is due before the reactor meant to get up.
    inbox: OnceLock<Arc<Inbox>>,
}

/// Names a scheduled callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId {
    wheel: u16,
    entry: u32,
    generation: u32,
}

thread_local! {
    /// The reactor that runs on this thread.
    static REACTOR: Cell<Option<u16>> = const { Cell::new(None) };
}

impl TimerService {
    /// Wheels for `reactors` reactors; at least one.
    #[must_use]
    pub fn new(reactors: usize) -> Self {
        Self { wheels: (0..reactors.max(1)).map(|_| ReactorWheel::default()).collect() }
    }

    /// Calls `callback` when `deadline` has passed.
    pub fn schedule(&self, deadline: Instant, callback: impl FnOnce() + Send + 'static) -> TimerId {
        let own = REACTOR.get();
        let wheel = own.filter(|&at| usize::from(at) < self.wheels.len()).unwrap_or(0);
        let ReactorWheel { wheel: timers, inbox } = &self.wheels[usize::from(wheel)];
        let (entry, generation) =
            timers.lock().insert(tick_at_or_after(deadline), Box::new(callback));
        if own.is_none()
            && let Some(inbox) = inbox.get()
        {
            inbox.wake();
        }
        TimerId { wheel, entry, generation }
    }

    /// Drops a callback that has not been called yet. Returns whether it was in time.
    pub fn cancel(&self, id: TimerId) -> bool {
        let callback =
            self.wheels[usize::from(id.wheel)].wheel.lock().remove(id.entry, id.generation);
        // Dropped outside of the lock: what it holds may have something to say when it goes.
        callback.is_some()
    }

    /// Says that this thread is reactor `index`, to be woken through `inbox`.
    pub(crate) fn attach(&self, index: u16, inbox: Arc<Inbox>) {
        REACTOR.set(Some(index));
        // Set once per reactor; a second start of the same index keeps the first inbox.
        drop(self.wheels[usize::from(index)].inbox.set(inbox));
    }

    /// Says that this thread is no reactor any more, or not for a while.
    pub(crate) fn detach() {
        REACTOR.set(None);
    }

    /// Calls what is due on wheel `index`. A simulator calls this for wheel 0.
    pub fn fire(&self, index: u16, now: Instant) {
        let mut due = Vec::new();
        self.wheels[usize::from(index)].wheel.lock().expire(tick_at_or_before(now), &mut due);
        for callback in due {
            callback();
        }
    }

    /// When to call [`TimerService::fire`] next for wheel `index`: at the latest time that makes
    /// nothing late, which may be before any entry is due.
    #[must_use]
    pub fn next_deadline(&self, index: u16) -> Option<Instant> {
        let tick = self.wheels[usize::from(index)].wheel.lock().next_tick()?;
        Some(Instant(Duration::from_millis(tick)))
    }
}

fn tick_at_or_after(at: Instant) -> u64 {
    u64::try_from(at.0.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn tick_at_or_before(at: Instant) -> u64 {
    u64::try_from(at.0.as_millis()).unwrap_or(u64::MAX)
}

type Callback = Box<dyn FnOnce() + Send>;

const LEVELS: usize = 6;
const SLOTS: usize = 64;
const NIL: u32 = u32::MAX;

/// Level `l` has 64 slots of `64^l` ticks. An entry is on the lowest level on which its tick and
/// `elapsed` fall into different slots, and moves down as `elapsed` comes nearer.
struct Wheel {
    elapsed: u64,
    /// One bit per slot that has entries.
    occupied: [u64; LEVELS],
    /// First entry of each slot's list.
    heads: [[u32; SLOTS]; LEVELS],
    entries: Vec<Entry>,
    free: Vec<u32>,
}

struct Entry {
    tick: u64,
    callback: Option<Callback>,
    /// Counts the uses of this place, so that an old [`TimerId`] names nothing.
    generation: u32,
    level: u8,
    slot: u8,
    next: u32,
    previous: u32,
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            elapsed: 0,
            occupied: [0; LEVELS],
            heads: [[NIL; SLOTS]; LEVELS],
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl Wheel {
    fn insert(&mut self, tick: u64, callback: Callback) -> (u32, u32) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry {
                tick: 0,
                callback: None,
                generation: 0,
                level: 0,
                slot: 0,
                next: NIL,
                previous: NIL,
            });
            u32::try_from(self.entries.len() - 1).expect("memory ends before 2^32 timers")
        });
        // What is due already fires with the next tick; what is too far away, as late as we can.
        let latest = self.elapsed + (1 << 36) - 1;
        let entry = &mut self.entries[at as usize];
        entry.tick = tick.clamp(self.elapsed + 1, latest);
        entry.callback = Some(callback);
        let generation = entry.generation;
        self.link(at);
        (at, generation)
    }

    fn remove(&mut self, at: u32, generation: u32) -> Option<Callback> {
        let entry = self.entries.get(at as usize)?;
        if entry.generation != generation || entry.callback.is_none() {
            return None;
        }
        self.unlink(at);
        self.release(at)
    }

    fn expire(&mut self, now: u64, due: &mut Vec<Callback>) {
        while let Some((level, slot, tick)) = self.next_slot() {
            if tick > now {
                break;
            }
            self.elapsed = self.elapsed.max(tick);
            let mut at = std::mem::replace(&mut self.heads[level][slot], NIL);
            self.occupied[level] &= !(1 << slot);
            while at != NIL {
                let next = self.entries[at as usize].next;
                if self.entries[at as usize].tick <= self.elapsed {
                    due.extend(self.release(at));
                } else {
                    self.link(at);
                }
                at = next;
            }
        }
        self.elapsed = self.elapsed.max(now);
    }

    fn next_tick(&self) -> Option<u64> {
        self.next_slot().map(|(_, _, tick)| tick)
    }

    /// The slot that comes first, and the tick at which it begins. Everything on a level is before
    /// everything on the levels above it.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        let shift = 6 * level;
        let current = (self.elapsed >> shift) & 63;
        let ahead = self.occupied[level].rotate_right(current as u32).trailing_zeros();
        let slot = (current + u64::from(ahead)) & 63;
        let mut tick = (self.elapsed >> (shift + 6) << (shift + 6)) + (slot << shift);
        if tick < self.elapsed {
            // Only the top level wraps.
            tick += 1 << (shift + 6);
        }
        Some((level, slot as usize, tick))
    }

    #[expect(clippy::cast_possible_truncation, reason = "slot numbers are below 64")]
    fn link(&mut self, at: u32) {
        let tick = self.entries[at as usize].tick;
        let differing = (self.elapsed ^ tick) | 63;
        let level = ((63 - differing.leading_zeros()) as usize / 6).min(LEVELS - 1);
        let slot = (tick >> (6 * level)) as usize & 63;
        let next = std::mem::replace(&mut self.heads[level][slot], at);
        self.occupied[level] |= 1 << slot;
        let entry = &mut self.entries[at as usize];
        (entry.level, entry.slot) = (level as u8, slot as u8);
        (entry.next, entry.previous) = (next, NIL);
        if next != NIL {
            self.entries[next as usize].previous = at;
        }
    }

    fn unlink(&mut self, at: u32) {
        let Entry { level, slot, next, previous, .. } = self.entries[at as usize];
        if previous == NIL {
            self.heads[usize::from(level)][usize::from(slot)] = next;
            if next == NIL {
                self.occupied[usize::from(level)] &= !(1 << slot);
            }
        } else {
            self.entries[previous as usize].next = next;
        }
        if next != NIL {
            self.entries[next as usize].previous = previous;
        }
    }

    /// Frees an entry that is in no list.
    fn release(&mut self, at: u32) -> Option<Callback> {
        let entry = &mut self.entries[at as usize];
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(at);
        entry.callback.take()
    }
}

impl fmt::Debug for Wheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("elapsed", &self.elapsed)
            .field("entries", &(self.entries.len() - self.free.len()))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::Random;
    use platform::random::SeededRandom;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn at(millis: u64) -> Instant {
        Instant(Duration::from_millis(millis))
    }

    #[test]
    fn every_timer_fires_once_at_its_tick_however_time_moves() {
        let (timers, random) = (TimerService::new(1), SeededRandom::new(7));
        let now = Arc::new(AtomicU64::new(0));
        let fired = Arc::new(AtomicU64::new(0));
        let mut pending = Vec::new();
        for round in 0..2_000 {
            let start = now.load(Ordering::SeqCst);
            let due = start + 1 + random.below(1 << random.below(24));
            let (clock, count) = (Arc::clone(&now), Arc::clone(&fired));
            let id = timers.schedule(at(due), move || {
                assert!(clock.load(Ordering::SeqCst) >= due, "never early");
                count.fetch_add(1, Ordering::SeqCst);
            });
            pending.push((due, id));
            if round % 3 == 0 {
                let index = usize::try_from(random.below(pending.len() as u64)).unwrap();
                let (_, id) = pending.swap_remove(index);
                assert!(timers.cancel(id));
                assert!(!timers.cancel(id), "only once");
            }
            let next = timers.next_deadline(0).map_or(start + 1, |next| {
                let next = u64::try_from(next.0.as_millis()).unwrap();
                assert!(pending.iter().all(|&(due, _)| due >= next), "nothing is late");
                next
            });
            let reached = if round % 5 == 0 { next + random.below(1_000) } else { next };
            now.store(reached.max(start), Ordering::SeqCst);
            let before = fired.load(Ordering::SeqCst);
            timers.fire(0, at(reached.max(start)));
            let expected = pending.iter().filter(|&&(due, _)| due <= reached).count();
            assert_eq!(fired.load(Ordering::SeqCst) - before, expected as u64, "all that is due");
            pending.retain(|&(due, _)| due > reached);
        }
    }

    #[test]
    fn a_timer_in_the_past_fires_with_the_next_tick() {
        let timers = TimerService::new(1);
        timers.fire(0, at(100));
        let fired = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&fired);
        timers.schedule(at(3), move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        timers.fire(0, at(101));
        assert_eq!(fired.load(Ordering::SeqCst), 1);
        assert_eq!(timers.next_deadline(0), None);
    }
}
