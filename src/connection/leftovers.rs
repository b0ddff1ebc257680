//! What outlives a server that was ended, or would outlive this program, is told (STD-05).

use super::Shared;
use crate::diagnostic::Diagnostic;
use crate::transport::{Transport, stdio};

/// Tells of processes that the closing of a transport could not end.
pub(super) fn tell_survivors(shared: &Shared, transport: &dyn Transport) {
    if let Some(survivors) = transport.evidence().survivors {
        shared.diagnose(Diagnostic::warning("PROCESS_NOT_ENDED", survived(&survivors)));
    }
}

fn survived(survivors: &[u32]) -> String {
    let which = match survivors {
        [] => "which, is not known".to_owned(),
        known => known.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    };
    format!("not every process of the server could be ended, even by SIGKILL: {which}")
}

/// Tells once where nothing would end the servers of a program that is killed.
pub(super) fn tell_without_link(shared: &Shared) {
    if let Some(finding) = without_link(stdio::death_link_available()) {
        shared.listener.found(&finding);
    }
}

fn without_link(available: bool) -> Option<Diagnostic> {
    (!available).then(|| {
        Diagnostic::warning(
            "DEATH_LINK_UNAVAILABLE",
            "the small program that ends servers should this one be killed cannot be started (it needs /bin/sh): then \
             a server that ignores the end of its input goes on running",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn std_05_what_is_left_and_what_is_missing_is_told() {
        assert!(survived(&[7, 8]).ends_with(": 7, 8"));
        assert!(survived(&[]).ends_with("which, is not known"));
        assert!(without_link(true).is_none());
        assert_eq!(without_link(false).map(|finding| finding.code), Some("DEATH_LINK_UNAVAILABLE"));
    }
}
