use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::record::VERSION;
use super::*;
use crate::secret::Secret;
use crate::transport::BoxFuture;
use crate::transport::in_process::{Channels, Script, Word};

/// A host that keeps records and notes what it is told.
#[derive(Default)]
struct Listening {
    heard: Mutex<Vec<Value>>,
    kept: Mutex<HashMap<String, String>>,
    /// Whether it has a lock, and whether that is ever had.
    locks: Option<bool>,
    /// What was asked of the lock.
    asked: Mutex<Vec<String>>,
    channels: Channels,
}

impl Listening {
    /// Level and code of what was told since the last time.
    fn heard(&self) -> Vec<String> {
        let heard = std::mem::take(&mut *lock(&self.heard));
        heard.iter().map(|one| format!("{} {}", text(&one["level"]), text(&one["code"]))).collect()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

impl Script for Listening {
    fn channels(&self) -> &Channels {
        &self.channels
    }
    fn say(&self, _channel: u32, _word: Word, _room: usize) -> Result<(), usize> {
        Ok(())
    }
}

impl Host for Listening {
    fn emit(&self, event: HostEvent) {
        assert_eq!(event.name, "diagnostic");
        lock(&self.heard).push(serde_json::from_str(&event.body).unwrap());
    }
    fn can_answer(&self, _kind: QuestionKind) -> bool {
        self.locks.is_some()
    }
    fn ask(&self, kind: QuestionKind, body: String) -> BoxFuture<'_, Result<String, McpError>> {
        let body: Value = serde_json::from_str(&body).unwrap();
        if let QuestionKind::StoreLock | QuestionKind::StoreUnlock = kind {
            lock(&self.asked).push(format!("{} {}", kind.callback(), body["hold"]));
            let grants = kind == QuestionKind::StoreUnlock || self.locks == Some(true);
            return Box::pin(
                async move { if grants { Ok("null".into()) } else { std::future::pending().await } },
            );
        }
        let key = text(&body["key"]).to_owned();
        let mut kept = lock(&self.kept);
        let answer = match kind {
            QuestionKind::StoreGet => json!(kept.get(&key)).to_string(),
            QuestionKind::StoreSet => {
                kept.insert(key, text(&body["value"]).to_owned());
                "null".into()
            }
            _ => {
                kept.remove(&key);
                "null".into()
            }
        };
        Box::pin(async move { Ok(answer) })
    }
}

/// A keychain that does what it is told.
#[derive(Default)]
struct TestKeychain {
    items: Mutex<HashMap<String, Secret<String>>>,
    trouble: Mutex<Option<Trouble>>,
    hangs: bool,
    contacts: AtomicUsize,
}

impl TestKeychain {
    fn broken(trouble: Trouble) -> Arc<Self> {
        Arc::new(Self { trouble: Mutex::new(Some(trouble)), ..Self::default() })
    }

    async fn contact(&self) -> Result<(), Trouble> {
        self.contacts.fetch_add(1, Ordering::SeqCst);
        if self.hangs {
            std::future::pending::<()>().await;
        }
        lock(&self.trouble).clone().map_or(Ok(()), Err)
    }
}

impl Keychain for TestKeychain {
    fn get<'a>(&'a self, account: &'a str) -> BoxFuture<'a, Result<Option<Secret<String>>, Trouble>> {
        Box::pin(async move {
            self.contact().await?;
            Ok(lock(&self.items).get(account).cloned())
        })
    }
    fn set<'a>(&'a self, account: &'a str, secret: Secret<String>) -> BoxFuture<'a, Result<(), Trouble>> {
        Box::pin(async move {
            self.contact().await?;
            lock(&self.items).insert(account.to_owned(), secret);
            Ok(())
        })
    }
}

/// A state directory that goes with the test.
struct State(PathBuf);

impl State {
    fn new(name: &str) -> Self {
        let unique = format!("mcp-switchboard-tokens-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn store(&self, sealing: Sealing) -> (TokenStore, Arc<Listening>) {
        let host = Arc::new(Listening::default());
        (TokenStore::in_files(&self.0, sealing, Arc::<Listening>::clone(&host)), host)
    }

    fn plain(&self) -> TokenStore {
        self.store(Sealing::Off).0
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join("tokens").join(name)
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file("k.json")).unwrap()
    }

    fn write(&self, text: &str) {
        std::fs::create_dir_all(self.0.join("tokens")).unwrap();
        std::fs::write(self.file("k.json"), text).unwrap();
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn slot(key: &str) -> Slot {
    Slot { key: key.to_owned(), server: "w".into() }
}

fn record(token: &str) -> Record {
    Record { version: VERSION, access_token: Some(token.to_owned()), ..Record::default() }
}

/// The token of the record, `-` where there is none, `!` where it is out of reach.
fn token(kept: Result<Kept, McpError>) -> String {
    match kept.unwrap() {
        Kept::Nothing => "-".into(),
        Kept::TakenOver => "!".into(),
        Kept::Record(record) => record.token().unwrap_or_default().to_owned(),
    }
}

#[cfg(unix)]
#[tokio::test]
async fn b_145_oau_03_files_are_private_and_links_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let state = State::new("private");
    let keychain = Arc::new(TestKeychain::default());
    for sealing in [Sealing::Off, Sealing::Required(keychain)] {
        let (store, _) = state.store(sealing);
        store.set(&slot("k"), &record("t1")).await.unwrap();
        assert_eq!(token(store.get(&slot("k")).await), "t1");
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(state.0.join("tokens")), mode(state.file("k.json"))), (0o700, 0o600));
        let target = state.0.join("target");
        std::fs::write(&target, "untouched").unwrap();
        std::os::unix::fs::symlink(&target, state.file("l.json")).unwrap();
        let error = store.set(&slot("l"), &record("t2")).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::AuthStoreFailed);
        assert!(store.get(&slot("l")).await.is_err());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "untouched");
        store.delete(&slot("k")).await.unwrap();
        assert_eq!(token(store.get(&slot("k")).await), "-");
        std::fs::remove_file(state.file("l.json")).unwrap();
    }
}

#[tokio::test]
async fn oau_03_broken_records_are_put_aside_and_later_ones_left_alone() {
    let state = State::new("broken");
    for sealing in [Sealing::Off, Sealing::Wanted(Arc::new(TestKeychain::default()))] {
        let (store, host) = state.store(sealing);
        state.write("{ not json");
        assert_eq!(token(store.open(&slot("k")).await), "-");
        assert!(state.file("k.corrupt").exists() && !state.file("k.json").exists());
        let told = lock(&host.heard)[0].clone();
        assert_eq!(told["file"], state.file("k.corrupt").display().to_string());
        assert_eq!((text(&told["server"]), host.heard()), ("w", vec!["warning LOGIN_UNREADABLE".to_owned()]));

        let later = r#"{"version":99,"accessToken":"x"}"#;
        state.write(later);
        assert_eq!(token(store.open(&slot("k")).await), "!");
        store.set(&slot("k"), &record("own")).await.unwrap();
        assert_eq!(state.text(), later, "what a later version wrote is not overwritten");
        assert_eq!(token(store.get(&slot("k")).await), "own");
        assert_eq!(store.kind(&slot("k")), "memory");
        assert_eq!(host.heard(), ["warning LOGIN_OUT_OF_REACH"], "told once");
        store.delete(&slot("k")).await.unwrap();
        assert!(!state.file("k.json").exists(), "a logout is a logout");

        state.write("also broken");
        assert_eq!(token(store.get(&slot("k")).await), "-");
        assert_eq!(std::fs::read_to_string(state.file("k.corrupt")).unwrap(), "{ not json");
        assert_eq!(std::fs::read_to_string(state.file("k.corrupt-2")).unwrap(), "also broken");
        std::fs::remove_file(state.file("k.corrupt")).unwrap();
        std::fs::remove_file(state.file("k.corrupt-2")).unwrap();
    }
}

#[tokio::test]
async fn oau_03_a_host_s_records_are_not_overwritten_either() {
    let host = Arc::new(Listening::default());
    let store = TokenStore::with_host(Arc::<Listening>::clone(&host));
    let later = r#"{"version":99}"#;
    lock(&host.kept).insert("k".into(), later.into());
    assert_eq!(token(store.open(&slot("k")).await), "!");
    store.set(&slot("k"), &record("own")).await.unwrap();
    assert_eq!((lock(&host.kept)["k"].as_str(), store.kind(&slot("k"))), (later, "memory"));
    assert_eq!(token(store.get(&slot("k")).await), "own");
    lock(&host.kept).insert("l".into(), "broken".into());
    assert_eq!(token(store.open(&slot("l")).await), "-");
    store.set(&slot("l"), &record("own")).await.unwrap();
    assert_eq!(store.kind(&slot("l")), "host");
    assert_eq!(host.heard(), ["warning LOGIN_OUT_OF_REACH", "warning LOGIN_UNREADABLE"]);
}

#[tokio::test]
async fn a_17_oau_03_records_are_sealed_with_a_key_of_the_keychain() {
    let state = State::new("sealed");
    let keychain = Arc::new(TestKeychain::default());
    let (store, host) = state.store(Sealing::Wanted(Arc::<TestKeychain>::clone(&keychain)));
    assert_eq!(token(store.open(&slot("k")).await), "-");
    assert_eq!(keychain.contacts.load(Ordering::SeqCst), 0, "nothing is asked before it is needed");
    let long = format!("secret-token-{}", "x".repeat(4_000));
    store.set(&slot("k"), &record(&long)).await.unwrap();
    assert_eq!(store.kind(&slot("k")), "keychain");
    assert!(!state.text().contains("secret-token"));
    let contacts = keychain.contacts.load(Ordering::SeqCst);
    assert_eq!(token(store.get(&slot("k")).await), long);
    assert_eq!(keychain.contacts.load(Ordering::SeqCst), contacts, "the key is asked for once");
    assert_eq!(lock(&keychain.items).len(), 1);
    // Another process, and one whose file with the key's name was lost.
    for _ in 0..2 {
        let (other, _) = state.store(Sealing::Required(Arc::<TestKeychain>::clone(&keychain)));
        assert_eq!(token(other.open(&slot("k")).await), long);
        other.set(&slot("l"), &record("t")).await.unwrap();
        assert_eq!(lock(&keychain.items).len(), 1, "one key for all records");
        std::fs::remove_file(state.file("sealing-key")).unwrap();
    }
    // A record in the place of another is none.
    std::fs::copy(state.file("k.json"), state.file("m.json")).unwrap();
    assert_eq!(token(store.get(&slot("m")).await), "-");
    assert_eq!(host.heard(), ["warning LOGIN_UNREADABLE"]);
}

#[tokio::test]
async fn oau_03_plain_records_are_sealed_once_there_is_a_keychain() {
    let state = State::new("migrated");
    state.plain().set(&slot("k"), &record("secret-token")).await.unwrap();
    let keychain = Arc::new(TestKeychain::default());
    let (store, host) = state.store(Sealing::Wanted(Arc::<TestKeychain>::clone(&keychain)));
    assert_eq!(token(store.open(&slot("k")).await), "secret-token");
    assert_eq!(store.kind(&slot("k")), "keychain");
    assert!(!state.text().contains("secret-token"));
    assert_eq!(host.heard(), ["info LOGIN_SEALED"]);
    assert_eq!(token(store.open(&slot("k")).await), "secret-token");
    assert!(host.heard().is_empty());
    // And back: `file` asks no keychain, so the sealed login is moved aside and told of.
    let (plain, host) = state.store(Sealing::Off);
    assert_eq!(token(plain.open(&slot("k")).await), "-");
    assert_eq!(host.heard(), ["warning LOGIN_UNREADABLE"]);
    assert!(state.file("k.corrupt").exists());
}

#[tokio::test]
async fn oau_03_a_login_whose_key_is_gone_is_moved_aside() {
    let state = State::new("gone");
    let keychain = Arc::new(TestKeychain::default());
    let sealing = || Sealing::Wanted(Arc::<TestKeychain>::clone(&keychain));
    state.store(sealing()).0.set(&slot("k"), &record("t1")).await.unwrap();
    lock(&keychain.items).clear();
    let (store, host) = state.store(sealing());
    assert_eq!(token(store.open(&slot("k")).await), "-");
    assert_eq!(host.heard(), ["warning LOGIN_UNREADABLE"]);
    assert!(state.file("k.corrupt").exists());
    store.set(&slot("k"), &record("t2")).await.unwrap();
    assert_eq!(token(state.store(sealing()).0.open(&slot("k")).await), "t2", "with a new key");
}

#[tokio::test]
async fn g18_f_065_without_a_keychain_auto_is_plain_and_keychain_is_memory() {
    for trouble in [Trouble::Absent, Trouble::Locked, Trouble::Failed("it answers Oops".into())] {
        let state = State::new("fallback");
        let (store, host) = state.store(Sealing::Wanted(TestKeychain::broken(trouble.clone())));
        store.set(&slot("k"), &record("t1")).await.unwrap();
        assert_eq!((store.kind(&slot("k")), token(store.get(&slot("k")).await)), ("file", "t1".into()));
        assert!(state.text().contains("t1"));
        let message = text(&lock(&host.heard)[0]["message"]).to_owned();
        assert!(message.contains(&trouble.to_string()) && message.contains("not encrypted"), "{message}");
        assert_eq!(host.heard(), ["info KEYCHAIN_UNAVAILABLE"]);

        let state = State::new("fallback-memory");
        let (store, host) = state.store(Sealing::Required(TestKeychain::broken(trouble)));
        store.set(&slot("k"), &record("t1")).await.unwrap();
        store.set(&slot("k"), &record("t2")).await.unwrap();
        assert_eq!((store.kind(&slot("k")), token(store.get(&slot("k")).await)), ("memory", "t2".into()));
        assert!(!state.file("k.json").exists(), "nothing plain is written");
        assert_eq!(host.heard(), ["warning KEYCHAIN_UNAVAILABLE"], "told once");
    }
}

#[tokio::test]
async fn q8_a_sealed_login_is_left_alone_while_the_keychain_cannot_be_used() {
    let state = State::new("out-of-reach");
    let keychain = Arc::new(TestKeychain::default());
    let sealing = || Sealing::Wanted(Arc::<TestKeychain>::clone(&keychain));
    state.store(sealing()).0.set(&slot("k"), &record("sealed")).await.unwrap();
    let file = state.text();
    *lock(&keychain.trouble) = Some(Trouble::Locked);
    let (store, host) = state.store(sealing());
    assert_eq!(token(store.open(&slot("k")).await), "!");
    assert_eq!(host.heard(), ["info KEYCHAIN_UNAVAILABLE", "warning LOGIN_OUT_OF_REACH"]);
    store.set(&slot("k"), &record("own")).await.unwrap();
    assert_eq!((store.kind(&slot("k")), token(store.get(&slot("k")).await)), ("memory", "own".into()));
    assert_eq!(state.text(), file);
    *lock(&keychain.trouble) = None;
    assert_eq!(token(state.store(sealing()).0.open(&slot("k")).await), "sealed");
}

#[tokio::test]
async fn a_1_who_lost_the_record_to_another_does_not_present_what_it_knew() {
    let state = State::new("taken-over");
    let store = state.plain();
    store.set(&slot("k"), &record("t1")).await.unwrap();
    let keychain = Arc::new(TestKeychain::default());
    let (sealer, _) = state.store(Sealing::Wanted(Arc::<TestKeychain>::clone(&keychain)));
    assert_eq!(token(sealer.open(&slot("k")).await), "t1");
    let (outsider, _) = state.store(Sealing::Wanted(TestKeychain::broken(Trouble::Absent)));
    assert_eq!(token(outsider.get(&slot("k")).await), "!");
    std::fs::remove_file(state.file("k.json")).unwrap();
    assert_eq!(token(store.get(&slot("k")).await), "!", "somebody logged out");
    assert_eq!(token(store.get(&slot("k")).await), "-");
}

#[tokio::test(start_paused = true)]
async fn f_065_a_keychain_that_hangs_delays_once_and_is_left_alone_for_a_while() {
    let state = State::new("hanging");
    state.plain().set(&slot("k"), &record("t1")).await.unwrap();
    let keychain = Arc::new(TestKeychain { hangs: true, ..TestKeychain::default() });
    let (store, host) = state.store(Sealing::Wanted(Arc::<TestKeychain>::clone(&keychain)));
    let store = Arc::new(store);
    let start = Instant::now();
    let servers: Vec<_> = (0..20)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { token(store.open(&slot("k")).await) })
        })
        .collect();
    for server in servers {
        assert_eq!(server.await.unwrap(), "t1");
    }
    assert!(start.elapsed() <= Duration::from_secs(5), "{:?}", start.elapsed());
    let asked = Instant::now();
    store.set(&slot("k"), &record("t2")).await.unwrap();
    assert_eq!(token(store.open(&slot("k")).await), "t2");
    assert!(asked.elapsed() < Duration::from_secs(1));
    assert_eq!((keychain.contacts.load(Ordering::SeqCst), store.kind(&slot("k"))), (1, "file"));
    assert_eq!(host.heard(), ["info KEYCHAIN_UNAVAILABLE"]);
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!(token(store.open(&slot("k")).await), "t2");
    assert_eq!(keychain.contacts.load(Ordering::SeqCst), 2, "it is asked again later");
}

#[tokio::test]
async fn oau_03_many_stores_make_one_key() {
    let state = State::new("one-key");
    let keychain = Arc::new(TestKeychain::default());
    let stores: Vec<_> = (0..8)
        .map(|number| {
            let (store, _) = state.store(Sealing::Wanted(Arc::<TestKeychain>::clone(&keychain)));
            tokio::spawn(async move { store.set(&slot(&format!("k{number}")), &record("t")).await.unwrap() })
        })
        .collect();
    for store in stores {
        store.await.unwrap();
    }
    assert_eq!(lock(&keychain.items).len(), 1);
}

#[tokio::test]
async fn a_1_one_renews_at_a_time_across_stores() {
    let state = State::new("lock");
    let (one, other) = (state.plain(), state.plain());
    let held = one.lock(&slot("k")).await.unwrap();
    let waiting = tokio::spawn(async move {
        drop(other.lock(&slot("k")).await.unwrap());
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    drop(held);
    waiting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn oau_03_a_lock_of_the_host_that_was_asked_for_is_given_back_however_that_ends() {
    let locking = |grants| Arc::new(Listening { locks: Some(grants), ..Listening::default() });
    let asked = async |host: &Listening| {
        tokio::time::sleep(Duration::from_millis(1)).await;
        std::mem::take(&mut *lock(&host.asked))
    };
    let host = locking(true);
    let store = TokenStore::with_host(Arc::<Listening>::clone(&host));
    let held = store.lock(&slot("k")).await.unwrap();
    assert_eq!(asked(&host).await, ["tokenStore.lock 0"]);
    drop(held);
    assert_eq!(asked(&host).await, ["tokenStore.unlock 0"]);
    let host = locking(false);
    let store = TokenStore::with_host(Arc::<Listening>::clone(&host));
    let error = store.lock(&slot("k")).await.err().unwrap();
    assert_eq!(error.code(), ErrorCode::AuthStoreFailed);
    assert_eq!(asked(&host).await, ["tokenStore.lock 0", "tokenStore.unlock 0"], "it took too long");
    let given_up = tokio::time::timeout(Duration::from_secs(1), store.lock(&slot("k"))).await;
    assert!(given_up.is_err());
    assert_eq!(asked(&host).await, ["tokenStore.lock 1", "tokenStore.unlock 1"], "it was withdrawn");
}
