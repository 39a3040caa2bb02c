//! Named sockets, for guests with clients besides their owner.
//!
//! This process binds the sockets and QEMU inherits them, so that they exist before QEMU does: a
//! client that connects early waits in the queue.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::Error;

/// The file of a socket. Dropping it removes the file.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl SocketFile {
    /// Returns the socket's path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file may already be gone.
        let _ = fs::remove_file(&self.0);
    }
}

/// Listens at a path in a private directory. A socket left by an earlier guest is removed.
pub fn listen(path: PathBuf) -> Result<(UnixListener, SocketFile), Error> {
    let _ = fs::remove_file(&path);
    match UnixListener::bind(&path) {
        Ok(listener) => Ok((listener, SocketFile(path))),
        Err(source) => Err(Error::Socket { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn socket_replaces_an_earlier_one_and_goes_with_its_owner() {
        let dir = std::env::temp_dir().join(format!("vm-sockets-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("g1.port");
        fs::write(&path, "left by a guest that was killed").unwrap();
        let (listener, file) = listen(path.clone()).unwrap();
        // The connection has not been accepted yet.
        UnixStream::connect(file.path()).unwrap();
        drop((listener, file));
        assert!(!path.exists());
        let error = listen(dir.join("n".repeat(200))).unwrap_err();
        assert!(error.to_string().starts_with("Cannot listen on "), "{error}");
        fs::remove_dir_all(dir).unwrap();
    }
}
