//! Taking a cluster's metadata out of the store that keeps them, and into another: the embedded one of a single broker,
//! or ZooKeeper.

use crate::config::ZooKeeperSettings;
use crate::server::{Environment, StartError, open_ensemble};
pub use controller::{Copied, CopyError, MetadataCopy, MetadataNode};
use coordination::local::LocalStore;
use coordination::{SessionHandle, Store, StoreError, Zxid};
use platform::disk::Lock;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
pub use zookeeper::Acl;

/// Where metadata are kept.
#[derive(Clone, Debug)]
pub enum MetadataStore {
    /// In the embedded store of this log directory, the first of `log.dirs`.
    Embedded(PathBuf),
    /// In ZooKeeper.
    ZooKeeper(Box<ZooKeeperSettings>),
}

/// Who may do what with each node of a copy, in its order.
pub type Acls = Vec<Vec<Acl>>;

/// Why metadata were not read or written.
#[derive(Debug, thiserror::Error)]
pub enum MetadataStoreError {
    /// There is no store in the directory.
    #[error("{}: no metadata store is here; name the first of log.dirs", .0.display())]
    None(PathBuf),
    /// A directory cannot be used, or a broker uses it.
    #[error("{}: {source}", directory.display())]
    Directory {
        /// The log directory.
        directory: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The settings of the connection to ZooKeeper name files that cannot be used.
    #[error(transparent)]
    Settings(#[from] StartError),
    /// The store cannot be used, or holds something else.
    #[error("{place}: {source}")]
    Copy {
        /// Which store.
        place: String,
        /// Why not.
        source: CopyError,
    },
    /// The system's.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl MetadataStore {
    fn failed(&self, source: impl Into<CopyError>) -> MetadataStoreError {
        let place = match self {
            Self::Embedded(directory) => format!("the store in {}", directory.display()),
            Self::ZooKeeper(settings) => {
                let hosts = settings.servers.hosts.iter();
                let hosts: Vec<_> = hosts.map(|h| format!("{}:{}", h.name, h.port)).collect();
                format!("ZooKeeper at {}{}", hosts.join(","), settings.servers.chroot)
            }
        };
        MetadataStoreError::Copy { place, source: source.into() }
    }

    /// Reads everything that outlives the brokers, and for ZooKeeper who may do what with each node. The brokers must
    /// be stopped.
    ///
    /// # Errors
    /// [`MetadataStoreError`].
    pub fn export(
        &self,
        environment: &Environment,
    ) -> Result<(MetadataCopy, Option<Acls>), MetadataStoreError> {
        match self {
            Self::Embedded(directory) => {
                if !is_in(environment, directory)? {
                    return Err(MetadataStoreError::None(directory.clone()));
                }
                let (store, _lock) = self.open_embedded(environment, directory, Zxid(0))?;
                let read = async |session: &SessionHandle| MetadataCopy::read(session).await;
                let copy = with_session(&store, read)?.map_err(|error| self.failed(error))?;
                Ok((copy, None))
            }
            Self::ZooKeeper(settings) => {
                let store = open_ensemble(settings, environment)?;
                store.create_nothing();
                let read = async |session: &SessionHandle| -> Result<_, CopyError> {
                    let copy = MetadataCopy::read(session).await?;
                    let paths = copy.nodes.iter().map(|node| node.path.clone()).collect();
                    let acls = store.acls(paths).await?;
                    Ok((copy, Some(acls)))
                };
                with_session(&store, read)?.map_err(|error| self.failed(error))
            }
        }
    }

    /// Writes `copy`; does nothing if it is there already, goes on where an earlier attempt was cut short. The brokers
    /// must be stopped.
    ///
    /// # Errors
    /// [`MetadataStoreError`].
    pub fn import(
        &self,
        environment: &Environment,
        copy: &MetadataCopy,
    ) -> Result<Copied, MetadataStoreError> {
        let write = async |session: &SessionHandle| copy.write(session).await;
        let written = match self {
            Self::Embedded(directory) => {
                let floor = Zxid(copy.last_change);
                let (store, _lock) = self.open_embedded(environment, directory, floor)?;
                with_session(&store, write)?
            }
            Self::ZooKeeper(settings) => {
                with_session(&open_ensemble(settings, environment)?, write)?
            }
        };
        written.map_err(|error| self.failed(error))
    }

    /// The directory's own lock is held, too: Apache's broker would not look at the store's.
    fn open_embedded(
        &self,
        environment: &Environment,
        directory: &Path,
        floor: Zxid,
    ) -> Result<(LocalStore, Box<dyn Lock>), MetadataStoreError> {
        let at = |source: io::Error| {
            let in_use = || io::Error::other("it is in use: stop the broker first");
            let is_held = source.kind() == io::ErrorKind::WouldBlock;
            let source = if is_held { in_use() } else { source };
            MetadataStoreError::Directory { directory: directory.to_owned(), source }
        };
        environment.disk.metadata(directory).map_err(at)?;
        let lock = environment.disk.lock(&directory.join(".lock")).map_err(at)?;
        let (disk, clock) = (Arc::clone(&environment.disk), Arc::clone(&environment.clock));
        let store = LocalStore::open_inline_above(disk, directory, clock, floor).map_err(at)?;
        Ok((store, lock))
    }
}

/// Does `work` with a session of its own, and shuts the store down. The outer error is the system's.
pub(crate) fn with_session<T, E: From<StoreError>>(
    store: &dyn Store,
    work: impl AsyncFnOnce(&SessionHandle) -> Result<T, E>,
) -> io::Result<Result<T, E>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let (session, _events) = store.open_session().await?;
        let done = work(&session).await;
        // It would also end by itself.
        let _ = session.close().await;
        done
    });
    store.shut_down();
    Ok(done)
}

fn is_in(environment: &Environment, directory: &Path) -> Result<bool, MetadataStoreError> {
    let at = |source| MetadataStoreError::Directory { directory: directory.to_owned(), source };
    LocalStore::is_in(environment.disk.as_ref(), directory).map_err(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller::Membership;
    use model::Timestamp;
    use platform::clock::ManualClock;
    use platform::random::SeededRandom;
    use platform::{MemoryDisk, Network};

    #[test]
    fn a_store_moves_to_another_directory_and_its_changes_count_on() {
        let disk = MemoryDisk::new();
        for directory in ["/a", "/b", "/c"] {
            disk.put(&Path::new(directory).join("x"), b"");
            disk.put(&Path::new(directory).join(".lock"), b"");
        }
        let environment = Environment {
            clock: Arc::new(ManualClock::at(Timestamp(1))),
            random: Arc::new(SeededRandom::new(1)),
            disk: Arc::new(disk.clone()),
            network: Network::System,
        };
        let at = |directory: &str| MetadataStore::Embedded(directory.into());
        let error = at("/a").export(&environment).unwrap_err();
        assert!(matches!(error, MetadataStoreError::None(_)), "{error}");
        assert!(at("/nowhere").export(&environment).is_err());
        let (shared, clock) = (Arc::clone(&environment.disk), Arc::clone(&environment.clock));
        let store = LocalStore::open_inline(shared, Path::new("/a"), clock).unwrap();
        let store = Arc::new(store);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let member = Membership::join(Arc::clone(&store) as _, "abc").await.unwrap();
            member.leave().await.unwrap();
        });
        store.shut_down();
        let (mut copy, acls) = at("/a").export(&environment).unwrap();
        assert_eq!((copy.cluster_id().as_deref(), acls), (Some("abc"), None));
        copy.last_change = 5_000_000_000;
        let imported = at("/b").import(&environment, &copy).unwrap();
        assert!(matches!(imported, Copied::Written(_)));
        assert_eq!(at("/b").import(&environment, &copy).unwrap(), Copied::AlreadyThere);
        let (again, _) = at("/b").export(&environment).unwrap();
        assert!(again.last_change > 5_000_000_000, "epochs do not go back");
        copy.last_change = i64::MAX;
        at("/c").import(&environment, &copy).unwrap_err();
        let held = environment.disk.lock(Path::new("/a/.lock")).unwrap();
        let error = at("/a").export(&environment).unwrap_err();
        assert!(error.to_string().contains("stop the broker"), "{error}");
        drop(held);
    }
}
