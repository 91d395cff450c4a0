//! The running tasks by thread, and which of them wait in a shutdown for the others.

/// One entry for each task that runs. A task that runs inside of another one, on the same thread, has one too.
#[derive(Debug)]
pub(super) struct Running<T>(Vec<(T, Way)>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Running,
    /// True when the task is or was in a shutdown.
    Leaving,
}

impl<T: Copy + PartialEq> Running<T> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// How many tasks run.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn threads(&self) -> Vec<T> {
        self.0.iter().map(|(thread, _)| *thread).collect()
    }

    pub(super) fn begin(&mut self, thread: T) {
        self.0.push((thread, Way::Running));
    }

    /// Removes the task that `thread` began last.
    pub(super) fn end(&mut self, thread: T) {
        if let Some(at) = self.0.iter().rposition(|(other, _)| *other == thread) {
            self.0.remove(at);
        }
    }

    /// A shutdown on `thread` waits for no task of that thread from now on; false when there is none.
    pub(super) fn leave(&mut self, thread: T) -> bool {
        let own = self.0.iter_mut().filter(|(other, _)| *other == thread);
        own.map(|(_, way)| *way = Way::Leaving).count() > 0
    }

    /// True when all tasks that still run are in a shutdown.
    pub(super) fn all_leave(&self) -> bool {
        self.0.iter().all(|(_, way)| *way == Way::Leaving)
    }
}
