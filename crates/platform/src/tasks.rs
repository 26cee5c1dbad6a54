//! Where futures run: on tokio's scheduler, or on a simulator's, which knows whose they are.

use std::cell::RefCell;
use std::fmt::{self, Debug};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A future that a simulator's scheduler runs.
pub type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Ends a task where it waits. Does nothing to one that has ended.
pub type Abort = Arc<dyn Fn() + Send + Sync>;

/// A scheduler that is not tokio's, as one process sees it.
pub trait VirtualTasks: Debug + Send + Sync {
    /// Runs `future` as a part of that process.
    fn spawn(&self, future: TaskFuture) -> Abort;
}

/// Where futures run.
#[derive(Clone, Debug)]
pub enum Tasks {
    /// On a tokio runtime.
    Tokio(tokio::runtime::Handle),
    /// On a simulator's scheduler.
    Virtual(Arc<dyn VirtualTasks>),
}

/// A task that runs. Dropping it lets the task go on.
pub enum Task {
    /// One of tokio's.
    Tokio(tokio::task::AbortHandle),
    /// A simulator's.
    Virtual(Abort),
}

impl Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tokio(_) => "Task::Tokio",
            Self::Virtual(_) => "Task::Virtual",
        })
    }
}

impl Task {
    /// Ends it where it waits.
    pub fn abort(&self) {
        match self {
            Self::Tokio(task) => task.abort(),
            Self::Virtual(abort) => abort(),
        }
    }
}

thread_local! {
    /// The simulated process of which a step runs on this thread.
    static CURRENT: RefCell<Option<Arc<dyn VirtualTasks>>> = const { RefCell::new(None) };
}

impl Tasks {
    /// Where the task runs that asks.
    ///
    /// # Panics
    /// Outside of any task and runtime.
    #[must_use]
    pub fn current() -> Self {
        CURRENT
            .with_borrow(Clone::clone)
            .map_or_else(|| Self::Tokio(tokio::runtime::Handle::current()), Self::Virtual)
    }

    /// Runs `future`.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task {
        match self {
            Self::Tokio(runtime) => Task::Tokio(runtime.spawn(future).abort_handle()),
            Self::Virtual(tasks) => Task::Virtual(tasks.spawn(Box::pin(future))),
        }
    }
}

/// Runs `future` where the task runs that asks.
///
/// # Panics
/// Outside of any task and runtime.
pub fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Task {
    Tasks::current().spawn(future)
}

/// For the time of `step` this thread runs a task of the process whose tasks are `tasks`. For simulators.
pub fn within<T>(tasks: Arc<dyn VirtualTasks>, step: impl FnOnce() -> T) -> T {
    struct Restore(Option<Arc<dyn VirtualTasks>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _restore = Restore(CURRENT.replace(Some(tasks)));
    step()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Debug, Default)]
    struct Counted(AtomicUsize);

    impl VirtualTasks for Counted {
        fn spawn(&self, _future: TaskFuture) -> Abort {
            self.0.fetch_add(1, Ordering::Relaxed);
            Arc::new(|| {})
        }
    }

    #[test]
    fn what_a_step_spawns_belongs_to_the_process_of_the_step() {
        let (one, two) = (Arc::new(Counted::default()), Arc::new(Counted::default()));
        within(Arc::clone(&one) as _, || {
            spawn(async {});
            within(Arc::clone(&two) as _, || spawn(async {}));
            spawn(async {});
        });
        assert_eq!((one.0.load(Ordering::Relaxed), two.0.load(Ordering::Relaxed)), (2, 1));
        assert!(std::panic::catch_unwind(|| spawn(async {})).is_err(), "nobody's step");
    }
}
