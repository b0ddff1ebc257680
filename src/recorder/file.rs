//! The file of a recording: opened with the first line, for its owner alone, and never shared by two writers.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How every recording begins; a file that begins otherwise is none, and is left alone.
const BEGINNING: &str = "{\"format\":\"mcp-switchboard-recording\",\"version\":1,";

enum State {
    Unopened,
    Open(File),
    /// Closed, or of no use.
    Done,
}

pub(super) struct RecordingFile {
    path: PathBuf,
    started: String,
    state: State,
}

impl RecordingFile {
    /// The file at `path` for a recording that began at `started`.
    pub(super) fn new(path: PathBuf, started: String) -> Self {
        Self { path, started, state: State::Unopened }
    }

    /// Appends whole lines; the first time after a header of their own. After a failure nothing is written any more.
    pub(super) fn append(&mut self, lines: &str) -> Result<(), String> {
        let outcome = match std::mem::replace(&mut self.state, State::Done) {
            State::Unopened => open(&self.path).and_then(|(file, cut)| {
                let header = self.header();
                // What a crash cut off stays the last line of its recording.
                write(file, &format!("{}{header}{lines}", if cut { "\n" } else { "" }))
            }),
            State::Open(file) => write(file, lines),
            State::Done => return Err("the recording has ended".to_owned()),
        };
        let file = outcome.map_err(|why| format!("{}: {why}", self.path.display()))?;
        self.state = State::Open(file);
        Ok(())
    }

    /// Ends the recording with the number of messages that are missing in it.
    pub(super) fn end(&mut self, lost: u64) {
        if let State::Open(file) = std::mem::replace(&mut self.state, State::Done) {
            // Without this line it counts as cut off, which is what it then is.
            let _ = write(file, &format!("{{\"event\":\"ended\",\"lost\":{lost}}}\n"));
        }
    }

    fn header(&self) -> String {
        let by = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));
        format!("{BEGINNING}\"startedAt\":\"{}\",\"by\":\"{by}\"}}\n", self.started)
    }
}

fn write(mut file: File, text: &str) -> Result<File, String> {
    file.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(file)
}

/// Opens the file and makes sure that it is a recording, or new; whether its last line was cut off.
fn open(path: &Path) -> Result<(File, bool), String> {
    let mut file = options().open(path).map_err(|error| error.to_string())?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err("another manager records there".to_owned()),
        Err(TryLockError::Error(error)) => return Err(error.to_string()),
    }
    let cut = look_into(&mut file).map_err(|error| error.to_string())?;
    let cut = cut.ok_or("the file exists and is no recording")?;
    own_alone(&file).map_err(|error| error.to_string())?;
    Ok((file, cut))
}

/// Whether the last line was cut off; `None` where the file is no recording.
fn look_into(file: &mut File) -> std::io::Result<Option<bool>> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(Some(false));
    }
    let mut beginning = Vec::new();
    (&mut *file).take(BEGINNING.len() as u64).read_to_end(&mut beginning)?;
    if beginning != BEGINNING.as_bytes() {
        return Ok(None);
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(length - 1))?;
    file.read_exact(&mut last)?;
    Ok(Some(last != *b"\n"))
}

#[cfg(unix)]
fn options() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.create(true).read(true).append(true).mode(0o600);
    options
}

#[cfg(not(unix))]
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).read(true).append(true);
    options
}

#[cfg(unix)]
fn own_alone(file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn own_alone(_file: &File) -> std::io::Result<()> {
    Ok(())
}
