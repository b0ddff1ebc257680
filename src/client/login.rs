//! A request that was refused for want of a login: the person logs in while the clocks stand still, then it is
//! sent again (OAU-02, mcp:AUTH-08, AUTH-60).

use std::ops::ControlFlow;

use crate::deadline::Deadline;
use crate::error::{Delivery, ErrorCode, McpError};
use crate::jsonrpc::RawText;
use crate::transport::{RequestFailure, Transport};

type Reply = Result<RawText, RequestFailure>;

/// Logins for one request: the first one, and steps up after it.
const MOST_LOGINS: u32 = 3;

/// The logins of one request.
#[derive(Debug, Default)]
pub(super) struct Logins {
    done: u32,
}

impl Logins {
    /// Whether the request is to be sent again; otherwise its answer.
    pub(super) async fn mend(
        &mut self,
        transport: &dyn Transport,
        reply: Reply,
        deadline: &Deadline,
    ) -> ControlFlow<Reply> {
        let error = match reply {
            Err(RequestFailure::Transport(error)) => error,
            other => return ControlFlow::Break(other),
        };
        match self.after(transport, error, || deadline.hold()).await {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Err(RequestFailure::Transport(error))),
        }
    }

    /// Has a person log in after a failure, where that may help: then what failed is to be sent again. `hold` stops the
    /// clocks meanwhile: people's time does not count (PRO-06), and a login has a limit of its own.
    ///
    /// # Errors
    /// The failure where no login helps, otherwise why there was none.
    pub(super) async fn after<H>(
        &mut self,
        transport: &dyn Transport,
        error: McpError,
        hold: impl FnOnce() -> H,
    ) -> Result<(), McpError> {
        if !self.may_help(&error) {
            return Err(error);
        }
        self.done += 1;
        let _held = hold();
        transport.log_in(error).await
    }

    /// A token that was refused right after the login that gave it is not asked for once more. What may have run
    /// is not sent again.
    fn may_help(&self, error: &McpError) -> bool {
        if error.facts().delivered == Some(Delivery::Unknown) {
            return false;
        }
        match error.code() {
            ErrorCode::AuthRequired => self.done == 0,
            ErrorCode::AuthScopeInsufficient => self.done < MOST_LOGINS,
            _ => false,
        }
    }
}
