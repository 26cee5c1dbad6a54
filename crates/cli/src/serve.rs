//! `barnabas serve`: runs a broker until it is told to stop.

use crate::log::{self, LogFormat};
use broker::config::{self, BrokerConfig};
use broker::server::{Environment, Failure, Server, StartError};
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{error, info, warn};

/// Run a broker.
///
/// Without a file: broker id 0 on 127.0.0.1:9092 with its data in ./barnabas-data.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  barnabas serve
  barnabas serve --data /var/lib/barnabas
  barnabas serve config/server.properties
  barnabas serve --set listeners=PLAINTEXT://:9092 --set num.partitions=3")]
pub(crate) struct Serve {
    /// A `server.properties` file, as Kafka reads it.
    file: Option<PathBuf>,
    /// Sets a key, over the file. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = config::parse_override)]
    set: Vec<(String, String)>,
    /// Where the data lies: `log.dirs`, over the file.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The form of log lines.
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,
    /// From which level on is logged: error, warn, info, debug or trace, or a filter such as
    /// info,broker=debug. Also from BARNABAS_LOG.
    #[arg(long, value_name = "LEVEL", value_parser = log::check_filter)]
    log_level: Option<String>,
    /// Seconds that requests under way may take once the broker is told to stop.
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    stop_timeout: u64,
}

impl Serve {
    pub(crate) fn run(self) -> ExitCode {
        platform::memory::bound_what_is_kept();
        log::start(self.log_format, self.log_level.as_deref());
        end_on_panic();
        let mut set = self.set;
        set.extend(self.data.map(|dir| ("log.dirs".into(), dir.display().to_string())));
        let loaded = match BrokerConfig::load(self.file.as_deref(), &set) {
            Ok(loaded) => loaded,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        };
        for warning in &loaded.warnings {
            warn!("{warning}");
        }
        let environment = Environment::real();
        let started = signals().and_then(|signals| {
            let (is_up, up) = oneshot::channel();
            let watched = std::thread::spawn(move || signals.end_until(up));
            let server = Server::start(loaded.config, environment).map_err(io::Error::other)?;
            drop(is_up);
            Ok((watched.join().expect("a panic ends the process"), server))
        });
        let ((signals, told_to_stop), server) = match started {
            Ok(started) => started,
            Err(error) => {
                eprintln!("the broker does not start: {error}");
                let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<StartError>());
                let refused = matches!(cause, Some(StartError::Config(_)));
                return if refused { ExitCode::from(2) } else { ExitCode::FAILURE };
            }
        };
        if let Some(listener) = server.listeners().first() {
            info!("ready; try: kcat -b {} -L", listener.advertised());
        }
        let end = match told_to_stop {
            true => ExitCode::SUCCESS,
            false => signals.wait(server.failure()),
        };
        server.stop(Duration::from_secs(self.stop_timeout));
        end
    }
}

/// How long a broker that is told to stop while it starts may take to be up, so that it stops cleanly.
const START_PATIENCE: Duration = Duration::from_secs(3);

/// A panic is a broken invariant, on whatever thread or task: tasks of a runtime would only vanish, and
/// leave a broker without its controller or a group without its coordinator.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        error!(%panic, "a broken invariant: the broker stops at once rather than serve wrong data");
        std::process::abort();
    }));
}

/// The signals that stop a broker. A second one ends the process at once, as if it were not caught.
struct Signals {
    runtime: tokio::runtime::Runtime,
    caught: Caught,
}

struct Caught {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Caught {
    /// The name of the next.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}

fn signals() -> io::Result<Signals> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let guard = runtime.enter();
    let terminate = signal(SignalKind::terminate())?;
    let interrupt = signal(SignalKind::interrupt())?;
    let hang_up = signal(SignalKind::hangup())?;
    drop(guard);
    Ok(Signals { runtime, caught: Caught { terminate, interrupt, hang_up } })
}

impl Signals {
    /// Waits until the broker is `up` (the sender is dropped). Whether a signal came before: it is to stop then. If it
    /// is not up soon after, for it waits for ZooKeeper or recovers logs, the process ends, as it does with a second
    /// signal: nobody has been told of anything that could be lost.
    fn end_until(mut self, mut up: oneshot::Receiver<()>) -> (Self, bool) {
        let told = self.runtime.block_on(async {
            let first = tokio::select! {
                biased;
                _ = &mut up => return false,
                first = self.caught.next() => first,
            };
            info!(
                signal = first,
                "stopping before the broker is up; a second signal ends the process at once"
            );
            tokio::select! {
                biased;
                _ = up => true,
                _ = self.caught.next() => std::process::exit(130),
                () = tokio::time::sleep(START_PATIENCE) => {
                    info!("the broker is not up yet: its start is cut short");
                    std::process::exit(0)
                }
            }
        });
        (self, told)
    }

    /// Waits for the first, or for the broker to fail; from then on another thread waits for the next,
    /// which ends the process. Returns how the process is to end.
    fn wait(self, failure: Failure) -> ExitCode {
        let Self { runtime, mut caught } = self;
        let signal = runtime.block_on(async {
            tokio::select! {
                signal = caught.next() => Some(signal),
                () = failure.wait() => None,
            }
        });
        match signal {
            Some(signal) => info!(signal, "stopping; a second signal ends the process at once"),
            None => error!("stopping, to be started again; a signal ends the process at once"),
        }
        std::thread::spawn(move || {
            runtime.block_on(caught.next());
            std::process::exit(130);
        });
        if signal.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
