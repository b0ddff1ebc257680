//! Whether an account may be controlled remotely at all (BRG-07). Pure: every fact is the host's.

use serde::Deserialize;

/// What the host knows of the account.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Account {
    /// Name of the subscription; none without one.
    pub subscription: Option<String>,
    /// Scopes of the token.
    pub scopes: Vec<String>,
    /// The organisation.
    pub organization_uuid: Option<String>,
    /// Whether the feature is switched on for the account.
    pub feature_enabled: bool,
}

impl Account {
    /// Why it may not, by the first layer that says so: subscription, profile, organisation, feature.
    pub fn disabled_reason(&self) -> Option<&'static str> {
        let given = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
        if !given(&self.subscription) {
            return Some("remote control needs a subscription; this account has none");
        }
        if !self.scopes.iter().any(|scope| scope == "profile" || scope.ends_with(":profile")) {
            return Some("remote control needs a full login; this token has no profile scope, log in again");
        }
        if !given(&self.organization_uuid) {
            return Some("remote control needs an organisation; this account belongs to none that is known");
        }
        if !self.feature_enabled {
            return Some("remote control is not switched on for this account");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brg_07_the_first_failing_layer_gives_the_reason() {
        let read = |text: &str| serde_json::from_str::<Account>(text).unwrap();
        let word = |text: &str| {
            let reason = read(text).disabled_reason();
            ["subscription", "profile scope", "organisation", "switched on"]
                .into_iter()
                .find(|word| reason.is_some_and(|reason| reason.contains(word)))
        };
        for (account, expected) in [
            (r"{}", Some("subscription")),
            (r#"{"subscription":null,"scopes":["user:profile"]}"#, Some("subscription")),
            (r#"{"subscription":" "}"#, Some("subscription")),
            (r#"{"subscription":"team","scopes":["user:inference"]}"#, Some("profile scope")),
            (r#"{"subscription":"team","scopes":["user:profile"]}"#, Some("organisation")),
            (r#"{"subscription":"team","scopes":["profile"],"organizationUuid":""}"#, Some("organisation")),
            (
                r#"{"subscription":"team","scopes":["user:profile"],"organizationUuid":"o"}"#,
                Some("switched on"),
            ),
            (
                r#"{"subscription":"team","scopes":["a","user:profile"],"organizationUuid":"o","featureEnabled":true}"#,
                None,
            ),
        ] {
            assert_eq!(word(account), expected, "{account}");
        }
    }
}
