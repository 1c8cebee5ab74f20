//! Hashes of text with 64 bits. They are equal in every process and never change.

/// An odd number whose bits have no pattern: the fraction of the golden ratio.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
/// A second one: the fraction of the square root of three.
const OTHER: u64 = 0xBB67_AE85_84CA_A73B;

/// Returns a number whose bits all depend on all bits of `value`. Different values stay different.
pub(crate) const fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let value = (value ^ (value >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    value ^ (value >> 32)
}

/// Returns a hash that depends on both values and their order.
#[expect(clippy::cast_possible_truncation, reason = "the halves of a product")]
pub(crate) const fn joined(first: u64, second: u64) -> u64 {
    let product = (first ^ ODD) as u128 * (second.wrapping_add(ODD) ^ OTHER) as u128;
    (product as u64) ^ ((product >> 64) as u64) ^ second.rotate_left(23)
}

/// Returns the hash of bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> u64 {
    let mut hash = mixed(bytes.len() as u64 ^ OTHER);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = joined(hash, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    if let Some(place) = last.get_mut(..rest.len()) {
        place.copy_from_slice(rest);
    }
    mixed(joined(hash, u64::from_le_bytes(last)))
}

/// Returns the hash of one more byte or character after those of `hash`.
///
/// The result is only good after [`mixed`].
#[inline]
pub(crate) const fn extended(hash: u64, unit: u32) -> u64 {
    (hash.rotate_left(5) ^ unit as u64).wrapping_mul(ODD)
}

#[cfg(test)]
mod tests {
    use super::{joined, mixed, of_bytes};
    use std::collections::BTreeSet;

    #[test]
    fn hashes_never_change() {
        assert_eq!(of_bytes(b""), 1_639_419_553_191_396_932);
        assert_eq!(of_bytes(b"a word"), 17_519_914_590_180_787_921);
        assert_eq!(mixed(1), 4_717_996_019_076_358_352);
        assert_eq!(joined(1, 2), 7_362_773_684_848_331_601);
    }

    #[test]
    fn short_texts_differ() {
        let mut all = BTreeSet::new();
        for length in 0..=3_u32 {
            for number in 0..64_u32.pow(length) {
                let text: Vec<u8> = (0..length)
                    .map(|at| u8::try_from(number / 64_u32.pow(at) % 64).unwrap())
                    .collect();
                assert!(all.insert(of_bytes(&text)), "{text:?}");
            }
        }
    }
}
