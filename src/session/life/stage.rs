//! The stages of a session's life as a pure state machine: it takes an event and returns what to do next.
//!
//! ```text
//! current/target      attach       detach              shut down           the access says it is disconnected
//! Start/none          connect      tear down           tear down           -
//! Start/Attached      refused      when connected      when connected      tear down
//! Attached/none       refused      disconnect          disconnect          tear down
//! Attached/Detached+  refused      in progress         raise the target    tear down
//! Detached/Detached   refused      in progress         raise the target    -
//! Detached/none       refused      reached             drain               -
//! Detached/Shutdown   refused      reached             in progress         -
//! Shutdown            refused      reached             reached             -
//! ```
//!
//! *when connected*: the target is raised, and `connected` continues. *in progress*: an earlier request leads there.
//!
//! Invariant: the current stage only grows, and so does the target until it is reached.

use crate::error::{Error, Result};

/// The stages of a session's life, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::session) enum Stage {
    Start,
    Attached,
    Detached,
    Shutdown,
}

/// The next work of the thread that caused the change, with no lock held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Next {
    Nothing,
    /// Ask the controller access to disconnect.
    Disconnect,
    /// The controller is gone: notify the disconnect handler, the services and the callbacks.
    TearDown {
        shutdown_requested: bool,
    },
    /// Wait for managed code to end, then shut the services down.
    Drain,
}

/// The current stage of a session, and its target.
#[derive(Debug, Clone, Copy)]
pub(in crate::session) struct Life {
    current: Stage,
    /// `None` while no change is in progress.
    target: Option<Stage>,
}

impl Life {
    pub(in crate::session) fn new() -> Self {
        Self { current: Stage::Start, target: None }
    }

    /// Starts to attach. [`Life::connected`] follows.
    ///
    /// # Errors
    ///
    /// If the session was attached before, or a detach or shutdown was requested.
    pub(in crate::session) fn attach(&mut self) -> Result<()> {
        match (self.current, self.target) {
            (Stage::Start, None) => {
                self.target = Some(Stage::Attached);
                Ok(())
            }
            (current, target) => {
                let target =
                    target.map_or(String::new(), |target| format!(" on the way to {target:?}"));
                Err(Error::invalid(format!(
                    "a session is attached once, before it is detached or shut down: this one is at {current:?}{target}"
                )))
            }
        }
    }

    /// The controller access has connected.
    pub(in crate::session) fn connected(&mut self) -> Next {
        if self.current >= Stage::Detached {
            return Next::Nothing;
        }
        self.current = Stage::Attached;
        if self.target == Some(Stage::Attached) {
            self.target = None;
            return Next::Nothing;
        }
        Next::Disconnect
    }

    /// A detach or shutdown is requested.
    pub(in crate::session) fn request(&mut self, goal: Stage) -> Next {
        if self.current >= goal {
            return Next::Nothing;
        }
        let before = self.target;
        self.target = before.max(Some(goal));
        match (self.current, before) {
            (_, Some(_)) | (Stage::Shutdown, None) => Next::Nothing,
            (Stage::Start, None) => self.disconnected(),
            (Stage::Attached, None) => Next::Disconnect,
            (Stage::Detached, None) => Next::Drain,
        }
    }

    /// The controller is gone.
    pub(in crate::session) fn disconnected(&mut self) -> Next {
        if self.current >= Stage::Detached {
            return Next::Nothing;
        }
        self.target = self.target.max(Some(Stage::Detached));
        self.current = Stage::Detached;
        Next::TearDown { shutdown_requested: self.target == Some(Stage::Shutdown) }
    }

    /// Every service is detached.
    pub(in crate::session) fn detached(&mut self) -> Next {
        if self.target == Some(Stage::Detached) {
            self.target = None;
            return Next::Nothing;
        }
        Next::Drain
    }

    /// No managed code runs any more, and none will.
    pub(in crate::session) fn drained(&mut self) {
        self.current = Stage::Shutdown;
    }

    /// Every service is shut down.
    pub(in crate::session) fn finished(&mut self) {
        self.target = None;
    }

    /// True while calls may pass in both directions.
    pub(in crate::session) fn carries_calls(self) -> bool {
        match self.current {
            Stage::Start => self.target == Some(Stage::Attached),
            Stage::Attached => self.target.is_none(),
            Stage::Detached | Stage::Shutdown => false,
        }
    }

    /// The current stage.
    pub(in crate::session) fn current(self) -> Stage {
        self.current
    }

    /// True when the shutdown is complete.
    pub(in crate::session) fn is_over(self) -> bool {
        self.current == Stage::Shutdown && self.target.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event, from outside or as the result of an earlier one.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Event {
        Attach,
        Connected,
        Detach,
        ShutDown,
        Disconnected,
        Detached,
        Drained,
    }

    const EVENTS: [Event; 7] = [
        Event::Attach,
        Event::Connected,
        Event::Detach,
        Event::ShutDown,
        Event::Disconnected,
        Event::Detached,
        Event::Drained,
    ];

    /// A session, and what has been started and must end.
    #[derive(Debug, Clone, Copy)]
    struct World {
        life: Life,
        connecting: bool,
        access: bool,
        detaching: bool,
        draining: bool,
        disconnects: u32,
        tear_downs: u32,
        drains: u32,
        wants: Stage,
    }

    impl World {
        fn can(&self, event: Event) -> bool {
            match event {
                Event::Attach | Event::Detach | Event::ShutDown => true,
                Event::Connected => self.connecting,
                Event::Disconnected => self.access,
                Event::Detached => self.detaching,
                Event::Drained => self.draining,
            }
        }

        fn step(&mut self, event: Event) {
            let before = self.life;
            let next = match event {
                Event::Attach => {
                    if self.life.attach().is_ok() {
                        (self.connecting, self.access) = (true, true);
                    }
                    Next::Nothing
                }
                Event::Connected => {
                    self.connecting = false;
                    self.life.connected()
                }
                Event::Detach => {
                    self.wants = self.wants.max(Stage::Detached);
                    self.life.request(Stage::Detached)
                }
                Event::ShutDown => {
                    self.wants = Stage::Shutdown;
                    self.life.request(Stage::Shutdown)
                }
                Event::Disconnected => {
                    self.access = false;
                    self.wants = self.wants.max(Stage::Detached);
                    self.life.disconnected()
                }
                Event::Detached => {
                    self.detaching = false;
                    self.life.detached()
                }
                Event::Drained => {
                    self.draining = false;
                    self.life.drained();
                    self.life.finished();
                    Next::Nothing
                }
            };
            assert!(self.life.current >= before.current, "{before:?} {event:?} {self:?}");
            match next {
                Next::Nothing => {}
                Next::Disconnect => self.disconnects += 1,
                Next::TearDown { shutdown_requested } => {
                    assert_eq!(shutdown_requested, self.wants == Stage::Shutdown);
                    self.tear_downs += 1;
                    (self.detaching, self.access) = (true, false);
                }
                Next::Drain => {
                    self.drains += 1;
                    self.draining = true;
                }
            }
            assert!(self.disconnects <= 1 && self.tear_downs <= 1 && self.drains <= 1, "{self:?}");
            assert!(!self.life.carries_calls() || self.wants == Stage::Start, "{self:?}");
        }
    }

    fn explore(world: World, depth: u32, count: &mut u64) {
        *count += 1;
        let ends = !world.connecting && !world.access && !world.detaching && !world.draining;
        if ends {
            // Nothing is in progress: the requested stage has been reached.
            assert!(world.life.current >= world.wants, "{world:?}");
            assert_eq!(world.life.target, None, "{world:?}");
            assert_eq!(world.life.is_over(), world.wants == Stage::Shutdown, "{world:?}");
        }
        for event in EVENTS.into_iter().filter(|event| depth > 0 && world.can(*event)) {
            let mut next = world;
            next.step(event);
            explore(next, depth - 1, count);
        }
    }

    #[test]
    fn every_order_of_events_ends_where_it_was_asked_to() {
        let world = World {
            life: Life::new(),
            connecting: false,
            access: false,
            detaching: false,
            draining: false,
            disconnects: 0,
            tear_downs: 0,
            drains: 0,
            wants: Stage::Start,
        };
        let mut count = 0;
        explore(world, 9, &mut count);
        assert!(count > 100_000, "{count} orders");
        println!("life: {count} cases");
    }
}
