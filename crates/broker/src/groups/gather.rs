//! Requests that concern several groups: the answer is put together from as many shards.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// One place of a common answer; the last one to be filled gives it.
pub(crate) struct Slot<T> {
    index: usize,
    common: Arc<Mutex<Common<T>>>,
}

struct Common<T> {
    parts: Vec<Option<T>>,
    missing: usize,
    finish: Option<Finish<T>>,
}

type Finish<T> = Box<dyn FnOnce(Vec<T>) + Send>;

/// Makes `count` slots; `finish` gets what they are filled with, in their order. Without slots it gets nothing at once.
/// It is never called if a slot is dropped.
pub(crate) fn gather<T>(
    count: usize,
    finish: impl FnOnce(Vec<T>) + Send + 'static,
) -> Vec<Slot<T>> {
    if count == 0 {
        finish(Vec::new());
        return Vec::new();
    }
    let parts = std::iter::repeat_with(|| None).take(count).collect();
    let common =
        Arc::new(Mutex::new(Common { parts, missing: count, finish: Some(Box::new(finish)) }));
    (0..count).map(|index| Slot { index, common: Arc::clone(&common) }).collect()
}

impl<T> Slot<T> {
    /// Fills it.
    pub(crate) fn fill(self, part: T) {
        let mut common = self.common.lock();
        common.parts[self.index] = Some(part);
        common.missing -= 1;
        if common.missing == 0
            && let Some(finish) = common.finish.take()
        {
            let parts = common.parts.drain(..).flatten().collect();
            drop(common);
            finish(parts);
        }
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.index).finish()
    }
}

#[test]
fn the_last_part_gives_the_answer_in_the_order_of_the_request() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut slots = gather(3, move |parts| sender.send(parts).unwrap());
    slots.remove(2).fill("c");
    slots.remove(0).fill("a");
    assert!(receiver.try_recv().is_err());
    slots.remove(0).fill("b");
    assert_eq!(receiver.try_recv(), Ok(vec!["a", "b", "c"]));
}
