//! Byte offsets as lines and columns.

/// Bytes between two known character counts.
const BLOCK: usize = 256;

/// Line and column of byte offsets in one text; columns count characters.
///
/// Looking one up costs a search among the lines and one block, so a file in a single long line is no slower.
pub(crate) struct Positions<'a> {
    bytes: &'a [u8],
    line_starts: Vec<usize>,
    /// Characters before each block.
    characters: Vec<usize>,
}

impl<'a> Positions<'a> {
    /// Goes through the text once. `\n`, `\r\n` and a lone `\r` end a line.
    pub(crate) fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let mut line_starts = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            if *byte == b'\n' || (*byte == b'\r' && bytes.get(at + 1) != Some(&b'\n')) {
                line_starts.push(at + 1);
            }
        }
        let mut characters = vec![0];
        let mut sum = 0;
        for block in bytes.chunks(BLOCK) {
            sum += count_characters(block);
            characters.push(sum);
        }
        Self { bytes, line_starts, characters }
    }

    /// Line and column of an offset, both from 1.
    pub(crate) fn at(&self, offset: usize) -> (u32, u32) {
        let offset = offset.min(self.bytes.len());
        let line = self.line_starts.partition_point(|&start| start <= offset).max(1);
        let start = self.line_starts.get(line - 1).copied().unwrap_or(0);
        let column = self.characters_before(offset) - self.characters_before(start) + 1;
        (narrow(line), narrow(column))
    }

    fn characters_before(&self, offset: usize) -> usize {
        let block = offset / BLOCK;
        let known = self.characters.get(block).copied().unwrap_or(0);
        known + count_characters(self.bytes.get(block * BLOCK..offset).unwrap_or_default())
    }
}

/// A byte that is not a continuation byte begins a character.
fn count_characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80).count()
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
