//! Calls while nothing else goes to the executor.

use super::remote::Remote;
use crate::call::ToSessionEnd;
use crate::call::contract::Remote as Contract;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sps;
use crate::transport::Incoming;

impl Remote {
    /// Calls a function of the contract on the only lane, while no other thread calls and no message is sent. The function returns why it
    /// does nothing.
    ///
    /// # Errors
    ///
    /// That reason; when there are other lanes, a call is under way, or the executor has ended.
    pub(crate) fn ask_alone<C: Contract<Ret = Option<String>>>(
        &self,
        args: &C::Args,
    ) -> Result<()> {
        self.settle()?;
        let (function, args) = (self.function::<C>()?, sps::to_bytes(args));
        let (lanes, callbacks) = (self.opener().lanes(), &**self.opener().callbacks());
        let outcome = self.opener().while_silent(|| {
            if !self.grace_period().is_over() || lanes.finishes() || !lanes.posts.are_settled() {
                return Err(Error::invalid("a call is under way"));
            }
            lanes.with_only(|end| {
                let take = |answer: &Incoming| {
                    sps::from_bytes::<Option<String>>(&answer.payload().bytes())
                };
                end.call(callbacks, ToSessionEnd, function.get(), &args, take)
            })
        });
        match outcome.map_err(|error| self.explain(error, Deadline::SESSION_END))? {
            Ok(None) => Ok(()),
            Ok(Some(why)) => Err(Error::invalid(why)),
            Err(error) => Err(error.during(format_args!("result of {}", C::NAME))),
        }
    }
}
