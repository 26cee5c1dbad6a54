//! One file per API; each declares the versions that it completes.

pub(crate) mod api_versions;

use crate::dispatch::Api;

/// Every API that we serve.
pub(crate) static APIS: &[Api] = &[api_versions::API];
