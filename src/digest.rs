//! SHA-256 sums and their hexadecimal form.

use sha2::{Digest, Sha256};
use std::io::Read;

/// Computes the SHA-256 of everything that the reader gives, and its length in bytes.
///
/// # Errors
/// If the reader fails.
pub fn sha256(mut reader: impl Read) -> std::io::Result<([u8; 32], u64)> {
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

/// Formats bytes as lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_fips_180() {
        let (sum, size) = sha256(&b"abc"[..]).unwrap();
        assert_eq!(size, 3);
        assert!(hex(&sum).starts_with("ba7816bf8f01cfea"));
    }
}
