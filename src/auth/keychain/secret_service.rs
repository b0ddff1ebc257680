//! The keychain of Linux desktops and other Unix systems: the Secret Service on the session bus.
//!
//! The bus is found by its address alone; none is ever started. Secrets travel in a `plain` session: the bus is a
//! socket of this user, and who can listen there can ask the service itself. Nobody is prompted: what needs a person
//! is `Locked`.

use std::collections::HashMap;
use std::path::Path;

use zbus::{Connection, Error, ObjectPath, OwnedObjectPath, OwnedVariant, Variant, fdo};

use super::{Keychain, SERVICE, Trouble};
use crate::environment::Environment;
use crate::secret::Secret;
use crate::transport::BoxFuture;

const BUS_NAME: &str = "org.freedesktop.secrets";
const SERVICE_PATH: &str = "/org/freedesktop/secrets";
const SERVICE_INTERFACE: &str = "org.freedesktop.Secret.Service";
const COLLECTION_INTERFACE: &str = "org.freedesktop.Secret.Collection";
const IS_LOCKED: &str = "org.freedesktop.Secret.Error.IsLocked";
/// The path that stands for none.
const NONE: &str = "/";

/// Session, parameters, value, content type: `(oayays)`.
type Wrapped = (OwnedObjectPath, Vec<u8>, Vec<u8>, String);
type Paths = Vec<OwnedObjectPath>;

/// Talks to the Secret Service, one connection for each question.
pub(super) struct SecretService {
    address: Option<String>,
}

impl SecretService {
    pub(super) fn new(environment: &Environment) -> Self {
        let named = environment.get("DBUS_SESSION_BUS_ADDRESS").filter(|text| !text.is_empty());
        // Where nothing is said the bus of the user's session is at a known place, if it is anywhere.
        let known = || {
            let socket = Path::new(environment.get("XDG_RUNTIME_DIR")?).join("bus");
            Some(format!("unix:path={}", socket.to_str()?))
        };
        Self { address: named.map(str::to_owned).or_else(known) }
    }

    async fn open(&self) -> Result<Talk, Trouble> {
        // A list is tried in order by the rules; the first is the one in all practice.
        let address = self.address.as_deref().and_then(|list| list.split(';').next());
        let address = address.ok_or(Trouble::Absent)?;
        let bus = zbus::connection::Builder::address(address).build().await;
        let bus = bus.map_err(|_| Trouble::Absent)?;
        let (_, session): (OwnedVariant, OwnedObjectPath) =
            call(&bus, SERVICE_PATH, SERVICE_INTERFACE, "OpenSession", &("plain", Variant::from(""))).await?;
        Ok(Talk { bus, session })
    }
}

/// A session with the service.
struct Talk {
    bus: Connection,
    session: OwnedObjectPath,
}

impl Talk {
    async fn find(&self, account: &str) -> Result<Option<Secret<String>>, Trouble> {
        // A second look, where the first one unlocked something.
        for _ in 0..2 {
            let (open, locked): (Paths, Paths) = self.service("SearchItems", &(attributes(account),)).await?;
            if let Some(item) = open.into_iter().next() {
                return self.secret(item).await.map(Some);
            }
            if locked.is_empty() {
                // A locked collection may hide what it holds: only an open one says that there is nothing.
                let collection = self.collection().await?;
                if !self.is_locked(&collection).await? {
                    return Ok(None);
                }
                self.unlock(&[collection]).await?;
            } else {
                self.unlock(&locked).await?;
            }
        }
        Err(Trouble::Locked)
    }

    async fn secret(&self, item: OwnedObjectPath) -> Result<Secret<String>, Trouble> {
        let mut found: HashMap<OwnedObjectPath, Wrapped> =
            self.service("GetSecrets", &(vec![&item], &self.session)).await?;
        let (_, _, value, _) = found.remove(&item).ok_or(Trouble::Locked)?;
        String::from_utf8(value).map(Secret::new).map_err(|_| Trouble::Failed("it holds no text".into()))
    }

    async fn keep(&self, account: &str, secret: &Secret<String>) -> Result<(), Trouble> {
        let collection = self.collection().await?;
        if self.is_locked(&collection).await? {
            self.unlock(std::slice::from_ref(&collection)).await?;
        }
        let properties = HashMap::from([
            ("org.freedesktop.Secret.Item.Label", Variant::from("mcp-switchboard: key of kept logins")),
            ("org.freedesktop.Secret.Item.Attributes", Variant::from(attributes(account))),
        ]);
        let value = secret.expose().as_bytes();
        let wrapped = (&self.session, Vec::<u8>::new(), value, "text/plain");
        let (_, prompt): (OwnedObjectPath, OwnedObjectPath) = call(
            &self.bus,
            collection.as_str(),
            COLLECTION_INTERFACE,
            "CreateItem",
            &(properties, wrapped, true),
        )
        .await?;
        self.without_prompt(&prompt).await
    }

    /// The collection for what belongs nowhere else.
    async fn collection(&self) -> Result<OwnedObjectPath, Trouble> {
        let path: OwnedObjectPath = self.service("ReadAlias", &("default",)).await?;
        if path.as_str() == NONE { Err(Trouble::Absent) } else { Ok(path) }
    }

    async fn is_locked(&self, collection: &ObjectPath<'_>) -> Result<bool, Trouble> {
        let interface = "org.freedesktop.DBus.Properties";
        let locked: OwnedVariant =
            call(&self.bus, collection.as_str(), interface, "Get", &(COLLECTION_INTERFACE, "Locked")).await?;
        bool::try_from(locked).map_err(|_| Trouble::Failed("it answers against the rules".into()))
    }

    /// Unlocks what needs no person for it.
    async fn unlock(&self, paths: &[OwnedObjectPath]) -> Result<(), Trouble> {
        let (_, prompt): (Paths, OwnedObjectPath) = self.service("Unlock", &(paths,)).await?;
        self.without_prompt(&prompt).await
    }

    async fn without_prompt(&self, prompt: &OwnedObjectPath) -> Result<(), Trouble> {
        if prompt.as_str() == NONE {
            return Ok(());
        }
        let interface = "org.freedesktop.Secret.Prompt";
        let _: Result<(), Trouble> = call(&self.bus, prompt.as_str(), interface, "Dismiss", &()).await;
        Err(Trouble::Locked)
    }

    async fn service<B, R>(&self, method: &str, body: &B) -> Result<R, Trouble>
    where
        B: serde::Serialize + zbus::DynamicType,
        R: serde::de::DeserializeOwned + zbus::Type,
    {
        call(&self.bus, SERVICE_PATH, SERVICE_INTERFACE, method, body).await
    }
}

async fn call<B, R>(
    bus: &Connection,
    path: &str,
    interface: &str,
    method: &str,
    body: &B,
) -> Result<R, Trouble>
where
    B: serde::Serialize + zbus::DynamicType,
    R: serde::de::DeserializeOwned + zbus::Type,
{
    let answer = bus.call_method(Some(BUS_NAME), path, Some(interface), method, body).await;
    answer.and_then(|answer| answer.body().deserialize()).map_err(|error| trouble(&error))
}

fn attributes(account: &str) -> HashMap<&str, &str> {
    HashMap::from([("service", SERVICE), ("username", account)])
}

/// What an error means; its free text is not repeated.
fn trouble(error: &Error) -> Trouble {
    match error {
        Error::MethodError(name, ..) if name.as_str() == IS_LOCKED => Trouble::Locked,
        Error::MethodError(name, ..) => Trouble::Failed(format!("it answers {}", name.as_str())),
        Error::FDO(error) => match &**error {
            fdo::Error::NoReply(_) | fdo::Error::Timeout(_) | fdo::Error::TimedOut(_) => Trouble::Late,
            fdo::Error::AccessDenied(_) => Trouble::Failed("the session bus denies access".into()),
            // No service, one that cannot be started, or a bus that goes away.
            _ => Trouble::Absent,
        },
        Error::InputOutput(_) => Trouble::Absent,
        _ => Trouble::Failed("it answers against the rules".into()),
    }
}

impl Keychain for SecretService {
    fn get<'a>(&'a self, account: &'a str) -> BoxFuture<'a, Result<Option<Secret<String>>, Trouble>> {
        Box::pin(async move { self.open().await?.find(account).await })
    }

    fn set<'a>(&'a self, account: &'a str, secret: Secret<String>) -> BoxFuture<'a, Result<(), Trouble>> {
        Box::pin(async move { self.open().await?.keep(account, &secret).await })
    }
}
