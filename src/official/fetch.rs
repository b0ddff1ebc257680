//! The registry over the network: page by page, within bounds, and from disk where that is enough or all there is.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, LOCATION};
use http::{Method, StatusCode};
use serde_json::value::RawValue;
use url::Url;

use super::Officials;
use super::cache::Cache;
use super::page::Page;
use crate::config::spec::{ProxyChoice, TlsSpec};
use crate::environment::Environment;
use crate::error::{ErrorCode, McpError};
use crate::runtime::{self, unix_millis};
use crate::transport::connector::Network;
use crate::transport::connector::client::{Request, Response, place};
use crate::transport::http::redirect::{self, MOST_HOPS, Next};
use crate::transport::http::response_body::{self, End};
use crate::url_guard::Guard;

/// Where the official registry is.
pub const OFFICIAL: &str = "https://registry.modelcontextprotocol.io/v0/servers";
/// How long what was fetched counts without being asked for again.
pub const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Entries of a page that are asked for; the most that the registry gives.
const PAGE_ENTRIES: &str = "100";
/// Largest page, and all of them, in bytes.
const PAGE_BYTES: usize = 8 * 1024 * 1024;
const ALL_BYTES: usize = 64 * 1024 * 1024;
/// Most pages.
const PAGES: usize = 1_000;
/// Longest wait for a connection, and for more of an answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// Longest time for all of it.
const ALL_TIME: Duration = Duration::from_secs(120);

/// Which registry, by which way, and where it is kept.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Address of the list.
    pub url: String,
    /// How old what is kept may be.
    pub max_age: Duration,
    /// Where it is kept; `None` for nowhere.
    pub directory: Option<PathBuf>,
    /// Trust.
    pub tls: Option<TlsSpec>,
    /// Detour.
    pub proxy: ProxyChoice,
    /// Environment of the host.
    pub environment: Arc<Environment>,
}

/// The registry, and how it was had.
#[derive(Debug)]
pub struct Listing {
    cache: Arc<Cache>,
    /// Whether all of it stood on disk.
    pub from_cache: bool,
    /// Why the registry itself was not to be had, where what is kept has to do.
    pub trouble: Option<McpError>,
}

impl Listing {
    fn entries(&self) -> impl Iterator<Item = &RawValue> {
        self.cache.pages.iter().flat_map(|page| page.servers.iter().map(AsRef::as_ref))
    }

    /// JSON text of `{servers, fromCache, fetchedAt}`.
    pub fn to_json(&self) -> String {
        let entries: Vec<&str> = self.entries().map(RawValue::get).collect();
        let (from_cache, at) = (self.from_cache, self.cache.fetched_at);
        format!("{{\"servers\":[{}],\"fromCache\":{from_cache},\"fetchedAt\":{at}}}", entries.join(","))
    }

    /// What is in it.
    pub fn officials(&self) -> Officials {
        Officials::read(self.entries().map(RawValue::get))
    }
}

/// Gets the registry: from disk while that is young enough, else from the network, else from disk all the same.
///
/// # Errors
/// `URL_REFUSED` for an address that may not be used; why the registry cannot be had, where nothing was kept.
pub async fn fetch(wanted: &Wanted) -> Result<Listing, McpError> {
    let url = Url::parse(wanted.url.trim()).map_err(|_| refused("it is no URL"))?;
    let guard = Guard::for_server(&url);
    guard.check(url.as_str(), "the address of the registry")?;
    let kept = kept(wanted).await.map(Arc::new);
    if let Some(cache) = kept.as_ref().filter(|cache| is_young(cache, wanted.max_age)) {
        return Ok(Listing { cache: Arc::clone(cache), from_cache: true, trouble: None });
    }
    let network = Network::guarded(
        wanted.tls.clone(),
        wanted.proxy.clone(),
        Arc::clone(&wanted.environment),
        PATIENCE,
        guard,
    );
    let asked = Asked { network, url: &url, kept: kept.as_deref() };
    let outcome = tokio::time::timeout(ALL_TIME, asked.pages()).await;
    match outcome
        .unwrap_or_else(|_| Err(too_much(&url, &format!("takes longer than {} s", ALL_TIME.as_secs()))))
    {
        Ok((pages, from_cache)) => {
            let cache = Arc::new(Cache::new(&wanted.url, unix_millis(), pages));
            keep(wanted, &cache).await;
            Ok(Listing { cache, from_cache, trouble: None })
        }
        Err(error) => match kept {
            Some(cache) => Ok(Listing { cache, from_cache: true, trouble: Some(error) }),
            None => Err(error),
        },
    }
}

fn refused(why: &str) -> McpError {
    McpError::new(ErrorCode::UrlRefused, format!("the address of the registry is not used: {why}"))
}

/// A clock that was set back makes nothing young.
fn is_young(cache: &Cache, max_age: Duration) -> bool {
    let age = unix_millis().checked_sub(cache.fetched_at);
    age.is_some_and(|age| u128::from(age) < max_age.as_millis())
}

async fn kept(wanted: &Wanted) -> Option<Cache> {
    let (directory, url) = (wanted.directory.clone()?, wanted.url.clone());
    let read = runtime::handle()?.spawn_blocking(move || Cache::read(&directory, &url));
    read.await.ok().flatten()
}

/// What cannot be kept is fetched again next time.
async fn keep(wanted: &Wanted, cache: &Arc<Cache>) {
    let (Some(directory), Some(runtime)) = (wanted.directory.clone(), runtime::handle()) else { return };
    let cache = Arc::clone(cache);
    let _ = runtime.spawn_blocking(move || cache.write(&directory)).await;
}

struct Asked<'a> {
    network: Network,
    url: &'a Url,
    kept: Option<&'a Cache>,
}

/// One page, or the news that the kept one still holds.
enum Answer {
    Page(Page, usize),
    Unchanged,
}

impl Asked<'_> {
    /// All pages, and whether each of them stood on disk.
    async fn pages(&self) -> Result<(Vec<Page>, bool), McpError> {
        let mut pages: Vec<Page> = Vec::new();
        let mut seen = HashSet::new();
        let (mut bytes, mut from_cache, mut cursor) = (0, true, None);
        loop {
            let known = self.kept.and_then(|kept| kept.pages.iter().find(|page| page.cursor == cursor));
            let page = match (self.page(cursor.clone(), known).await?, known) {
                (Answer::Unchanged, Some(known)) => known.clone(),
                (Answer::Unchanged, None) => {
                    return Err(self.malformed("nothing, where a page was asked for"));
                }
                (Answer::Page(page, length), _) => {
                    from_cache = false;
                    bytes += length;
                    page
                }
            };
            cursor.clone_from(&page.next);
            pages.push(page);
            let Some(next) = &cursor else { return Ok((pages, from_cache)) };
            if bytes > ALL_BYTES {
                return Err(too_much(self.url, &format!("is larger than {ALL_BYTES} bytes")));
            }
            if pages.len() >= PAGES {
                return Err(too_much(self.url, &format!("has more than {PAGES} pages")));
            }
            if !seen.insert(next.clone()) {
                return Err(too_much(self.url, "names the same next page twice"));
            }
        }
    }

    async fn page(&self, cursor: Option<String>, known: Option<&Page>) -> Result<Answer, McpError> {
        let etag =
            known.and_then(|page| page.etag.as_deref()).and_then(|etag| HeaderValue::from_str(etag).ok());
        let mut response = self.answer(self.address(cursor.as_deref()), etag).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED => return Ok(Answer::Unchanged),
            status => {
                let message = format!("{} was answered with status {}", place(self.url), status.as_u16());
                return Err(McpError::new(ErrorCode::HttpStatus, message)
                    .with(|facts| facts.status = Some(status.as_u16())));
            }
        }
        let (body, end) = response_body::read(&mut response, PAGE_BYTES).await;
        match end {
            End::Whole => {}
            End::TooLong => return Err(too_much(self.url, &format!("has a page above {PAGE_BYTES} bytes"))),
            End::Broken(why) => {
                let message = format!("the answer of {} broke off: {why}", place(self.url));
                return Err(McpError::new(ErrorCode::ConnectionLost, message));
            }
        }
        let etag = response.headers().get(ETAG).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let page = runtime::at_length(body.len(), || Page::read(&body, cursor, etag));
        page.map(|page| Answer::Page(page, body.len())).ok_or_else(|| self.malformed("no list of servers"))
    }

    /// The address of a page. What the host wrote in its own question stays.
    fn address(&self, cursor: Option<&str>) -> Url {
        let mut url = self.url.clone();
        let has = |name: &str| self.url.query_pairs().any(|(key, _)| key == name);
        let mut query = url.query_pairs_mut();
        for (name, value) in [("limit", PAGE_ENTRIES), ("version", "latest")] {
            if !has(name) {
                query.append_pair(name, value);
            }
        }
        if let Some(cursor) = cursor {
            query.append_pair("cursor", cursor);
        }
        drop(query);
        url
    }

    async fn answer(&self, mut url: Url, etag: Option<HeaderValue>) -> Result<Response, McpError> {
        for _ in 0..=MOST_HOPS {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            if let Some(etag) = &etag {
                headers.insert(IF_NONE_MATCH, etag.clone());
            }
            let request = Request { url: url.clone(), method: Method::GET, headers, body: Bytes::new() };
            let sent = tokio::time::timeout(PATIENCE, self.network.send(request)).await;
            let response = sent.unwrap_or_else(|_| Err(too_slow(self.url)))?;
            let location = response.headers().get(LOCATION).map(|value| value.as_bytes().to_vec());
            match redirect::next(&url, &Method::GET, response.status(), location.as_deref())? {
                Next::Follow(target) => url = target,
                Next::Here => return Ok(response),
            }
        }
        Err(redirect::too_many(self.url))
    }

    fn malformed(&self, what: &str) -> McpError {
        McpError::new(ErrorCode::MessageInvalid, format!("{} was answered with {what}", place(self.url)))
    }
}

fn too_slow(url: &Url) -> McpError {
    let message = format!("{} did not answer within {} s", place(url), PATIENCE.as_secs());
    McpError::new(ErrorCode::ConnectFailed, message)
}

fn too_much(url: &Url, what: &str) -> McpError {
    McpError::new(ErrorCode::ListLimit, format!("the registry {} {what}", place(url)))
}
