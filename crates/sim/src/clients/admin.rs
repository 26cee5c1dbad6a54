//! The client that creates the topic.

use super::ClientContext;
use super::cluster::Cluster;
use crate::plan::TOPIC;
use protocol::ErrorCode;
use protocol::messages::CreateTopicsRequest;
use protocol::messages::create_topics_request::CreatableTopic;
use std::time::Duration;

/// Creates the topic, however often it has to ask.
pub async fn create_topic(context: ClientContext, replicas: i16) {
    let topic = CreatableTopic {
        name: TOPIC.into(),
        num_partitions: i32::try_from(context.partitions).expect("few"),
        replication_factor: replicas,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 5_000, ..Default::default() };
    let mut cluster = Cluster::new(context);
    loop {
        cluster.refresh().await;
        if let Some(controller) = cluster.controller {
            let response = cluster.ask(controller, &request).await;
            let code = response.and_then(|response| Some(response.topics.first()?.error_code));
            let done = [ErrorCode::None.code(), ErrorCode::TopicAlreadyExists.code()];
            if code.is_some_and(|code| done.contains(&code)) {
                return;
            }
        }
        cluster.pause(Duration::from_millis(500)).await;
    }
}
