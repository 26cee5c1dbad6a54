//! One file per API; each declares the versions that it completes.

pub(crate) mod api_versions;
mod delete_groups;
mod describe_groups;
mod heartbeat;
mod join_group;
mod leave_group;
mod list_groups;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod sync_group;

use crate::dispatch::Api;

/// Every API that we serve.
pub(crate) static APIS: &[Api] = &[
    api_versions::API,
    delete_groups::API,
    describe_groups::API,
    heartbeat::API,
    join_group::API,
    leave_group::API,
    list_groups::API,
    offset_commit::API,
    offset_delete::API,
    offset_fetch::API,
    sync_group::API,
];
