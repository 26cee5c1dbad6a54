use crate::*;
use model::{BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId, TopicPartition};

fn partition(index: i32, leader: i32, epoch: i32) -> PartitionDelta {
    PartitionDelta::Changed(PartitionImage {
        index,
        leader: Some(BrokerId(leader)),
        leader_epoch: LeaderEpoch(epoch),
        isr: vec![BrokerId(leader)],
        replicas: vec![BrokerId(leader)],
        offline_replicas: Vec::new(),
        partition_epoch: PartitionEpoch(0),
        controller_epoch: ControllerEpoch(1),
    })
}

fn update(name: &str, id: u8, partitions: Vec<PartitionDelta>) -> MetadataDelta {
    MetadataDelta {
        controller: Some(BrokerId(1)),
        controller_epoch: ControllerEpoch(1),
        brokers: vec![BrokerImage { id: BrokerId(1), rack: None, endpoints: Vec::new() }],
        topics: vec![TopicDelta {
            name: name.into(),
            id: (id > 0).then_some(TopicId([id; 16])),
            partitions,
        }],
    }
}

#[test]
fn partitions_merge_and_the_unnamed_stay() {
    let one = ClusterImage::new()
        .apply(update("t", 1, vec![partition(1, 1, 0), partition(0, 1, 0)]))
        .image;
    let two = one.apply(update("t", 1, vec![partition(1, 2, 5), partition(7, 1, 0)])).image;
    let epochs = |image: &ClusterImage| {
        let topic = image.topic_by_id(TopicId([1; 16])).unwrap();
        topic.partitions().iter().map(|p| (p.index, p.leader_epoch.0)).collect::<Vec<_>>()
    };
    assert_eq!(epochs(&one), [(0, 0), (1, 0)], "an image that a reader holds never changes");
    assert_eq!(epochs(&two), [(0, 0), (1, 5), (7, 0)]);
    assert_eq!(two.partition("t", 7).unwrap().index, 7, "found though indexes are missing");
    assert!(two.partition("t", 2).is_none() && two.partition("t", -1).is_none());
}

#[test]
fn a_topic_whose_partitions_are_deleted_is_gone_with_its_id_and_settings() {
    let image = ClusterImage::new().apply(update("t", 1, vec![partition(0, 1, 0)])).image;
    let image = image.with_configs(ConfigChange {
        entity: ConfigEntity::Topic("t".into()),
        configs: [("retention.ms".into(), "1".into())].into(),
    });
    let delta = update("t", 1, vec![PartitionDelta::Deleted(0), PartitionDelta::Deleted(9)]);
    let after = image.apply(delta);
    assert_eq!(after.deleted, [TopicPartition::new("t", 0)], "partition 9 was never there");
    assert!(
        after.image.topic("t").is_none() && after.image.topic_by_id(TopicId([1; 16])).is_none()
    );
    assert!(after.image.topic_configs("t").is_empty());
    assert_eq!(image.topic_configs("t")["retention.ms"], "1");
}

#[test]
fn a_subscription_without_settings_does_not_exist() {
    let change =
        |configs| ConfigChange { entity: ConfigEntity::ClientMetrics("all".into()), configs };
    let image = ClusterImage::new().with_configs(change([("match".into(), "".into())].into()));
    assert_eq!(image.client_metrics()["all"]["match"], "");
    assert!(image.with_configs(change([].into())).client_metrics().is_empty());
}

#[test]
fn an_id_follows_its_topic() {
    let image = ClusterImage::new().apply(update("t", 1, vec![partition(0, 1, 0)])).image;
    let recreated = image.apply(update("t", 2, vec![partition(0, 1, 0)])).image;
    assert!(recreated.topic_by_id(TopicId([1; 16])).is_none());
    assert_eq!(recreated.topic_by_id(TopicId([2; 16])).unwrap().name().as_ref(), "t");
    let without = recreated.apply(update("t", 0, vec![])).image;
    assert!(without.topic_by_id(TopicId([2; 16])).is_none(), "a zero id removes the known one");
    assert_eq!(without.topic("t").unwrap().id(), None);
}
