//! `SimplePackedSerializationTest` of LLVM's runtime by name, recorded bytes, and what hostile bytes may claim.

use super::*;
use crate::error::ErrorKind;
use crate::{AddrRange, ExecutorAddr, Prot};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn round_trip<T>(value: T, expected: &str)
where
    T: Encode + for<'a> Decode<'a> + PartialEq + std::fmt::Debug,
{
    let bytes = to_bytes(&value);
    assert_eq!(hex(&bytes), expected);
    assert_eq!(value.encoded_bytes(), bytes.len());
    assert_eq!(from_bytes::<T>(&bytes).expect("decodes"), value);
    for end in 0..bytes.len() {
        assert!(from_bytes::<T>(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
    }
}

#[test]
fn conformance_vectors() {
    round_trip((1_u32, true, "ab".to_owned()), "010000000102000000000000006162");
    round_trip(Status(Ok(())), "00");
    round_trip(Status(Err("x".to_owned())), "01010000000000000078");
    round_trip(Expected(Ok(7_u8)), "0107");
    round_trip(Expected::<u8>(Err("x".to_owned())), "00010000000000000078");
    round_trip(None::<u16>, "00");
    round_trip(Some(0x1234_u16), "013412");
    let range = AddrRange { start: ExecutorAddr::new(0x1000), end: ExecutorAddr::new(0x2000) };
    round_trip(range, "00100000000000000020000000000000");
}

#[test]
fn test_alloc_group_serialization() {
    round_trip(AllocGroup::standard(Prot::Code), "05");
    round_trip(AllocGroup { prot: Prot::Data, lifetime: Lifetime::Finalize }, "0b");
    let valid = (0..=u8::MAX).filter(|byte| from_bytes::<AllocGroup>(&[*byte]).is_ok());
    assert_eq!(valid.collect::<Vec<_>>(), [1, 3, 5, 9, 11, 13], "never writable and executable");
}

#[test]
fn every_scalar() {
    round_trip(-2_i8, "fe");
    round_trip(0x0102_u16, "0201");
    round_trip(-2_i16, "feff");
    round_trip(-2_i32, "feffffff");
    round_trip(0x0102_0304_0506_0708_u64, "0807060504030201");
    round_trip(-2_i64, "feffffffffffffff");
    round_trip(ExecutorAddr::new(0x10), "1000000000000000");
    round_trip((), "");
}

#[test]
fn sequences_nest() {
    let value = vec![vec![1_u16], vec![]];
    round_trip(value, "0200000000000000010000000000000001000000000000000000");
    round_trip(Bytes(vec![1, 2, 3]), "0300000000000000010203");
    assert_eq!(to_bytes(&Bytes(vec![7])), to_bytes(&vec![7_u8]));
}

#[test]
fn a_bool_is_zero_or_one() {
    assert!(from_bytes::<bool>(&[2]).is_err());
    assert!(from_bytes::<Option<u8>>(&[0xff, 0]).is_err());
}

#[test]
fn a_count_beyond_the_bytes_allocates_nothing() {
    let huge = to_bytes(&u64::MAX);
    assert!(from_bytes::<Vec<u64>>(&huge).is_err());
    assert!(from_bytes::<Vec<()>>(&huge).is_err(), "elements without bytes are bounded as well");
    assert!(from_bytes::<String>(&huge).is_err());
    assert!(from_bytes::<Bytes>(&huge).is_err());
}

#[test]
fn text_may_be_any_bytes() {
    let text = from_bytes::<String>(&to_bytes(&Bytes(vec![b'a', 0xff]))).expect("decodes");
    assert_eq!(text, "a\u{fffd}");
}

// SimplePackedSerializationTest

#[test]
fn sps_output_buffer() {
    let mut out = vec![0xee];
    (1_u8, 0x0302_u16).encode(&mut out);
    assert_eq!(out, [0xee, 1, 2, 3], "appended, and not a byte more");
}

#[test]
fn sps_input_buffer() {
    let mut reader = Reader::new(&[1, 2, 3]);
    assert_eq!(reader.read(2).expect("there"), [1, 2]);
    assert!(reader.read(2).is_err(), "one is left");
    assert_eq!(reader.read(1).expect("a failure takes nothing"), [3]);
    assert_eq!(reader.read(0).expect("nothing"), [0; 0]);
}

#[test]
fn bool() {
    round_trip(false, "00");
    round_trip(true, "01");
}

#[test]
fn char() {
    round_trip(b'a', "61");
}

#[test]
fn int8() {
    round_trip(i8::MIN, "80");
    round_trip(i8::MAX, "7f");
}

#[test]
fn uint8() {
    round_trip(u8::MIN, "00");
    round_trip(u8::MAX, "ff");
}

#[test]
fn int16() {
    round_trip(i16::MIN, "0080");
    round_trip(i16::MAX, "ff7f");
}

#[test]
fn uint16() {
    round_trip(u16::MIN, "0000");
    round_trip(u16::MAX, "ffff");
}

#[test]
fn int32() {
    round_trip(i32::MIN, "00000080");
    round_trip(i32::MAX, "ffffff7f");
}

#[test]
fn uint32() {
    round_trip(u32::MIN, "00000000");
    round_trip(u32::MAX, "ffffffff");
}

#[test]
fn int64() {
    round_trip(i64::MIN, "0000000000000080");
    round_trip(i64::MAX, "ffffffffffffff7f");
}

#[test]
fn uint64() {
    round_trip(u64::MIN, "0000000000000000");
    round_trip(u64::MAX, "ffffffffffffffff");
}

#[test]
fn sequence() {
    round_trip(vec![1_u32, 2], "02000000000000000100000002000000");
    round_trip(Vec::<u32>::new(), "0000000000000000");
}

#[test]
fn executor_addr() {
    round_trip(ExecutorAddr::new(0x0102_0304), "0403020100000000");
    round_trip(ExecutorAddr::NULL, "0000000000000000");
}

#[test]
fn string_view() {
    let bytes = to_bytes("view");
    assert_eq!(bytes, to_bytes(&"view".to_owned()));
    let text = from_bytes::<&str>(&bytes).expect("decodes");
    assert_eq!((text, text.as_ptr()), ("view", bytes[8..].as_ptr()), "where it lies");
    assert!(from_bytes::<&str>(&to_bytes(&vec![0xff_u8])).is_err(), "no text");
}

#[test]
fn span() {
    let bytes = to_bytes(&[1_u8, 2, 3][..]);
    let span = from_bytes::<&[u8]>(&bytes).expect("decodes");
    assert_eq!((span, span.as_ptr()), (&[1, 2, 3][..], bytes[8..].as_ptr()), "where it lies");
}

#[test]
fn tuple() {
    round_trip((1_u8, 2_u16, 3_u32), "01020003000000");
    round_trip((1_u8, (2_u8, (3_u8,))), "010203");
}

#[test]
fn pair() {
    round_trip((true, 0x0201_u16), "010102");
}

#[test]
fn optional_no_value() {
    round_trip(None::<u64>, "00");
}

#[test]
fn optional_value() {
    round_trip(Some(7_u64), "010700000000000000");
}

#[test]
fn pointers() {
    let value = 7_u32;
    let addr = ExecutorAddr::new(std::ptr::from_ref(&value).addr() as u64);
    round_trip(addr, &hex(&(addr.get()).to_le_bytes()));
}

#[test]
fn arg_list() {
    let args = (true, "ab".to_owned(), vec![7_u8]);
    let one_by_one = [to_bytes(&true), to_bytes("ab"), to_bytes(&vec![7_u8])].concat();
    assert_eq!(to_bytes(&args), one_by_one);
    round_trip(args, "0102000000000000006162010000000000000007");
}

#[test]
fn serialize_error_success() {
    round_trip(Status::from(Ok(())), "00");
}

#[test]
fn serialize_error_failure() {
    let failure = Status::from(Err(crate::Error::remote("no")));
    round_trip(failure.clone(), "0102000000000000006e6f");
    let error = failure.into_result().expect_err("a failure");
    assert!(error.kind() == ErrorKind::Remote && error.to_string() == "no", "{error}");
}

#[test]
fn serialize_expected_success_via_expected() {
    let value: crate::Result<u16> = Ok(7);
    round_trip(Expected::from(value), "010700");
}

#[test]
fn serialize_expected_success_via_value() {
    let value = Expected(Ok(7_u16));
    assert_eq!(value.clone().into_result().expect("a value"), 7);
    round_trip(value, "010700");
}

#[test]
fn serialize_expected_failure() {
    let failure: Expected<u16> = Err(crate::Error::remote("no")).into();
    round_trip(failure, "0002000000000000006e6f");
}

#[test]
fn executor_addr_range() {
    let (start, end) = (ExecutorAddr::new(0x1000), ExecutorAddr::new(0x1010));
    round_trip(AddrRange { start, end }, "00100000000000001010000000000000");
    let inverted = to_bytes(&(end, start));
    assert!(from_bytes::<AddrRange>(&inverted).is_err());
}

// SPSSymbolLookupSetTest: whether a symbol must be there is all that its flags say.

#[test]
fn symbol_lookup_flags_serialization() {
    for required in [true, false] {
        let name = String::new();
        assert_eq!(
            from_bytes::<(String, bool)>(&to_bytes(&(&*name, required))).expect("decodes"),
            (name, required)
        );
    }
}

#[test]
fn symbol_lookup_flags_wire_format() {
    round_trip(("a".to_owned(), true), "01000000000000006101");
    round_trip(("b".to_owned(), false), "01000000000000006200");
}

#[test]
fn symbol_lookup_set_serialization() {
    round_trip(Vec::<(String, bool)>::new(), "0000000000000000");
    let names = vec![("a".to_owned(), true), ("b".to_owned(), false)];
    round_trip(names, "02000000000000000100000000000000610101000000000000006200");
}

#[test]
fn symbol_lookup_result_serialization() {
    round_trip(Vec::<Option<ExecutorAddr>>::new(), "0000000000000000");
    // A defined symbol, a missing symbol, and a symbol at address 0.
    let found = vec![Some(ExecutorAddr::new(0x1234)), None, Some(ExecutorAddr::NULL)];
    round_trip(
        found,
        "0300000000000000013412000000000000000100000000000000_00".replace('_', "").as_str(),
    );
}

/// All types of which messages consist.
type Everything = (
    (String, u64, Vec<(String, Bytes)>),
    Vec<(AllocGroup, ExecutorAddr, u64, Bytes)>,
    (Option<AddrRange>, Expected<Vec<Option<ExecutorAddr>>>, Status),
);

/// Each of 200,000 damaged messages is an error or another message; none takes more memory than its bytes say.
#[test]
fn malformed_messages_cost_an_error() {
    let group = AllocGroup::standard(Prot::Data);
    let range = AddrRange { start: ExecutorAddr::new(0x1000), end: ExecutorAddr::new(0x2000) };
    let whole: Everything = (
        ("triple".to_owned(), 4096, vec![("a value".to_owned(), Bytes(vec![1; 9]))]),
        vec![(group, range.start, 4096, Bytes(vec![2; 20])), (group, range.end, 1, Bytes(vec![]))],
        (Some(range), Ok(vec![Some(range.start), None]).into(), Status(Err("no".to_owned()))),
    );
    let whole = to_bytes(&whole);
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    let (mut refused, mut others) = (0, 0);
    for _ in 0..200_000 {
        let mut bytes = whole.clone();
        for _ in 0..1 + next(3) {
            match next(4) {
                0 => bytes.truncate(next(bytes.len() + 1)),
                1 => bytes.extend_from_slice(&[0, 255, 1][..next(4)]),
                _ if bytes.is_empty() => {}
                2 => {
                    let at = next(bytes.len());
                    bytes[at] = [0, 1, 127, 128, 254, 255][next(6)];
                }
                _ => {
                    let at = next(bytes.len());
                    bytes[at] ^= 1 << next(8);
                }
            }
        }
        match from_bytes::<Everything>(&bytes) {
            // A decoded value encodes to no more bytes, and means the same.
            Ok(read) => {
                let said = to_bytes(&read);
                assert_eq!(to_bytes(&from_bytes::<Everything>(&said).expect("decodes")), said);
                others += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(refused > 100_000 && others > 1000, "{refused} refused, {others} others");
    println!("malformed messages: {} cases", refused + others);
}
