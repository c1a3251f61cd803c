//! Which of a Cluster's 16,384 slots a key stands in: CRC16 (XMODEM) of its hash tag (Redis Cluster specification, "Key distribution model").

/// Slots of a Cluster.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key.
pub(super) fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag).filter(|tag| !tag.is_empty());
    crc16(tag.unwrap_or(key).as_bytes()) % SLOTS
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes
        .iter()
        .fold(0, |crc, byte| (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot("{user1000}.following"), slot("user1000"));
        assert_eq!(slot("foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS, "an empty tag is none");
        assert_eq!(slot("foo{{bar}}zap"), slot("{bar"));
    }
}
