//! SHA-256 sums and how they are written down.

use sha2::{Digest, Sha256};
use std::io::Read;

/// SHA-256 of all that can be read, and its length in bytes.
///
/// # Errors
/// The reader's.
pub fn of(mut reader: impl Read) -> std::io::Result<([u8; 32], u64)> {
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        match reader.read(&mut block)? {
            0 => return Ok((hash.finalize().into(), size)),
            n => {
                hash.update(&block[..n]);
                size += n as u64;
            }
        }
    }
}

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_fips_180() {
        let (sum, size) = of(&b"abc"[..]).unwrap();
        assert_eq!(size, 3);
        assert!(hex(&sum).starts_with("ba7816bf8f01cfea"));
    }
}
