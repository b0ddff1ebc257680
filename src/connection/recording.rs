//! What a connection says and hears, for the recorder of the manager (BEY-08).

use std::sync::Arc;

use super::Shared;
use crate::error::McpError;
use crate::json_scan::quote;
use crate::recorder::{Recorder, Said, Source};
use crate::transport::tap::{self, Tap};
use crate::transport::{Receiver, Transport};

/// Listens to one client of a connection.
#[derive(Debug)]
pub(super) struct Recording {
    recorder: Arc<Recorder>,
    source: Arc<Source>,
}

/// Starts the transport of a generation; where there is a recorder, it hears everything that is said there.
pub(super) fn tapped(
    shared: &Arc<Shared>,
    generation: u64,
    receiver: Arc<dyn Receiver>,
    start: impl FnOnce(Arc<dyn Receiver>) -> Result<Arc<dyn Transport>, McpError>,
) -> Result<Arc<dyn Transport>, McpError> {
    let Some(tap) = of(shared, generation) else { return start(receiver) };
    let transport = start(tap::on_receiver(receiver, Arc::clone(&tap)))?;
    Ok(tap::on_transport(transport, tap))
}

fn of(shared: &Arc<Shared>, generation: u64) -> Option<Arc<dyn Tap>> {
    let recorder = Arc::clone(shared.settings.recorder.as_ref()?);
    // Weakly: the connection holds the transport, and that this listener.
    let (own, of_definition) = (Arc::downgrade(shared), shared.redactor.clone());
    let source = Source::new(Arc::clone(&shared.spec.name), generation, move || {
        own.upgrade().map_or_else(|| of_definition.clone(), |own| own.secrets().into_owned())
    });
    let recording = Recording { recorder, source };
    recording.event("opened", &format!(",\"type\":{}", quote(shared.spec.transport.kind())));
    Some(Arc::new(recording))
}

impl Recording {
    fn event(&self, name: &str, members: &str) {
        self.recorder.take(&self.source, Said::Event(format!("\"event\":\"{name}\"{members}")));
    }
}

impl Tap for Recording {
    fn sent(&self, frame: &str) {
        self.recorder.take(&self.source, Said::Sent(frame.to_owned()));
    }

    fn received(&self, message: String) {
        self.recorder.take(&self.source, Said::Received(message));
    }

    fn given_up(&self, id: u64) {
        self.event("givenUp", &format!(",\"id\":{id}"));
    }

    fn failed(&self, id: u64, error: &McpError) {
        self.event("failed", &format!(",\"id\":{id},\"code\":\"{}\"", error.code()));
    }

    fn closed(&self, error: Option<&McpError>) {
        let code = error.map(|error| format!(",\"code\":\"{}\"", error.code())).unwrap_or_default();
        self.event("closed", &code);
    }
}
