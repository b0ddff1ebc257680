//! Letters as JavaScript takes them: small ones joined into one JSON text, large ones alone.

use std::sync::{Arc, Mutex, OnceLock};

use napi::bindgen_prelude::{Either, Function, Utf16String};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;

use crate::host::mailbox::{Letter, Text};
use crate::host::post::PostOffice;
use crate::jsonrpc::write::push_string;
use crate::runtime;

/// A JSON text or string; UTF-16 where decoding would hold the JavaScript thread up.
pub(super) type JsText = Either<String, Utf16String>;

/// One letter with long strings outside of its JSON text.
#[napi(object)]
pub struct LargeLetter {
    /// JSON text of the letter.
    pub letter: JsText,
    /// Place of each long string: index of its content block.
    pub places: Vec<u32>,
    /// The long strings.
    pub texts: Vec<JsText>,
}

/// One delivery.
#[napi(object)]
pub struct Delivery {
    /// In order: JSON texts of arrays of letters, and large letters.
    pub parts: Vec<Either<JsText, LargeLetter>>,
    /// Whether more letters wait.
    pub more: bool,
}

/// Letters up to this size are joined: one crossing and one parse for many.
const JOIN_UP_TO: usize = 4 * 1024;

/// What waits, as JavaScript takes it: the JSON text of an array where that is all, as it is after a lone call.
pub(super) type Post = Either<String, Delivery>;

/// Rings JavaScript; whose letters it then takes is set once there is somebody.
pub(super) type Bell = (Box<dyn Fn() + Send + Sync>, Arc<OnceLock<Arc<PostOffice>>>);

/// The bell of a post office to come.
pub(super) fn bell(ring: &Function<'_, Post, ()>) -> napi::Result<Bell> {
    let office: Arc<OnceLock<Arc<PostOffice>>> = Arc::default();
    let source = Arc::clone(&office);
    // Weak and of one: a ring never keeps the process alive, and one that waits is enough.
    let ring = ring.build_threadsafe_function::<()>().weak::<true>().max_queue_size::<1>().build_callback(
        move |_| {
            let (letters, more) = source.get().map(|post| post.collect()).unwrap_or_default();
            Ok(pack(letters, more))
        },
    )?;
    let ring = Mutex::new(ring);
    let ring = move || {
        runtime::lock(&ring).call((), ThreadsafeFunctionCallMode::NonBlocking);
    };
    Ok((Box::new(ring), office))
}

pub(super) fn pack(letters: Vec<Letter>, more: bool) -> Post {
    let mut parts = Vec::new();
    let mut joined = String::new();
    for letter in letters {
        if letter.cost() <= JOIN_UP_TO
            && let Some(text) = plain_text(&letter)
        {
            joined.push(if joined.is_empty() { '[' } else { ',' });
            joined.push_str(&text);
            continue;
        }
        flush(&mut joined, &mut parts);
        parts.push(Either::B(large(letter)));
    }
    if parts.is_empty() && !more {
        joined.push_str(if joined.is_empty() { "[]" } else { "]" });
        return Either::A(joined);
    }
    flush(&mut joined, &mut parts);
    Either::B(Delivery { parts, more })
}

fn flush(joined: &mut String, parts: &mut Vec<Either<JsText, LargeLetter>>) {
    if !joined.is_empty() {
        joined.push(']');
        parts.push(Either::A(Either::A(std::mem::take(joined))));
    }
}

/// The letter as one JSON text; `None` where it has parts that are none.
fn plain_text(letter: &Letter) -> Option<std::borrow::Cow<'_, str>> {
    use std::borrow::Cow;
    match letter {
        Letter::Settled { body: Text::Utf8(body), texts } if texts.is_empty() => Some(Cow::Borrowed(body)),
        Letter::Settled { .. } => None,
        Letter::Progress { body, .. } | Letter::Question { body, .. } | Letter::Server { body, .. } => {
            Some(Cow::Borrowed(body))
        }
        Letter::Event(event) => {
            let mut text = String::with_capacity(event.body.len() + 48);
            text.push_str("{\"kind\":\"event\",\"name\":");
            push_string(&mut text, event.name);
            text.push_str(",\"value\":");
            text.push_str(&event.body);
            text.push('}');
            Some(Cow::Owned(text))
        }
        Letter::Withdrawn { question } => {
            Some(Cow::Owned(format!("{{\"kind\":\"withdrawn\",\"question\":{question}}}")))
        }
    }
}

fn large(letter: Letter) -> LargeLetter {
    let text = plain_text(&letter).map(std::borrow::Cow::into_owned);
    match letter {
        Letter::Settled { body, texts } => {
            let (places, texts) = texts.into_iter().map(|(place, text)| (place, to_js(text))).unzip();
            LargeLetter { letter: to_js(body), places, texts }
        }
        _ => LargeLetter {
            letter: Either::A(text.unwrap_or_else(|| "null".to_owned())),
            places: Vec::new(),
            texts: Vec::new(),
        },
    }
}

fn to_js(text: Text) -> JsText {
    match text {
        Text::Utf8(text) => Either::A(text),
        Text::Utf16(units) => Either::B(Utf16String::from(units)),
    }
}
