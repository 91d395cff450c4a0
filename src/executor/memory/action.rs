//! Allocation actions: finalize actions run when memory is initialized, dealloc actions when it is deinitialized.

use crate::call::contract::Action;
use crate::error::{Error, Result};
use crate::executor::entry::wrapper;
use crate::sps::{self, Encode, Status};
use crate::transport::Payload;

/// Runs the finalize actions of `pairs` in order, and returns the dealloc actions in the same order.
///
/// A null action is skipped.
///
/// # Errors
///
/// If a finalize action fails. The dealloc actions of the pairs before it have run then, the last first. The
/// failed pair's action has not. The message includes their failures.
pub(crate) fn finalize(pairs: Vec<(Action, Action)>) -> Result<Vec<Action>> {
    let mut undo = Vec::new();
    for (number, (finalize, dealloc)) in pairs.into_iter().enumerate() {
        if let Err(error) = run(&finalize) {
            let mut message = format!("finalize action {number} failed: {error}");
            for failure in self::dealloc(undo) {
                message = format!("{message}; undoing: {failure}");
            }
            return Err(Error::remote(message));
        }
        if !dealloc.0.is_null() {
            undo.push(dealloc);
        }
    }
    Ok(undo)
}

/// Runs all of `actions`, the last first, and returns the messages of those that failed.
pub(crate) fn dealloc(actions: Vec<Action>) -> Vec<String> {
    let last_first = actions.iter().enumerate().rev();
    let failure = |(number, action)| match run(action) {
        Ok(()) => None,
        Err(error) => Some(format!("dealloc action {number} failed: {error}")),
    };
    last_first.filter_map(failure).collect()
}

/// Runs an action unless it is null. It fails out of band, or with the bytes of an `SPSError` as actions for LLVM 22
/// do; any other answer is success.
fn run((function, args): &Action) -> std::result::Result<(), String> {
    if function.is_null() {
        return Ok(());
    }
    let answer = wrapper::call(function.get(), Payload::Own(&args.0))?;
    let answer = answer.as_ref();
    match sps::from_bytes::<Status>(answer) {
        Ok(status) if status.encoded_bytes() == answer.len() => status.0,
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::ExecutorAddr;
    use crate::call::contract::Remote;
    use crate::executor::entry::wrapper::{Serve, offer};
    use crate::sps::Bytes;

    thread_local! {
        static LOG: RefCell<Vec<(u32, String)>> = const { RefCell::new(Vec::new()) };
    }

    /// Records its arguments; fails if the text is `fail`.
    enum Note {}

    impl Remote for Note {
        type Args = (u32, String);
        type Ret = ();
        const NAME: &'static str = "note";
    }

    impl Serve for Note {
        fn serve((number, text): (u32, String)) -> Result<()> {
            LOG.with_borrow_mut(|log| log.push((number, text.clone())));
            if text == "fail" { Err(Error::remote(format!("{number} fails"))) } else { Ok(()) }
        }
    }

    /// Answers with the given `SPSError`, as actions for LLVM 22 do.
    enum Answer {}

    impl Remote for Answer {
        type Args = (Status,);
        type Ret = Status;
        const NAME: &'static str = "answer";
    }

    impl Serve for Answer {
        fn serve((status,): (Status,)) -> Result<Status> {
            Ok(status)
        }
    }

    /// Answers with the given bytes.
    enum Echo {}

    impl Remote for Echo {
        type Args = (Bytes,);
        type Ret = Bytes;
        const NAME: &'static str = "echo";
    }

    impl Serve for Echo {
        fn serve((bytes,): (Bytes,)) -> Result<Bytes> {
            Ok(bytes)
        }
    }

    fn action<R: Serve>(args: &R::Args) -> Action {
        (offer::<R>().1, Bytes(sps::to_bytes(args)))
    }

    fn note(number: u32) -> Action {
        action::<Note>(&(number, String::new()))
    }

    fn failing(number: u32) -> Action {
        action::<Note>(&(number, "fail".to_owned()))
    }

    fn noted() -> Vec<u32> {
        LOG.take().into_iter().map(|(number, _)| number).collect()
    }

    // AllocActionTest

    #[test]
    fn default_construct() {
        let (function, args) = Action::default();
        assert!(function.is_null() && args.0.is_empty());
        assert_eq!(run(&Action::default()), Ok(()), "no action is no failure");
    }

    #[test]
    fn construct_with_action() {
        let (function, args) = note(7);
        assert!(!function.is_null());
        assert_eq!(args.0.len(), 4 + 8);
    }

    #[test]
    fn run_basic_action() {
        let action = action::<Note>(&(3, "text".to_owned()));
        assert_eq!(run(&action), Ok(()));
        assert_eq!(LOG.take(), [(3, "text".to_owned())]);
    }

    #[test]
    fn run_finalization_actions_complete() {
        let kept = finalize((1..=3).map(|n| (note(n), note(n + 10))).collect()).expect("finalized");
        assert_eq!(noted(), [1, 2, 3]);
        assert_eq!(dealloc(kept), [""; 0]);
        assert_eq!(noted(), [13, 12, 11]);
    }

    #[test]
    fn run_finalize_actions_fail() {
        let pairs = vec![
            (note(1), note(11)),
            (note(2), note(12)),
            (failing(3), note(13)),
            (note(4), note(14)),
        ];
        let error = finalize(pairs).expect_err("3 fails").to_string();
        assert!(error.contains("finalize action 2 failed: note: 3 fails"), "{error}");
        assert_eq!(noted(), [1, 2, 3, 12, 11], "only the earlier ones are undone, in reverse");
    }

    #[test]
    fn run_finalize_actions_null_finalize() {
        let pairs = vec![(Action::default(), note(11)), (note(2), note(12))];
        let kept = finalize(pairs).expect("finalized");
        assert_eq!((kept.len(), noted()), (2, vec![2]));
        assert_eq!(dealloc(kept), [""; 0]);
        assert_eq!(noted(), [12, 11]);
    }

    #[test]
    fn run_finalize_actions_null_dealloc() {
        let pairs = vec![(note(1), Action::default()), (note(2), note(12))];
        let kept = finalize(pairs).expect("finalized");
        assert_eq!((kept.len(), noted()), (1, vec![1, 2]));
        assert_eq!(dealloc(kept), [""; 0]);
        assert_eq!(noted(), [12]);
    }

    #[test]
    fn run_dealloc_actions_reports_error() {
        let failures = dealloc(vec![note(1), failing(2), note(3)]);
        assert_eq!(failures, ["dealloc action 1 failed: note: 2 fails"]);
        assert_eq!(noted(), [3, 2, 1], "a failure stops nothing");
    }

    #[test]
    fn run_dealloc_actions_reports_all_errors() {
        let failures = dealloc(vec![failing(1), note(2), failing(3)]);
        assert_eq!(failures.len(), 2);
        assert!(failures[0].contains("3 fails") && failures[1].contains("1 fails"), "{failures:?}");
    }

    #[test]
    fn run_finalize_actions_fail_reports_cleanup_errors() {
        let pairs = vec![(note(1), failing(11)), (note(2), failing(12)), (failing(3), note(13))];
        let error = finalize(pairs).expect_err("3 fails").to_string();
        for part in ["3 fails", "11 fails", "12 fails"] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    // SPSAllocActionTest

    #[test]
    fn alloc_action_serialization() {
        let action: Action = (ExecutorAddr::new(0x0102), Bytes(vec![7, 8]));
        let bytes = sps::to_bytes(&action);
        assert_eq!(bytes[..16], [2, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..], [7, 8]);
        assert_eq!(sps::from_bytes::<Action>(&bytes).expect("decodes"), action);
    }

    #[test]
    fn alloc_action_pair_serialization() {
        let pair: (Action, Action) = (note(1), note(2));
        let bytes = sps::to_bytes(&pair);
        assert_eq!(bytes, [sps::to_bytes(&pair.0), sps::to_bytes(&pair.1)].concat());
        assert_eq!(sps::from_bytes::<(Action, Action)>(&bytes).expect("decodes"), pair);
    }

    #[test]
    fn run_action_with_error_success_return() {
        assert_eq!(run(&action::<Answer>(&(Status(Ok(())),))), Ok(()));
        assert_eq!(run(&note(1)), Ok(()));
    }

    #[test]
    fn run_action_with_error_failure_return() {
        assert_eq!(run(&failing(1)), Err("note: 1 fails".to_owned()));
        let no = action::<Answer>(&(Status(Err("no".to_owned())),));
        assert_eq!(run(&no), Err("no".to_owned()), "LLVM 22's convention");
    }

    #[test]
    fn run_action_with_sps_args_and_wfb_return() {
        for answer in [vec![], vec![1], vec![1; 40]] {
            assert_eq!(run(&action::<Echo>(&(Bytes(answer),))), Ok(()), "an answer is success");
        }
    }

    #[test]
    fn run_action_with_undecodable_args() {
        let mut bad = note(1);
        bad.1.0.truncate(3);
        let error = run(&bad).expect_err("undecodable");
        assert!(error.contains("ends too soon"), "{error}");
        assert_eq!(noted(), [0; 0], "it did not run");
    }
}
