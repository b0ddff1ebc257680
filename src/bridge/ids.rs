//! Fresh ids.

use std::hash::{BuildHasher, RandomState};

/// A random UUID (version 4): unique, no secret.
pub(super) fn uuid() -> String {
    let half = || RandomState::new().hash_one(std::time::SystemTime::now());
    let bits = (u128::from(half()) << 64) | u128::from(half());
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn brg_01_uuids_are_of_version_4_and_distinct() {
        let all: HashSet<String> = (0..1_000).map(|_| uuid()).collect();
        assert_eq!(all.len(), 1_000);
        for id in all {
            assert_eq!((id.len(), &id[14..15]), (36, "4"), "{id}");
            assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
        }
    }
}
