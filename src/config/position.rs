//! Byte offsets as lines and columns.

/// Line and column of byte offsets in one text; columns count characters.
pub(crate) struct Positions<'a> {
    text: &'a str,
    line_starts: Vec<usize>,
}

impl<'a> Positions<'a> {
    /// Finds the line starts once. `\n`, `\r\n` and a lone `\r` end a line.
    pub(crate) fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let mut line_starts = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            if *byte == b'\n' || (*byte == b'\r' && bytes.get(at + 1) != Some(&b'\n')) {
                line_starts.push(at + 1);
            }
        }
        Self { text, line_starts }
    }

    /// Line and column of an offset, both from 1.
    pub(crate) fn at(&self, offset: usize) -> (u32, u32) {
        let offset = offset.min(self.text.len());
        let line = self.line_starts.partition_point(|&start| start <= offset).max(1);
        let start = self.line_starts.get(line - 1).copied().unwrap_or(0);
        let before = self.text.as_bytes().get(start..offset).unwrap_or_default();
        // A byte that is not a continuation byte begins a character.
        let column = before.iter().filter(|&&byte| byte & 0xC0 != 0x80).count() + 1;
        (narrow(line), narrow(column))
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
