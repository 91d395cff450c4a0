//! How deep the values of a message lie in each other, told from its bytes before they are decoded.
//!
//! A decoder of serde calls itself for each level, and so needs stack in proportion. A value of
//! [MessagePack](https://github.com/msgpack/msgpack/blob/master/spec.md) is a marker, perhaps a size, and its content.

use rmp::Marker;

/// True for bytes whose values lie at most `depth_max` deep in each other. Bytes that end early are left to the decoder.
pub(super) fn is_within(bytes: &[u8], depth_max: usize) -> bool {
    // The number of values that each open collection still waits for.
    let mut open = Vec::with_capacity(depth_max.min(16));
    let mut rest = bytes;
    loop {
        let Some((marker, behind)) = rest.split_first() else { return true };
        let Some((values, skipped)) = extent(Marker::from_u8(*marker), behind) else { return true };
        let Some(next) = behind.get(skipped..) else { return true };
        rest = next;
        if let Some(waiting) = open.last_mut() {
            *waiting -= 1;
        }
        if values > 0 {
            if open.len() == depth_max {
                return false;
            }
            open.push(values);
        }
        while open.last() == Some(&0) {
            open.pop();
        }
        if open.is_empty() {
            return true;
        }
    }
}

/// How many values a marker announces, and how many bytes behind it belong to it. `None` where its size is cut.
fn extent(marker: Marker, behind: &[u8]) -> Option<(u64, usize)> {
    let size = |bytes: usize| {
        let size = behind.get(..bytes)?.iter().fold(0, |size, byte| size << 8 | u64::from(*byte));
        Some(size)
    };
    let data = |of_size: usize, head: usize| {
        let bytes = usize::try_from(size(of_size)?).ok()?;
        Some((0, of_size.checked_add(head)?.checked_add(bytes)?))
    };
    Some(match marker {
        Marker::FixPos(_)
        | Marker::FixNeg(_)
        | Marker::Null
        | Marker::True
        | Marker::False
        | Marker::Reserved => (0, 0),
        Marker::U8 | Marker::I8 => (0, 1),
        Marker::U16 | Marker::I16 | Marker::FixExt1 => (0, 2),
        Marker::FixExt2 => (0, 3),
        Marker::U32 | Marker::I32 | Marker::F32 => (0, 4),
        Marker::FixExt4 => (0, 5),
        Marker::U64 | Marker::I64 | Marker::F64 => (0, 8),
        Marker::FixExt8 => (0, 9),
        Marker::FixExt16 => (0, 17),
        Marker::FixStr(bytes) => (0, usize::from(bytes)),
        Marker::Str8 | Marker::Bin8 => data(1, 0)?,
        Marker::Str16 | Marker::Bin16 => data(2, 0)?,
        Marker::Str32 | Marker::Bin32 => data(4, 0)?,
        // A byte says which extension it is.
        Marker::Ext8 => data(1, 1)?,
        Marker::Ext16 => data(2, 1)?,
        Marker::Ext32 => data(4, 1)?,
        Marker::FixArray(values) => (values.into(), 0),
        Marker::Array16 => (size(2)?, 2),
        Marker::Array32 => (size(4)?, 4),
        Marker::FixMap(pairs) => (2 * u64::from(pairs), 0),
        Marker::Map16 => (2 * size(2)?, 2),
        Marker::Map32 => (2 * size(4)?, 4),
    })
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Serialize, Deserialize)]
    enum List {
        End,
        More(Box<List>),
    }

    fn bytes(value: &impl Serialize) -> Vec<u8> {
        rmp_serde::to_vec(value).expect("memory is enough")
    }

    /// The least depth within which the bytes are.
    fn depth(bytes: &[u8]) -> usize {
        (0..1000).find(|depth| is_within(bytes, *depth)).expect("a depth")
    }

    #[test]
    fn each_collection_in_another_counts() {
        let list = |depth| (0..depth).fold(List::End, |list, _| List::More(Box::new(list)));
        assert_eq!(depth(&bytes(&list(0))), 0);
        assert_eq!(depth(&bytes(&list(7))), 7);
        assert_eq!(depth(&bytes(&vec![vec![vec![1_u8]], vec![]])), 3);
        assert_eq!(depth(&bytes(&(1, "text", 2.5, (3_u64, [Some(4_i16); 20])))), 3);
    }

    #[test]
    fn values_of_every_size_are_passed_over() {
        // The last value lies deepest, so a size that is passed over wrongly hides it.
        for count in [0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536] {
            let text = "x".repeat(count);
            let numbers = vec![1_000_000_u32; count];
            let row = (
                text,
                numbers,
                u64::MAX,
                i64::MIN,
                1_u128,
                0.5_f32,
                0.5_f64,
                -1_i8,
                vec![vec![0_u8]],
            );
            assert_eq!(depth(&bytes(&row)), 3, "{count}");
            let map: std::collections::BTreeMap<_, _> = (0..count).map(|key| (key, [1])).collect();
            assert_eq!(depth(&bytes(&map)), if count == 0 { 0 } else { 2 }, "{count}");
        }
    }

    #[test]
    fn damaged_bytes_end() {
        let mut random = crate::random::Random::new(7);
        for _ in 0..100_000 {
            let length = random.index(40);
            let bytes = random.bytes(length);
            let _ = is_within(&bytes, 5);
        }
        assert!(!is_within(&[0x91; 1000], 64), "lists in lists");
    }
}
