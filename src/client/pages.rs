//! Every page of a list (PRO-09): bounded, never endless, never losing what was read.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::{Client, Request};
use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError};
use crate::json_scan::{self, Kind};
use crate::jsonrpc::RawText;
use crate::jsonrpc::write::{Params, push_member};
use crate::protocol::stateless::CacheHint;

/// Bounds of a list.
#[derive(Clone, Copy, Debug)]
pub struct ListLimits {
    /// Pages; default 1,000.
    pub pages: usize,
    /// Items; default 50,000.
    pub items: usize,
    /// Bytes of all pages but the last one, whose length is bounded as that of any message.
    pub bytes: usize,
}

impl Default for ListLimits {
    fn default() -> Self {
        Self { pages: 1_000, items: 50_000, bytes: 256 * 1024 * 1024 }
    }
}

/// All pages of one list, as they came.
#[derive(Debug, Default)]
pub struct Pages {
    pages: Vec<RawText>,
}

/// Takes the items and the cursor out of a page; `member` is `tools`, `prompts`, ….
struct Page<'a> {
    items: Vec<&'a RawValue>,
    /// The cursor as the JSON literal it came as: it goes back byte for byte (mcp:PAGE-01).
    next: Option<String>,
}

impl Pages {
    /// How long the list is fresh by the server's own hints: as long as its shortest-lived page (mcp:CACHE-12).
    pub fn fresh_for(&self) -> Option<Duration> {
        self.pages.iter().map(|page| CacheHint::read(page.as_str()).fresh_for).min()
    }

    /// The items of all pages in order.
    pub fn items(&self, member: &str) -> Vec<&RawValue> {
        self.pages
            .iter()
            .filter_map(|page| read_page(page.as_str(), member).ok())
            .flat_map(|page| page.items)
            .collect()
    }
}

/// Follows `nextCursor` to the end; an empty string is a cursor, only `null` or absence is the end (mcp:PAGE-02).
///
/// # Errors
/// `LIST_LIMIT` for too many pages, items or bytes or a cursor that repeats, `MESSAGE_INVALID` for an answer that is
/// no list, and whatever the requests fail with.
pub async fn read_all(
    client: &Client,
    method: &str,
    member: &str,
    deadline: &Arc<Deadline>,
    limits: ListLimits,
) -> Result<Pages, McpError> {
    let mut all = Pages::default();
    let mut seen = HashSet::new();
    let (mut items, mut bytes) = (0, 0);
    let mut cursor: Option<String> = None;
    loop {
        let params = cursor_params(cursor.as_deref());
        let text = client.request(Request::new(method, &params, deadline)).await?;
        deadline.touch();
        let page = read_page(text.as_str(), member).map_err(|why| {
            McpError::new(ErrorCode::MessageInvalid, format!("the answer to {method} {why}"))
                .on(client.server())
        })?;
        items += page.items.len();
        bytes += text.as_str().len();
        let next = page.next;
        all.pages.push(text);
        let fault = if items > limits.items {
            Some(format!("more than {} items (maxListItems)", limits.items))
        } else if next.is_some() && all.pages.len() >= limits.pages {
            Some(format!("more than {} pages (maxListPages)", limits.pages))
        } else if next.is_some() && bytes >= limits.bytes {
            Some(format!("more than {} bytes", limits.bytes))
        } else if next.as_ref().is_some_and(|next| !seen.insert(next.clone())) {
            Some("a cursor that comes again".to_owned())
        } else {
            None
        };
        if let Some(what) = fault {
            return Err(
                McpError::new(ErrorCode::ListLimit, format!("{method} gives {what}")).on(client.server())
            );
        }
        let Some(next) = next else { return Ok(all) };
        cursor = Some(next);
    }
}

fn cursor_params(cursor: Option<&str>) -> Params {
    let mut members = String::new();
    if let Some(cursor) = cursor {
        push_member(&mut members, "cursor", cursor);
    }
    Params::from_members(members, String::new())
}

fn read_page<'a>(text: &'a str, member: &str) -> Result<Page<'a>, &'static str> {
    if json_scan::kind(text) != Kind::Object {
        return Err("is not an object");
    }
    let [list, next] = json_scan::pick(text, [member, "nextCursor"]);
    let items = serde_json::from_str(list.ok_or("has no list")?).map_err(|_| "has no list")?;
    let next = match next.map(|next| (json_scan::kind(next), next)) {
        None | Some((Kind::Null, _)) => None,
        Some((Kind::String, next)) => Some(next.to_owned()),
        Some(_) => return Err("has a cursor that is not a string"),
    };
    Ok(Page { items, next })
}
