//! Programs that must outlive what happens to this process: in a session and a process group of their own.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Where `setsid` is looked for.
const SETSID: [&str; 2] = ["/usr/bin/setsid", "/bin/setsid"];

/// A command that becomes `program` in its own group and, where the `setsid` program exists, its own session: a host
/// cannot give it one without `unsafe`.
pub(super) fn own_session(program: &Path) -> Command {
    if let Some(setsid) = SETSID.iter().find(|setsid| Path::new(setsid).is_file()) {
        // It makes a session only while it leads no group, then becomes the program.
        let mut command = Command::new(setsid);
        command.arg(program);
        return command;
    }
    let mut command = Command::new(program);
    command.process_group(0);
    command
}
