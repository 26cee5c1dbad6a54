//! What settings become when they are altered. Pure.

use crate::{ApiError, ConfigEdit, ConfigOp, ConfigOpKind, ConfigRules};
use metadata::ConfigEntity;
use protocol::ErrorCode;
use std::collections::BTreeMap;

/// All settings of `entity` after `edit`, and the names that were touched; checked by `rules`.
///
/// # Errors
/// What to tell the client; nothing is to be written then.
pub(crate) fn apply(
    rules: &dyn ConfigRules,
    entity: &ConfigEntity,
    before: &BTreeMap<String, String>,
    edit: &ConfigEdit,
) -> Result<BTreeMap<String, String>, ApiError> {
    let (after, mut edited) = match edit {
        ConfigEdit::Replace(values) => replace(values)?,
        ConfigEdit::Incremental(ops) => increment(rules, entity, before, ops)?,
    };
    if matches!(edit, ConfigEdit::Replace(_)) {
        edited.extend(before.keys().filter(|name| !after.contains_key(*name)).cloned());
    }
    rules.validate(entity, &after, &edited).map_err(|error| in_context(entity, edit, error))?;
    Ok(after)
}

/// Kafka names the resource of a value that does not fit, except where it checks a broker's settings
/// before it looks at the rest of an incremental request. The legacy request gets a code of its own.
fn in_context(entity: &ConfigEntity, edit: &ConfigEdit, error: ApiError) -> ApiError {
    let (kind, name) = match entity {
        ConfigEntity::Topic(name) => ("TOPIC", name.to_string()),
        ConfigEntity::Broker(id) => ("BROKER", id.to_string()),
        ConfigEntity::AllBrokers => ("BROKER", String::new()),
        ConfigEntity::ClientMetrics(name) => ("CLIENT_METRICS", name.to_string()),
    };
    let is_checked_first = kind == "BROKER" && matches!(edit, ConfigEdit::Incremental(_));
    // A subscription's settings are judged by KRaft's rules, which have no context.
    let is_subscription = matches!(entity, ConfigEntity::ClientMetrics(_));
    if error.code != ErrorCode::InvalidRequest || is_checked_first || is_subscription {
        return error;
    }
    let why = error.message.unwrap_or_default();
    let message = format!(
        "Invalid config value for resource ConfigResource(type={kind}, name='{name}'): {why}"
    );
    let code = match edit {
        ConfigEdit::Replace(_) => ErrorCode::InvalidConfig,
        ConfigEdit::Incremental(_) => ErrorCode::InvalidRequest,
    };
    ApiError::new(code, message)
}

type Edited = (BTreeMap<String, String>, Vec<String>);

fn replace(values: &[(String, Option<String>)]) -> Result<Edited, ApiError> {
    let null = values.iter().filter(|(_, value)| value.is_none());
    refuse_null(null.map(|(name, _)| name.as_str()).collect())?;
    let after: BTreeMap<_, _> =
        values.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect();
    let edited = after.keys().cloned().collect();
    Ok((after, edited))
}

fn refuse_null(names: Vec<&str>) -> Result<(), ApiError> {
    if names.is_empty() {
        return Ok(());
    }
    let message = format!("Null value not supported for : {}", names.join(", "));
    Err(ApiError::new(ErrorCode::InvalidRequest, message))
}

fn increment(
    rules: &dyn ConfigRules,
    entity: &ConfigEntity,
    before: &BTreeMap<String, String>,
    ops: &[ConfigOp],
) -> Result<Edited, ApiError> {
    let mut names: Vec<_> = ops.iter().map(|op| op.name.as_str()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(ApiError::new(ErrorCode::InvalidRequest, "Error due to duplicate config keys"));
    }
    let null = ops.iter().filter(|op| op.value.is_none() && op.kind != ConfigOpKind::Delete);
    refuse_null(null.map(|op| op.name.as_str()).collect())?;
    let mut after = before.clone();
    for op in ops {
        apply_op(rules, entity, &mut after, op)?;
    }
    Ok((after, ops.iter().map(|op| op.name.clone()).collect()))
}

fn apply_op(
    rules: &dyn ConfigRules,
    entity: &ConfigEntity,
    configs: &mut BTreeMap<String, String>,
    op: &ConfigOp,
) -> Result<(), ApiError> {
    let value = op.value.clone().unwrap_or_default();
    match op.kind {
        ConfigOpKind::Set => {
            configs.insert(op.name.clone(), value);
        }
        ConfigOpKind::Delete => {
            configs.remove(&op.name);
        }
        ConfigOpKind::Append | ConfigOpKind::Subtract => {
            let invalid = |message| Err(ApiError::new(ErrorCode::InvalidConfig, message));
            let appends = op.kind == ConfigOpKind::Append;
            match rules.is_list(entity, &op.name) {
                Some(true) => {}
                Some(false) => {
                    let verb = if appends { "append" } else { "subtract" };
                    return invalid(format!(
                        "Config value {verb} is not allowed for config key: {}",
                        op.name
                    ));
                }
                None => {
                    return invalid(format!("Unknown {} config name: {}", kind(entity), op.name));
                }
            }
            let current = configs
                .get(&op.name)
                .cloned()
                .or_else(|| rules.default_value(entity, &op.name))
                .unwrap_or_default();
            let operands = items(&value);
            let mut list: Vec<&str> = Vec::new();
            if appends {
                for item in items(&current).into_iter().chain(operands) {
                    if !list.contains(&item) {
                        list.push(item);
                    }
                }
            } else {
                list =
                    items(&current).into_iter().filter(|item| !operands.contains(item)).collect();
            }
            configs.insert(op.name.clone(), list.join(","));
        }
    }
    Ok(())
}

fn items(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
}

fn kind(entity: &ConfigEntity) -> &'static str {
    match entity {
        ConfigEntity::Topic(_) => "topic",
        ConfigEntity::Broker(_) | ConfigEntity::AllBrokers => "broker",
        ConfigEntity::ClientMetrics(_) => "client metrics",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::TopicName;

    #[derive(Debug)]
    struct Rules;

    impl ConfigRules for Rules {
        fn is_list(&self, _: &ConfigEntity, name: &str) -> Option<bool> {
            ["cleanup.policy", "retention.ms"].contains(&name).then(|| name == "cleanup.policy")
        }

        fn default_value(&self, _: &ConfigEntity, name: &str) -> Option<String> {
            (name == "cleanup.policy").then(|| "delete".into())
        }

        fn validate_new_topic(
            &self,
            _: &TopicName,
            _: &BTreeMap<String, String>,
        ) -> Result<(), ApiError> {
            Ok(())
        }

        fn validate(
            &self,
            _: &ConfigEntity,
            configs: &BTreeMap<String, String>,
            _: &[String],
        ) -> Result<(), ApiError> {
            match configs.get("retention.ms").is_some_and(|v| v.parse::<i64>().is_err()) {
                true => Err(ApiError::of(ErrorCode::InvalidConfig)),
                false => Ok(()),
            }
        }
    }

    fn edited(
        before: &[(&str, &str)],
        ops: &[(&str, ConfigOpKind, &str)],
    ) -> Result<String, ErrorCode> {
        let before = before.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let op = |&(name, kind, value): &(&str, ConfigOpKind, &str)| ConfigOp {
            name: name.into(),
            kind,
            value: Some(value.into()),
        };
        let edit = ConfigEdit::Incremental(ops.iter().map(op).collect());
        let entity = ConfigEntity::Topic("t".into());
        let after = apply(&Rules, &entity, &before, &edit).map_err(|e| e.code)?;
        Ok(after.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(";"))
    }

    use ConfigOpKind::{Append, Delete, Set, Subtract};

    #[test]
    fn list_operations_are_idempotent_and_start_from_the_default() {
        let append = ("cleanup.policy", Append, "compact");
        assert_eq!(edited(&[], &[append]), Ok("cleanup.policy=delete,compact".into()));
        let both = ("cleanup.policy", "delete,compact");
        assert_eq!(edited(&[both], &[append]), Ok("cleanup.policy=delete,compact".into()));
        let subtract = ("cleanup.policy", Subtract, "compact,none");
        assert_eq!(edited(&[both], &[subtract]), Ok("cleanup.policy=delete".into()));
        assert_eq!(
            edited(&[("cleanup.policy", "delete")], &[subtract]),
            Ok("cleanup.policy=delete".into())
        );
    }

    #[test]
    fn appending_to_what_is_no_list_is_an_invalid_config() {
        for name in ["retention.ms", "no.such.key"] {
            assert_eq!(
                edited(&[], &[(name, Append, "1")]),
                Err(ErrorCode::InvalidConfig),
                "{name}"
            );
            assert_eq!(
                edited(&[], &[(name, Subtract, "1")]),
                Err(ErrorCode::InvalidConfig),
                "{name}"
            );
        }
    }

    #[test]
    fn set_and_delete_touch_one_setting_and_the_whole_is_checked() {
        let before = [("a", "1"), ("b", "2")];
        assert_eq!(edited(&before, &[("b", Set, "3"), ("a", Delete, "")]), Ok("b=3".into()));
        assert_eq!(edited(&[], &[("retention.ms", Set, "x")]), Err(ErrorCode::InvalidConfig));
        let twice = [("a", Set, "1"), ("a", Set, "2")];
        assert_eq!(edited(&[], &twice), Err(ErrorCode::InvalidRequest));
    }

    #[test]
    fn the_legacy_alteration_resets_what_it_does_not_name() {
        let before = [("a".to_owned(), "1".to_owned()), ("b".into(), "2".into())].into();
        let entity = ConfigEntity::Topic("t".into());
        let replace = ConfigEdit::Replace(vec![("b".into(), Some("3".into()))]);
        let after = apply(&Rules, &entity, &before, &replace).unwrap();
        assert_eq!(after, [("b".to_owned(), "3".to_owned())].into());
        let null = ConfigEdit::Replace(vec![("b".into(), None)]);
        assert_eq!(
            apply(&Rules, &entity, &before, &null).unwrap_err().code,
            ErrorCode::InvalidRequest
        );
    }
}
