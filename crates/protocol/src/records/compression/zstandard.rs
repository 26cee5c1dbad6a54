//! Zstandard: any number of frames, no dictionary.

use super::{RecordsError, failed};
use std::cell::Cell;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

/// 128 MiB, the most that Kafka's reader accepts and that any level up to 22 uses. Pages of the
/// window are touched only as output fills them, and output has its own limit.
const WINDOW_LOG_MAX: u32 = 27;
/// Largest context that a thread keeps: what level 3 needs, which is what clients use, with room.
const KEPT_BYTES: usize = 3 << 20;

thread_local! {
    static CONTEXT: Cell<Option<DCtx<'static>>> = const { Cell::new(None) };
}

/// Compresses what is written to it.
pub(super) type Encoder = zstd::stream::write::Encoder<'static, Vec<u8>>;

pub(super) fn encoder(level: i32) -> Result<Encoder, RecordsError> {
    Encoder::new(Vec::new(), level.clamp(-131_072, 22)).map_err(failed)
}

fn named(code: usize) -> RecordsError {
    failed(get_error_name(code))
}

pub(super) struct Reader<'a> {
    rest: &'a [u8],
    context: Option<DCtx<'static>>,
    /// Also before the first: no bytes are no frames.
    frame_done: bool,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if let Some(mut context) = self.context.take()
            && context.sizeof() <= KEPT_BYTES
            && context.reset(ResetDirective::SessionOnly).is_ok()
        {
            CONTEXT.set(Some(context));
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: &'a [u8]) -> Result<Self, RecordsError> {
        let context = match CONTEXT.take() {
            Some(context) => context,
            None => {
                let mut context = DCtx::try_create().ok_or_else(|| failed("out of memory"))?;
                context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(named)?;
                context
            }
        };
        Ok(Self { rest: input, context: Some(context), frame_done: true })
    }

    /// Inflates some bytes into `buffer`; 0 at the end of the last frame.
    pub(super) fn next_chunk(&mut self, buffer: &mut [u8]) -> Result<usize, RecordsError> {
        let context = self.context.as_mut().expect("taken only by drop");
        loop {
            if self.frame_done && self.rest.is_empty() {
                return Ok(0);
            }
            let mut output = OutBuffer::around(buffer);
            let mut input = InBuffer::around(self.rest);
            let hint = context.decompress_stream(&mut output, &mut input).map_err(named)?;
            let (taken, written) = (input.pos(), output.pos());
            self.rest = &self.rest[taken..];
            self.frame_done = hint == 0;
            if written > 0 {
                return Ok(written);
            }
            if taken == 0 && !self.frame_done {
                return Err(RecordsError::unreadable("zstd frame is cut off"));
            }
        }
    }
}
