//! The messages of the control socket, with their bytes.
//!
//! The socket joins a controller and its executor; another one joins it and a zygote. Both keep messages whole, so no message has a
//! length. A message is a letter, its numbers as little-endian words, and for some a text up to the end.
//!
//! The letter of the first message, and of last words, is the same in all versions, and the version follows it.
//!
//! Invariant: decoding takes any bytes, allocates a bounded text at most, and refuses what no encoder writes.

use std::fmt;

use super::hello::{Feature, Features, Hello};
use super::layout::VERSION;
use crate::addr::Prot;
use crate::error::{Error, Result};

/// Bytes of a text. Encoders cut a longer one off.
pub(crate) const TEXT_BYTES_MAX: usize = 1024;
/// Bytes of a message: a letter, two numbers, a text; or four numbers.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 + 2 * NUMBER_BYTES + TEXT_BYTES_MAX;

const NUMBER_BYTES: usize = size_of::<u64>();

/// The end of each error about a message.
const ADVICE: &str = "install controller and executor from one build, and let no other code write to the control socket";

/// The side that sends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    Controller,
    Executor,
    Zygote,
}

/// Facts about one kind of message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) letter: u8,
    pub(crate) name: &'static str,
    pub(crate) sender: Sender,
    /// The descriptors that travel with it.
    pub(crate) files: usize,
    /// The bytes of the letter and the numbers.
    pub(crate) bytes: usize,
    /// A text of up to [`TEXT_BYTES_MAX`] bytes follows.
    pub(crate) has_text: bool,
    /// The receiver may lack this, and then must not get the message.
    pub(crate) feature: Option<Feature>,
}

macro_rules! control_messages {
    (@feature) => { None };
    (@feature $feature:ident) => { Some(Feature::$feature) };
    (@form $letter:literal $name:ident $sender:ident $files:expr, ($($type:ty)*) ($($feature:ident)?)) => {
        Form {
            letter: $letter,
            name: stringify!($name),
            sender: Sender::$sender,
            files: $files,
            bytes: 1 $(+ <$type as Field>::BYTES)*,
            has_text: false $(|| <$type as Field>::IS_TEXT)*,
            feature: control_messages!(@feature $($feature)?),
        }
    };
    ($($(#[$doc:meta])* $letter:literal => $name:ident $({ $($field:ident: $type:ty),* })?,
        from $sender:ident, files $files:expr $(, needs $feature:ident)?;)*) => {
        /// A message of the control socket.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) enum ControlMessage {
            $($(#[$doc])* $name $({ $($field: $type),* })?,)*
        }

        impl ControlMessage {
            /// The forms of all messages.
            pub(crate) const FORMS: &[Form] = &[$(
                control_messages!(@form $letter $name $sender $files, ($($($type)*)?) ($($feature)?)),
            )*];

            /// The form of this message.
            pub(crate) fn form(&self) -> Form {
                match self {$(
                    Self::$name { .. } =>
                        control_messages!(@form $letter $name $sender $files, ($($($type)*)?) ($($feature)?)),
                )*}
            }

            /// The bytes to send.
            pub(crate) fn encode(&self) -> Vec<u8> {
                let mut bytes = vec![self.form().letter];
                match self {$(
                    Self::$name $({ $($field),* })? => { $($($field.put(&mut bytes);)*)? }
                )*}
                bytes
            }

            /// The message with these fields, of which some are left over if the bytes are too many.
            fn of_fields(letter: u8, fields: &mut &[u8]) -> Option<Self> {
                match letter {
                    $($letter => Some(Self::$name $({ $($field: Field::decode(fields)?),* })?),)*
                    // Letters are bytes; the caller has looked this one up.
                    _ => None,
                }
            }
        }
    };
}

control_messages! {
    /// The controller's first message, with the segment of the first lane and the stripes of the first slab.
    b'l' => Begin { hello: Hello }, from Controller, files 1 + Prot::ALL.len();
    /// Serve the lane in this segment. The executor answers over the lane, or refuses the number.
    b'o' => Lane { number: u64 }, from Controller, files 1;
    /// Serve the pipeline in this segment, for calls of the controller.
    b'p' => Pipeline { number: u64 }, from Controller, files 1, needs Pipelines;
    /// The answer to a request: a lane on which the executor calls.
    b'a' => ReverseLane, from Controller, files 1;
    /// The answer to a request: there is no lane.
    b'n' => NoLane, from Controller, files 0;
    /// Map these stripes. A later call asks where they are. The number has the slab's placement and index.
    b's' => Slab { place: u64 }, from Controller, files Prot::ALL.len();
    /// Map this region, which is at this address in the controller. A later call asks where it is.
    b'm' => Region { address: u64 }, from Controller, files 1, needs Regions;
    /// Become a zygote, which does nothing but fork copies of itself. Its end of another socket comes along.
    b'f' => Freeze, from Controller, files 1, needs Snapshots;
    /// Fork a copy, which gets this control socket and the segment of its first lane.
    b'k' => Fork, from Controller, files 2, needs Snapshots;
    /// Collect the copy with this number, whose end the controller has seen.
    b'e' => Collect { pid: u64 }, from Controller, files 0, needs Snapshots;

    /// Fork an executor, which gets this control socket, the standard streams, and the working directory.
    b'h' => Start, from Controller, files 5;
    /// Fork an executor ahead of its request, which gets this control socket.
    b'j' => StartAhead, from Controller, files 1;
    /// The request to an executor that was forked ahead: it gets the standard streams, and the working directory.
    b't' => Take, from Controller, files 4;

    /// End `calls` calls on the lane or pipeline with this number, from the call `call` on. A call that has not begun does not begin.
    /// With 0 for `call`, end the calls that run, up to the call `calls`. Look at a call that runs for that long, in nanoseconds.
    b'b' => Interrupt { number: u64, call: u64, calls: u64, grace_ns: u64 }, from Controller, files 0, needs Interrupts;

    /// A thread of the program's own wants a lane on which it calls.
    b'r' => RequestLane, from Executor, files 0, needs ReverseLanes;
    /// The lane or the pipeline with this number is not served.
    b'x' => Refused { number: u64, why: String }, from Executor, files 0;
    /// The call on the lane or pipeline with this number goes on, for this reason.
    b'g' => NotInterrupted { number: u64, why: String }, from Executor, files 0;
    /// The first message of an executor that confines itself: the number of its sweeper, a child of the controller, or 0 for none.
    /// It comes before linked code runs.
    b'c' => Sweeper { pid: u64 }, from Executor, files 0;
    /// The last message of an executor or a zygote that ends by itself.
    b'w' => LastWords { hello: Hello, why: String }, from Executor, files 0;

    /// The executor is a zygote now.
    b'z' => Frozen, from Zygote, files 0;
    /// The executor has not become a zygote, and resumes.
    b'y' => NotFrozen { why: String }, from Zygote, files 0;
    /// The executor could not become a zygote, and ends.
    b'd' => Lost { why: String }, from Zygote, files 0;
    /// The number of the copy or executor that was forked.
    b'i' => Forked { pid: u64 }, from Zygote, files 0;
    /// None was forked.
    b'u' => NotForked { why: String }, from Zygote, files 0;
}

/// The messages that a controller sends, as a pattern for an end that takes none of them. Add a new message to one of these three:
/// the ends do not compile without it.
macro_rules! from_controller {
    () => {
        $crate::wire::control::ControlMessage::Begin { .. }
            | $crate::wire::control::ControlMessage::Lane { .. }
            | $crate::wire::control::ControlMessage::Pipeline { .. }
            | $crate::wire::control::ControlMessage::ReverseLane { .. }
            | $crate::wire::control::ControlMessage::NoLane { .. }
            | $crate::wire::control::ControlMessage::Slab { .. }
            | $crate::wire::control::ControlMessage::Region { .. }
            | $crate::wire::control::ControlMessage::Freeze { .. }
            | $crate::wire::control::ControlMessage::Fork { .. }
            | $crate::wire::control::ControlMessage::Collect { .. }
            | $crate::wire::control::ControlMessage::Start { .. }
            | $crate::wire::control::ControlMessage::StartAhead { .. }
            | $crate::wire::control::ControlMessage::Take { .. }
            | $crate::wire::control::ControlMessage::Interrupt { .. }
    };
}
pub(crate) use from_controller;

/// The messages that an executor sends, as a pattern for an end that takes none of them.
macro_rules! from_executor {
    () => {
        $crate::wire::control::ControlMessage::RequestLane { .. }
            | $crate::wire::control::ControlMessage::Refused { .. }
            | $crate::wire::control::ControlMessage::NotInterrupted { .. }
            | $crate::wire::control::ControlMessage::Sweeper { .. }
            | $crate::wire::control::ControlMessage::LastWords { .. }
    };
}
pub(crate) use from_executor;

/// The messages that a zygote sends, as a pattern for an end that takes none of them.
macro_rules! from_zygote {
    () => {
        $crate::wire::control::ControlMessage::Frozen { .. }
            | $crate::wire::control::ControlMessage::NotFrozen { .. }
            | $crate::wire::control::ControlMessage::Lost { .. }
            | $crate::wire::control::ControlMessage::Forked { .. }
            | $crate::wire::control::ControlMessage::NotForked { .. }
    };
}
pub(crate) use from_zygote;

impl ControlMessage {
    /// Decodes a received message.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Violation` for an unknown letter, and for a known one with other sizes. The error names the letter.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let Some((letter, mut fields)) = bytes.split_first() else {
            return Err(Error::violation(format!("an empty message: {ADVICE}")));
        };
        let Some(form) = Self::FORMS.iter().find(|form| form.letter == *letter) else {
            return Err(Error::violation(format!(
                "a message with the unknown letter '{}' (0x{letter:02x}): {ADVICE}",
                letter.escape_ascii()
            )));
        };
        let message = Self::of_fields(*letter, &mut fields).filter(|_| fields.is_empty());
        message.ok_or_else(|| {
            let most = form.bytes + if form.has_text { TEXT_BYTES_MAX } else { 0 };
            let due = if form.has_text { format!(" to {most}") } else { String::new() };
            let came = match bytes.len() {
                came if came > MESSAGE_BYTES_MAX => format!("more than {MESSAGE_BYTES_MAX}"),
                came => came.to_string(),
            };
            Error::violation(format!(
                "{form} of {came} bytes, where {}{due} are due: {ADVICE}",
                form.bytes
            ))
        })
    }

    /// The error of a message that has another number of descriptors than is due.
    pub(crate) fn with_other_files(&self, more_than: bool, came: usize) -> Error {
        let (form, more) = (self.form(), if more_than { "more than " } else { "" });
        Error::violation(format!(
            "{form} with {more}{came} descriptors, where {} are due: {ADVICE}",
            form.files
        ))
    }

    /// The error of a message that its receiver does not take, or not then. `receiver` says both.
    pub(crate) fn misplaced(&self, receiver: &str) -> Error {
        let form = self.form();
        Error::violation(format!("{form} of {} came to {receiver}: {ADVICE}", form.sender))
    }

    /// Refuses a message that a `peer` with these features does not know.
    ///
    /// # Errors
    ///
    /// As [`Features::require`].
    pub(crate) fn check(&self, features: Features, peer: &str) -> Result<()> {
        self.form().feature.map_or(Ok(()), |feature| features.require(feature, peer))
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Controller => "a controller",
            Self::Executor => "an executor",
            Self::Zygote => "a zygote",
        })
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Form { letter, name, .. } = self;
        write!(f, "message '{}' (0x{letter:02x}, {name})", letter.escape_ascii())
    }
}

/// A part of a message.
trait Field: Sized {
    /// Bytes in front of a text.
    const BYTES: usize;
    const IS_TEXT: bool = false;

    fn put(&self, bytes: &mut Vec<u8>);

    /// Decodes the field at the front, and removes it; `None` if it is not there.
    fn decode(bytes: &mut &[u8]) -> Option<Self>;
}

impl Field for u64 {
    const BYTES: usize = NUMBER_BYTES;

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(Self::from_le_bytes(*number))
    }
}

impl Field for Hello {
    const BYTES: usize = 2 * NUMBER_BYTES;

    fn put(&self, bytes: &mut Vec<u8>) {
        self.version.put(bytes);
        self.features.bits().put(bytes);
    }

    /// In a message of another version, all behind the version is skipped.
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let version = u64::decode(bytes)?;
        if version != VERSION {
            *bytes = &[];
            return Some(Self::new(version, Features::default()));
        }
        Some(Self::new(version, Features::from_bits(u64::decode(bytes)?)))
    }
}

impl Field for String {
    const BYTES: usize = 0;
    const IS_TEXT: bool = true;

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(cut(self).as_bytes());
    }

    /// The text as a terminal may print it.
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let text = std::mem::take(bytes);
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let text = String::from_utf8_lossy(text).replace(char::is_control, " ");
        Some(cut(&text).to_owned())
    }
}

/// The beginning of a text that a message has room for.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

#[cfg(test)]
mod tests;
