//! A function that profilers shall name, by lines that their debug information has.

#[unsafe(no_mangle)]
pub extern "C" fn spin(turns: u64) -> u64 {
    let mut sum = 0_u64;
    let mut turn = 0;
    while turn < turns {
        sum = sum.wrapping_add(turn ^ sum >> 3);
        turn += 1;
    }
    sum
}
