//! Input for `produce`: lines or whole files, read on a thread of its own.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

const READ_BYTES: usize = 256 * 1024;
/// Chunks that may wait: the producer is the slower side, memory is not to fill up.
const QUEUED_CHUNKS: usize = 4;

/// What the reading thread found.
#[derive(Debug)]
pub(crate) enum Input {
    /// Whole lines, each ended by a newline except maybe the last of a source.
    Lines(Vec<u8>),
    /// A source as it is.
    Whole(Vec<u8>),
    /// A source that cannot be read.
    Failed(String),
}

/// Reads `sources` (standard input if there are none, and for `-`) one after the other.
pub(crate) fn read(sources: Vec<PathBuf>, whole: bool) -> mpsc::Receiver<Input> {
    let (found, input) = mpsc::channel(QUEUED_CHUNKS);
    std::thread::spawn(move || {
        let stdin = PathBuf::from("-");
        let sources = if sources.is_empty() { vec![stdin.clone()] } else { sources };
        for source in sources {
            let name = if source == stdin { Path::new("standard input") } else { &source };
            let read = open(&source).and_then(|from| match whole {
                true => read_whole(from, &found),
                false => read_lines(from, &found),
            });
            match read {
                Ok(true) => {}
                // Nobody wants more.
                Ok(false) => return,
                Err(error) => {
                    let text = format!("cannot read {}: {error}", name.display());
                    found.blocking_send(Input::Failed(text)).ok();
                    return;
                }
            }
        }
    });
    input
}

fn open(source: &Path) -> io::Result<Box<dyn Read>> {
    Ok(if source == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(source)?)
    })
}

fn read_whole(mut from: impl Read, found: &mpsc::Sender<Input>) -> io::Result<bool> {
    let mut all = Vec::new();
    from.read_to_end(&mut all)?;
    Ok(found.blocking_send(Input::Whole(all)).is_ok())
}

/// Passes on what has come as soon as it ends a line, so that pipes flow.
fn read_lines(mut from: impl Read, found: &mpsc::Sender<Input>) -> io::Result<bool> {
    let mut buffer = Vec::with_capacity(READ_BYTES);
    loop {
        let start = buffer.len();
        buffer.resize(start + READ_BYTES, 0);
        let read = match from.read(&mut buffer[start..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                buffer.truncate(start);
                continue;
            }
            read => read?,
        };
        buffer.truncate(start + read);
        if read == 0 {
            let last = buffer.is_empty() || found.blocking_send(Input::Lines(buffer)).is_ok();
            return Ok(last);
        }
        let Some(end) = buffer[start..].iter().rposition(|&byte| byte == b'\n') else { continue };
        let rest = buffer.split_off(start + end + 1);
        if found.blocking_send(Input::Lines(std::mem::replace(&mut buffer, rest))).is_err() {
            return Ok(false);
        }
    }
}

/// The lines of a chunk, without their newlines.
pub(crate) fn split(chunk: &[u8]) -> impl Iterator<Item = &[u8]> {
    chunk.strip_suffix(b"\n").unwrap_or(chunk).split(|&byte| byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out a few bytes at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(out.len()).min(3);
            out[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        for text in ["a\nbcdefgh\n\nij", "a\n", "\n", "", "no newline", "\n\n\n"] {
            let (found, mut input) = mpsc::channel(100);
            assert!(read_lines(Slow(text.as_bytes()), &found).unwrap());
            drop(found);
            let mut lines = Vec::new();
            while let Ok(Input::Lines(chunk)) = input.try_recv() {
                lines.extend(split(&chunk).map(<[u8]>::to_vec));
            }
            let expected: Vec<_> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
            assert_eq!(lines, expected, "{text:?}");
        }
    }
}
