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
            Err(RequestFailure::Transport(error)) if self.may_help(&error) => error,
            other => return ControlFlow::Break(other),
        };
        self.done += 1;
        // People's time does not count (PRO-06); a login has a limit of its own.
        let held = deadline.hold();
        let outcome = transport.log_in(error).await;
        drop(held);
        match outcome {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Err(RequestFailure::Transport(error))),
        }
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
