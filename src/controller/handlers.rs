//! What linked code can call in the controller.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::call::{Handler, LaneEnd, Lanes};
use crate::error::{Result, panicked};
use crate::sync::{AtomicU64, Ordering};
use crate::transport::{Lane, Payload};

/// The name of a handler in calls from the executor: a number that means nothing anywhere else, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandlerTag(u64);

impl HandlerTag {
    /// The number to pass to linked code, for `farcall_call_controller`.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

type Function =
    dyn Fn(&[u8], &mut Vec<u8>) -> std::result::Result<(), String> + Send + Sync + 'static;

/// Handlers in the order of their tags.
type Table = Vec<(u64, Arc<Function>)>;

/// The registered handlers of a session.
pub(super) struct Handlers {
    /// Replaced as a whole, so that a call reads it without a lock.
    table: ArcSwap<Table>,
    /// Held by who replaces it.
    replacing: Mutex<()>,
    last: AtomicU64,
    lanes: Arc<Lanes>,
}

impl Handlers {
    pub(super) fn new(lanes: Arc<Lanes>) -> Arc<Self> {
        Arc::new(Self {
            table: ArcSwap::default(),
            replacing: Mutex::default(),
            last: AtomicU64::new(0),
            lanes,
        })
    }

    pub(super) fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    pub(super) fn add(&self, function: Arc<Function>) -> HandlerTag {
        let mut tag = 0;
        self.replace(|table| {
            tag = self.last.fetch_add(1, Ordering::Relaxed) + 1;
            table.push((tag, function));
        });
        HandlerTag(tag)
    }

    pub(super) fn remove(&self, tag: HandlerTag) {
        self.replace(|table| table.retain(|(other, _)| *other != tag.0));
    }

    fn replace(&self, change: impl FnOnce(&mut Table)) {
        let _turn = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = Table::clone(&self.table.load());
        change(&mut table);
        self.table.store(Arc::new(table));
    }
}

impl Handler<Lane> for Handlers {
    type Reply = Vec<u8>;

    fn handle(
        &self,
        target: u64,
        args: Payload<'_>,
        mut result: Vec<u8>,
    ) -> std::result::Result<Vec<u8>, String> {
        let table = self.table.load();
        let Ok(at) = table.binary_search_by_key(&target, |(tag, _)| *tag) else {
            return Err(format!("no handler is registered for tag {target:#x}"));
        };
        let function = &table[at].1;
        // A panic that went through the lane's own frames would leave the executor without an answer.
        let args = args.bytes();
        let outcome = catch_unwind(AssertUnwindSafe(|| function(&args, &mut result)));
        let outcome =
            outcome.unwrap_or_else(|panic| Err(format!("the handler {}", panicked(&*panic))));
        outcome.map(|()| result)
    }

    fn spare(reply: Vec<u8>) -> Option<Vec<u8>> {
        Some(reply)
    }

    #[inline]
    fn ahead(&self, end: &LaneEnd) -> Result<()> {
        self.lanes.go_ahead(end)
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers")
            .field("handlers", &self.table.load().len())
            .finish_non_exhaustive()
    }
}
