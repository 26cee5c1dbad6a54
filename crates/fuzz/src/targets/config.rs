//! Settings.

use broker::config::{BrokerConfig, parse_override, validate_topic_configs};

pub(super) fn settings(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    // Blank lines divide: the broker's own, dynamic ones, a topic's.
    let mut parts = text.splitn(3, "\n\n");
    let mut part = || -> Vec<(String, String)> {
        let lines = parts.next().unwrap_or_default().lines();
        lines.filter_map(|line| parse_override(line).ok()).collect()
    };
    let (own, dynamic, topic) = (part(), part(), part());
    let set = BrokerConfig::without_a_file().into_iter().chain(own).collect();
    let Ok(loaded) = BrokerConfig::from_properties(set, &|_| None) else { return };
    let dynamic = dynamic.into_iter().collect();
    let (config, _) = loaded.config.with_dynamic(&dynamic, &dynamic);
    let overrides = topic.into_iter().collect();
    if validate_topic_configs(&config, &overrides).is_ok() {
        let _ = config.log_config(&overrides);
    }
}
