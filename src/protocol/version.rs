//! Dated protocol versions and the two eras they belong to (PRO-02, PRO-03).

use std::fmt;

/// How a conversation is opened and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// Opened by `initialize`, kept by a session.
    Legacy,
    /// Every request stands alone.
    Modern,
}

/// A version of the protocol that this package speaks, ordered by date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// `2024-11-05`.
    V2024_11_05,
    /// `2025-03-26`.
    V2025_03_26,
    /// `2025-06-18`.
    V2025_06_18,
    /// `2025-11-25`.
    V2025_11_25,
    /// `2026-07-28`, the stateless era.
    V2026_07_28,
}

impl ProtocolVersion {
    /// Versions a handshake may end with, newest first; the first is the one we ask for (mcp:LIFE-03).
    pub const LEGACY: [ProtocolVersion; 4] =
        [Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];

    /// Versions of the modern era, newest first.
    pub const MODERN: [ProtocolVersion; 1] = [Self::V2026_07_28];

    /// The version of exactly this name, or `None` where we do not speak it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::MODERN.into_iter().chain(Self::LEGACY).find(|version| version.as_str() == text)
    }

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The era the version belongs to.
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pro_02_list_is_newest_first_and_closed() {
        let names: Vec<&str> = ProtocolVersion::LEGACY.iter().map(|version| version.as_str()).collect();
        assert_eq!(names, ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
        assert!(ProtocolVersion::LEGACY.is_sorted_by(|a, b| a > b));
        for version in ProtocolVersion::LEGACY {
            assert_eq!(ProtocolVersion::parse(version.as_str()), Some(version));
            assert_eq!(version.era(), Era::Legacy);
        }
        assert_eq!(ProtocolVersion::parse("2026-07-28").map(ProtocolVersion::era), Some(Era::Modern));
        for unknown in ["", "2025-11-26", "2025-11-25 ", "1.0", "２０２５-11-25"] {
            assert_eq!(ProtocolVersion::parse(unknown), None, "{unknown}");
        }
    }
}
