//! Zig-zag base-128 integers, as records of magic 2 use them.

/// Reads an i32 at `*at` and moves past it; `None` if it does not end within the bytes or in 5 bytes.
/// Bits beyond the 32nd are dropped, as in Kafka's reader.
#[inline]
pub(crate) fn read_i32(bytes: &[u8], at: &mut usize) -> Option<i32> {
    match read_short(bytes, at) {
        Some(raw) => Some(zigzag_i32(raw)),
        None => read_long_i32(bytes, at),
    }
}

/// Reads what takes one or two bytes, which is nearly everything in a record.
#[inline]
fn read_short(bytes: &[u8], at: &mut usize) -> Option<u32> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(u32::from(first));
    }
    let second = *bytes.get(*at + 1)?;
    if second >= 0x80 {
        return None;
    }
    *at += 2;
    Some(u32::from(first & 0x7f) | u32::from(second) << 7)
}

fn read_long_i32(bytes: &[u8], at: &mut usize) -> Option<i32> {
    let mut value = 0;
    for place in 0..5 {
        let byte = *bytes.get(*at + place)?;
        value |= u32::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            *at += place + 1;
            return Some(zigzag_i32(value));
        }
    }
    None
}

/// Reads an i64 at `*at` and moves past it; `None` if it does not end within the bytes or in 10 bytes.
#[inline]
pub(crate) fn read_i64(bytes: &[u8], at: &mut usize) -> Option<i64> {
    match read_short(bytes, at) {
        Some(raw) => Some(zigzag_i64(u64::from(raw))),
        None => read_long_i64(bytes, at),
    }
}

fn read_long_i64(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let mut value = 0u64;
    for place in 0..10 {
        let byte = *bytes.get(*at + place)?;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            *at += place + 1;
            return Some(zigzag_i64(value));
        }
    }
    None
}

/// Undoes the zig-zag: 0, 1, 2, 3 are 0, -1, 1, -2.
#[inline]
pub(crate) const fn zigzag_i32(raw: u32) -> i32 {
    (raw >> 1).cast_signed() ^ -((raw & 1).cast_signed())
}

/// Undoes the zig-zag.
#[inline]
pub(crate) const fn zigzag_i64(raw: u64) -> i64 {
    (raw >> 1).cast_signed() ^ -((raw & 1).cast_signed())
}

/// Appends an i64. An i32 written through this has the same bytes as one written as i32.
#[inline]
pub(crate) fn write(out: &mut Vec<u8>, value: i64) {
    let mut raw = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while raw >= 0x80 {
        out.push(raw.to_le_bytes()[0] | 0x80);
        raw >>= 7;
    }
    out.push(raw.to_le_bytes()[0]);
}

/// How many bytes [`write`] appends.
pub(crate) const fn size(value: i64) -> usize {
    let raw = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let bits = 64 - (raw | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[test]
fn what_is_written_is_read_and_sized() {
    for value in
        [0, -1, 1, 63, -64, 64, 8191, -8192, 8192, i64::from(i32::MAX), i64::from(i32::MIN)]
    {
        let mut out = Vec::new();
        write(&mut out, value);
        assert_eq!(out.len(), size(value));
        let (mut short, mut long) = (0, 0);
        assert_eq!(read_i32(&out, &mut short).map(i64::from), Some(value));
        assert_eq!(read_i64(&out, &mut long), Some(value));
        assert_eq!((short, long), (out.len(), out.len()));
    }
    for value in [i64::MAX, i64::MIN, 1 << 40] {
        let mut out = Vec::new();
        write(&mut out, value);
        assert_eq!((out.len(), read_i64(&out, &mut 0)), (size(value), Some(value)));
    }
}

#[test]
fn integers_that_do_not_end_are_refused() {
    assert_eq!(read_i32(&[0x80; 5], &mut 0), None);
    assert_eq!(read_i64(&[0x80; 11], &mut 0), None);
    assert_eq!(read_i32(&[0xff, 0xff], &mut 0), None);
    assert_eq!(read_i32(&[], &mut 0), None);
}
