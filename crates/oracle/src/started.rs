//! What this process has started and left behind, so that a signal ends it as a return from `main` does.
//!
//! Apache Kafka and ZooKeeper run in sessions of their own, so nobody else ends them.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// What a shell says of a process that was interrupted.
const INTERRUPTED: i32 = 130;

/// Something to be ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// A child that nobody has waited for yet.
    Process(u32),
    /// What the script started in a folder.
    Peers { script: PathBuf, folder: PathBuf },
    /// A temporary folder.
    Folder(PathBuf),
}

static STARTED: Mutex<Vec<Started>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<Started>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Started {
    /// From now on a signal ends it.
    pub(crate) fn note(&self) {
        all().push(self.clone());
    }

    /// Ends it now.
    pub(crate) fn end(&self) {
        let mut all = all();
        if let Some(at) = all.iter().position(|one| one == self) {
            all.remove(at).end_now();
        }
    }

    /// It may be gone already, which is as good.
    fn end_now(&self) {
        match self {
            Self::Process(id) => {
                let _ = quiet("kill").arg("-KILL").arg(id.to_string()).status();
            }
            Self::Peers { script, folder } => {
                let _ = quiet(script).arg("kill").arg(folder).status();
            }
            Self::Folder(path) => {
                let _ = std::fs::remove_dir_all(path);
            }
        }
    }
}

fn quiet(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Waits for a child that a signal is to end as well.
pub(crate) fn wait(mut child: Child) -> io::Result<ExitStatus> {
    let started = Started::Process(child.id());
    started.note();
    loop {
        let mut all = all();
        // Under the lock: once it is waited for, its id may be somebody else's.
        if let Some(status) = child.try_wait()? {
            all.retain(|one| *one != started);
            return Ok(status);
        }
        drop(all);
        crate::side::pause(Duration::from_millis(10));
    }
}

/// Ends everything and this process on SIGTERM, SIGINT and SIGHUP.
pub(crate) fn end_on_signals() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let guard = runtime.enter();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    drop(guard);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hang_up.recv() => {}
            }
        });
        // Kept, so that nothing new is started.
        let all = all();
        all.iter().rev().for_each(Started::end_now);
        std::process::exit(INTERRUPTED);
    })?;
    Ok(())
}
