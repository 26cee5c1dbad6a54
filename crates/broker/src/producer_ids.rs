//! Ids for idempotent producers, from blocks that the controller hands out (KIP-98, KIP-730).
//!
//! Kafka's brokers ask for the next block when nine tenths of one are used, so that nobody waits; with
//! none left they answer COORDINATOR_LOAD_IN_PROGRESS and clients come again. What is left of a block
//! when the broker stops is lost.

use model::ProducerId;
use parking_lot::Mutex;
use std::fmt::Debug;
use std::sync::Arc;

/// Ids `first..first + count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProducerIdBlock {
    /// The first id.
    pub(crate) first: i64,
    /// How many.
    pub(crate) count: i64,
}

/// Asks the controller for blocks.
pub(crate) trait ProducerIdSource: Debug + Send + Sync {
    /// Asks for one block; `done` is called once, on any thread, with `None` if there is none for now.
    /// Must not block.
    fn request(&self, done: Box<dyn FnOnce(Option<ProducerIdBlock>) + Send>);
}

/// This broker's stock of ids.
#[derive(Clone, Debug)]
pub(crate) struct ProducerIds {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    source: Box<dyn ProducerIdSource>,
    stock: Mutex<Stock>,
}

#[derive(Debug, Default)]
struct Stock {
    current: Option<ProducerIdBlock>,
    next: Option<ProducerIdBlock>,
    /// The size of the last block, to know when nine tenths are used.
    size: i64,
    is_asking: bool,
    waiting: Vec<Waiter>,
}

type Done = Box<dyn FnOnce(Option<ProducerId>) + Send>;

struct Waiter(Done);

impl Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("waiter")
    }
}

impl ProducerIds {
    /// No ids yet; `source` is asked when the first is wanted.
    pub(crate) fn new(source: Box<dyn ProducerIdSource>) -> Self {
        Self { shared: Arc::new(Shared { source, stock: Mutex::default() }) }
    }

    /// Calls `done` with an id that nobody had before, or with `None` if the controller gives none.
    /// At once if there is one.
    pub(crate) fn next(&self, done: impl FnOnce(Option<ProducerId>) + Send + 'static) {
        let mut stock = self.shared.stock.lock();
        let id = stock.take();
        let wants_more = stock.next.is_none()
            && stock.current.is_none_or(|block| block.count <= stock.size / 10);
        let must_ask = wants_more && !stock.is_asking;
        stock.is_asking |= wants_more;
        if id.is_none() {
            stock.waiting.push(Waiter(Box::new(done)));
            drop(stock);
        } else {
            drop(stock);
            done(id);
        }
        if must_ask {
            self.ask();
        }
    }

    fn ask(&self) {
        let own = self.clone();
        self.shared.source.request(Box::new(move |block| own.received(block)));
    }

    fn received(&self, block: Option<ProducerIdBlock>) {
        let mut served = Vec::new();
        let must_ask = {
            let mut stock = self.shared.stock.lock();
            stock.is_asking = false;
            if let Some(block) = block.filter(|block| block.count > 0) {
                stock.size = block.count;
                stock.next = Some(block);
            }
            while let Some(Waiter(done)) = stock.waiting.pop() {
                match stock.take() {
                    Some(id) => served.push((done, Some(id))),
                    // Without a block everybody is sent away; with one too small, another is asked for.
                    None if block.is_none() => served.push((done, None)),
                    None => {
                        stock.waiting.push(Waiter(done));
                        break;
                    }
                }
            }
            let must_ask = !stock.waiting.is_empty();
            stock.is_asking = must_ask;
            must_ask
        };
        for (done, id) in served {
            done(id);
        }
        if must_ask {
            self.ask();
        }
    }
}

impl Stock {
    fn take(&mut self) -> Option<ProducerId> {
        if self.current.is_none() {
            self.current = self.next.take();
        }
        let block = self.current.as_mut()?;
        let id = block.first;
        (block.first, block.count) = (block.first + 1, block.count - 1);
        if block.count == 0 {
            self.current = None;
        }
        Some(ProducerId(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of ten, given when the test says so.
    #[derive(Debug, Default)]
    struct Controller(Mutex<Asked>);

    #[derive(Default)]
    struct Asked {
        next: i64,
        waiting: Vec<Box<dyn FnOnce(Option<ProducerIdBlock>) + Send>>,
    }

    impl Debug for Asked {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("asked")
        }
    }

    #[derive(Debug)]
    struct Source(Arc<Controller>);

    impl ProducerIdSource for Source {
        fn request(&self, done: Box<dyn FnOnce(Option<ProducerIdBlock>) + Send>) {
            self.0.0.lock().waiting.push(done);
        }
    }

    impl Controller {
        fn answer(&self, with: bool) -> usize {
            let waiting = std::mem::take(&mut self.0.lock().waiting);
            let count = waiting.len();
            for done in waiting {
                let block = with.then(|| {
                    let mut asked = self.0.lock();
                    asked.next += 10;
                    ProducerIdBlock { first: asked.next - 10, count: 10 }
                });
                done(block);
            }
            count
        }
    }

    fn take(ids: &ProducerIds, got: &Arc<Mutex<Vec<Option<i64>>>>) {
        let got = Arc::clone(got);
        ids.next(move |id| got.lock().push(id.map(|id| id.0)));
    }

    #[test]
    fn ids_follow_each_other_and_the_next_block_is_asked_for_in_time() {
        let controller = Arc::new(Controller::default());
        let ids = ProducerIds::new(Box::new(Source(Arc::clone(&controller))));
        let got = Arc::default();
        take(&ids, &got);
        take(&ids, &got);
        assert_eq!(controller.answer(true), 1, "one request for all who wait");
        assert_eq!(got.lock().len(), 2);
        for _ in 0..7 {
            take(&ids, &got);
        }
        assert_eq!(controller.answer(true), 1, "nine of ten are used");
        for _ in 0..5 {
            take(&ids, &got);
        }
        let mut all: Vec<_> = got.lock().iter().map(|id| id.unwrap()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..14).collect::<Vec<_>>());
    }

    #[test]
    fn without_a_block_everybody_is_sent_away_and_may_come_again() {
        let controller = Arc::new(Controller::default());
        let ids = ProducerIds::new(Box::new(Source(Arc::clone(&controller))));
        let got = Arc::default();
        take(&ids, &got);
        take(&ids, &got);
        controller.answer(false);
        assert_eq!(*got.lock(), [None, None]);
        take(&ids, &got);
        controller.answer(true);
        assert_eq!(got.lock().last(), Some(&Some(0)));
    }
}
