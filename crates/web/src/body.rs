//! The body of an answer, piece by piece.

use super::error::innermost;
use super::{Bytes, HttpError, Phase};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::time::Duration;

/// The body of an answer. Dropping it ends the transfer.
#[derive(Debug)]
pub struct Body {
    inner: Incoming,
    host: String,
    idle: Option<Duration>,
}

impl Body {
    pub(super) fn new(inner: Incoming, host: String, idle: Option<Duration>) -> Self {
        Self { inner, host, idle }
    }

    /// The next piece, `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let frame = self.inner.frame();
            let frame = match self.idle {
                None => frame.await,
                Some(idle) => match tokio::time::timeout(idle, frame).await {
                    Ok(frame) => frame,
                    Err(_) => return Err(self.fail(format!("nothing came for {} s", idle.as_secs_f32()))),
                },
            };
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(self.fail(innermost(&error))),
                // Trailers say nothing to us.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The whole body, if it is no longer than `most` bytes.
    pub async fn bytes(&mut self, most: usize) -> Result<Vec<u8>, HttpError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if all.len() + chunk.len() > most {
                return Err(HttpError::new(&self.host, Phase::Size, format!("more than {most} bytes")));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    /// The beginning of the body as text, at most `most` bytes of it; for error answers, where less is better than nothing.
    pub async fn start(&mut self, most: usize) -> String {
        let mut all = Vec::new();
        while let Ok(Some(chunk)) = self.chunk().await {
            let room = most - all.len();
            all.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if all.len() == most {
                break;
            }
        }
        String::from_utf8_lossy(&all).into_owned()
    }

    fn fail(&self, why: String) -> HttpError {
        HttpError::new(&self.host, Phase::Body, why)
    }
}
