//! What TokenReview and SelfSubjectReview answer about a user.

use serde_json::{Map, Value, json};

use super::{TokenError, UserInfo};

/// The `status` of a TokenReview for a good token; `user` has all its groups, `audiences` are those of
/// the requested ones that the token is meant for.
pub fn token_accepted(user: &UserInfo, audiences: &[String]) -> Value {
    json!({"authenticated": true, "user": user_info(user), "audiences": audiences})
}

/// The `status` of a TokenReview for a bad token.
pub fn token_refused(error: &TokenError) -> Value {
    let error = match error {
        TokenError::NotOurs => error.to_string(),
        why => format!("[{}, {why}]", TokenError::NotOurs),
    };
    json!({"user": {}, "error": error})
}

/// The `status` of a SelfSubjectReview.
pub fn self_subject(user: &UserInfo) -> Value {
    json!({"userInfo": user_info(user)})
}

/// A user as `authentication.k8s.io/v1` writes it: what is empty is left out.
pub fn user_info(user: &UserInfo) -> Value {
    let mut fields = Map::new();
    fields.insert("username".into(), json!(user.name));
    fields.insert("uid".into(), json!(user.uid));
    fields.insert("groups".into(), json!(user.groups));
    fields.insert("extra".into(), json!(user.extra));
    fields.retain(|_, value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    });
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alice() -> UserInfo {
        UserInfo {
            name: "alice".into(),
            uid: "u-1".into(),
            groups: vec!["dev".into(), "system:authenticated".into()],
            extra: [("scope".to_owned(), vec!["a".to_owned(), "b".to_owned()])].into(),
        }
    }

    #[test]
    fn reviews_show_the_user() {
        let user = json!({
            "username": "alice", "uid": "u-1", "groups": ["dev", "system:authenticated"],
            "extra": {"scope": ["a", "b"]},
        });
        assert_eq!(self_subject(&alice()), json!({"userInfo": user}));
        let accepted = token_accepted(&alice(), &["api".into()]);
        assert_eq!(accepted, json!({"authenticated": true, "user": user, "audiences": ["api"]}));
    }

    #[test]
    fn empty_fields_are_left_out() {
        let user = UserInfo { name: "system:anonymous".into(), ..UserInfo::default() };
        assert_eq!(user_info(&user), json!({"username": "system:anonymous"}));
    }

    #[test]
    fn a_refusal_says_why() {
        let check = |error: TokenError, expected: &str| {
            assert_eq!(token_refused(&error), json!({"user": {}, "error": expected}));
        };
        check(TokenError::NotOurs, "invalid bearer token");
        check(TokenError::Expired, "[invalid bearer token, service account token has expired]");
    }
}
