//! Whether git's index lists a path, read from the bytes of the file: versions 2 to 4, SHA-1 and SHA-256.
//!
//! `git` is never run: in a foreign tree its configuration could make it run anything. What cannot be read
//! completely gives no answer, and the caller then trusts nothing.

/// The paths of an index that matter: whether one is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// The index lists the path, something it lies in, or the same but for case.
    Listed,
    /// It does not.
    NotListed,
    /// The index cannot be read, or is only a part of the whole.
    Unknown,
}

/// Looks for `path` (relative to the work tree, with `/`). Linear in the size of the index.
pub fn listing(index: &[u8], path: &str) -> Listing {
    for hash in [20, 32] {
        if let Some(listed) = (Reader { index, at: 0, hash }).run(path) {
            return if listed { Listing::Listed } else { Listing::NotListed };
        }
    }
    Listing::Unknown
}

struct Reader<'a> {
    index: &'a [u8],
    at: usize,
    hash: usize,
}

impl<'a> Reader<'a> {
    fn run(mut self, wanted: &str) -> Option<bool> {
        if self.take(4)? != b"DIRC" {
            return None;
        }
        let version = self.number()?;
        if !(2..=4).contains(&version) {
            return None;
        }
        let count = self.number()?;
        let end = self.index.len().checked_sub(self.hash)?;
        let mut path: Vec<u8> = Vec::new();
        let mut listed = false;
        for _ in 0..count {
            let before = path.clone();
            self.entry(version, &mut path)?;
            // git keeps entries in order; anything else is no index of this hash size.
            if self.at > end || path.is_empty() || (!before.is_empty() && before > path) {
                return None;
            }
            listed |= covers(&path, wanted.as_bytes());
        }
        self.extensions(end)?;
        Some(listed)
    }

    /// Reads one entry; `path` goes in as that of the entry before.
    fn entry(&mut self, version: u32, path: &mut Vec<u8>) -> Option<()> {
        let start = self.at;
        self.take(40 + self.hash)?;
        let flags = self.short()?;
        if flags & 0x4000 != 0 {
            if version < 3 {
                return None;
            }
            self.short()?;
        }
        if version == 4 {
            let strip = self.variable()?;
            path.truncate(path.len().checked_sub(strip)?);
            path.extend_from_slice(self.until_nul()?);
            return Some(());
        }
        *path = self.until_nul()?.to_vec();
        // One to eight zero bytes, so that the length is a multiple of eight; the first has been read.
        let padded = (self.at - start).next_multiple_of(8);
        let rest = self.take(padded - (self.at - start))?;
        rest.iter().all(|&byte| byte == 0).then_some(())
    }

    fn extensions(&mut self, end: usize) -> Option<()> {
        while self.at < end {
            let name = self.take(4)?;
            // A split index: the other entries stand in another file.
            if name == b"link" {
                return None;
            }
            let size = usize::try_from(self.number()?).ok()?;
            self.take(size)?;
        }
        (self.at == end).then_some(())
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.index.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    fn short(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    /// A number of variable length, as git writes offsets.
    fn variable(&mut self) -> Option<usize> {
        let mut value: usize = 0;
        for step in 0..5 {
            let byte = *self.take(1)?.first()?;
            if step > 0 {
                value = value.checked_add(1)?;
            }
            value = value.checked_mul(128)?.checked_add(usize::from(byte & 0x7F))?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn until_nul(&mut self) -> Option<&'a [u8]> {
        let rest = self.index.get(self.at..)?;
        let length = memchr::memchr(0, rest)?;
        self.at += length + 1;
        rest.get(..length)
    }
}

/// Whether an entry is the path, or a link, submodule or collapsed directory that the path lies in. Case is
/// ignored: on many disks it makes no other file.
fn covers(entry: &[u8], wanted: &[u8]) -> bool {
    let entry = entry.strip_suffix(b"/").unwrap_or(entry);
    let Some(head) = wanted.get(..entry.len()) else { return false };
    head.eq_ignore_ascii_case(entry) && matches!(wanted.get(entry.len()), None | Some(b'/'))
}

#[cfg(test)]
mod tests;
