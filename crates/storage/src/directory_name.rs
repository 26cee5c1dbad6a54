//! Names of partition directories (log-format 1.3).

use model::TopicPartition;
use platform::Random;

/// What a directory's name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryName {
    /// `<topic>-<partition>`: a log.
    Live(TopicPartition),
    /// `<topic>-<partition>.<uuid>-future`: a copy that will replace the log of another directory.
    Future(TopicPartition),
    /// `<topic>-<partition>.<uuid>-delete`: waits for its removal. The topic may be shortened.
    Delete,
    /// `<topic>-<partition>.<uuid>-stray`: kept, never served.
    Stray,
    /// Not a log: tiered storage's and KRaft's own, the file system's, hidden ones.
    Foreign,
}

/// `None` if it is no name that a log directory may contain.
pub(crate) fn parse(name: &str) -> Option<DirectoryName> {
    const FOREIGN: [&str; 3] = ["lost+found", "__cluster_metadata-0", "remote-log-index-cache"];
    if FOREIGN.contains(&name) || name.starts_with('.') {
        return Some(DirectoryName::Foreign);
    }
    for (suffix, is_future) in [("-delete", false), ("-stray", false), ("-future", true)] {
        let Some(stem) = name.strip_suffix(suffix) else { continue };
        let Some((stem, unique)) = stem.rsplit_once('.') else { break };
        if unique.is_empty() || unique.contains(char::is_whitespace) {
            return None;
        }
        let partition = parse_partition(stem)?;
        return Some(match suffix {
            "-delete" => DirectoryName::Delete,
            "-stray" => DirectoryName::Stray,
            _ if is_future => DirectoryName::Future(partition),
            _ => return None,
        });
    }
    parse_partition(name).map(DirectoryName::Live)
}

fn parse_partition(name: &str) -> Option<TopicPartition> {
    let (topic, partition) = name.rsplit_once('-')?;
    let is_number = !partition.is_empty() && partition.bytes().all(|byte| byte.is_ascii_digit());
    if topic.is_empty() || topic.contains(char::is_whitespace) || !is_number {
        return None;
    }
    Some(TopicPartition::new(topic, partition.parse().ok()?))
}

fn unique(random: &dyn Random) -> String {
    format!("{:016x}{:016x}", random.next_u64(), random.next_u64())
}

/// The name for a deleted log; the topic is shortened to fit into 255 bytes.
pub(crate) fn for_deletion(partition: &TopicPartition, random: &dyn Random) -> String {
    let suffix = format!("-{}.{}-delete", partition.partition, unique(random));
    let mut topic = &*partition.topic;
    while topic.len() + suffix.len() > 255 {
        topic = &topic[..topic.floor_char_boundary(topic.len() - 1)];
    }
    format!("{topic}{suffix}")
}

/// The name for a log that will replace another directory's.
pub(crate) fn for_future(partition: &TopicPartition, random: &dyn Random) -> String {
    format!("{partition}.{}-future", unique(random))
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::random::SeededRandom;

    #[test]
    fn names_are_read_as_kafka_reads_them() {
        let live = |topic: &str, n| Some(DirectoryName::Live(TopicPartition::new(topic, n)));
        assert_eq!(parse("a-b.c-12"), live("a-b.c", 12));
        assert_eq!(
            parse("t-0.f80c72de7ce84875a3a35238d9af560f-delete"),
            Some(DirectoryName::Delete)
        );
        assert_eq!(parse("t-0.f80c72de7ce84875a3a35238d9af560f-stray"), Some(DirectoryName::Stray));
        let future = Some(DirectoryName::Future(TopicPartition::new("t", 3)));
        assert_eq!(parse("t-3.f80c72de7ce84875a3a35238d9af560f-future"), future);
        for name in ["t", "t-", "-1", "t-x", "t-0.-delete", "t-x.abc-delete", "foo-delete", "t--"] {
            assert_eq!(parse(name), None, "{name}");
        }
        assert_eq!(parse("t--1"), live("t-", 1), "partitions are not negative");
        for name in ["lost+found", "__cluster_metadata-0", "remote-log-index-cache", ".snapshots"] {
            assert_eq!(parse(name), Some(DirectoryName::Foreign), "{name}");
        }
    }

    #[test]
    fn names_for_deletion_fit() {
        let partition = TopicPartition::new("t".repeat(249), 1234);
        let name = for_deletion(&partition, &SeededRandom::new(1));
        assert_eq!(name.len(), 255);
        assert_eq!(parse(&name), Some(DirectoryName::Delete));
        let name = for_future(&partition, &SeededRandom::new(1));
        assert_eq!(parse(&name), Some(DirectoryName::Future(partition)));
    }
}
