//! Bytes that are only ever appended: a few in memory, the rest in a file without a name.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// So much stays in memory.
const MEMORY: usize = 4 * 1024 * 1024;

/// An append-only store of bytes.
#[derive(Debug, Default)]
pub(super) struct Spill {
    memory: Vec<u8>,
    file: Option<File>,
    /// Bytes in the file.
    filed: u64,
}

impl Spill {
    /// How many bytes there are.
    pub(super) fn len(&self) -> u64 {
        self.memory.len() as u64 + self.filed
    }

    /// Appends; says where it begins.
    pub(super) fn push(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let at = self.len();
        if self.file.is_none() && self.memory.len() + bytes.len() <= MEMORY {
            self.memory.extend_from_slice(bytes);
            return Ok(at);
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile()?),
        };
        file.seek(SeekFrom::Start(self.filed))?;
        file.write_all(bytes)?;
        self.filed += bytes.len() as u64;
        Ok(at)
    }

    /// Reads from `at` into `buffer`; fewer bytes than fit only at the end of memory or of everything.
    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let inner = self.memory.len() as u64;
        if at < inner {
            let from = &self.memory[at as usize..];
            let size = from.len().min(buffer.len());
            buffer[..size].copy_from_slice(&from[..size]);
            return Ok(size);
        }
        let Some(mut file) = self.file.as_ref() else { return Ok(0) };
        file.seek(SeekFrom::Start(at - inner))?;
        file.read(buffer)
    }
}
