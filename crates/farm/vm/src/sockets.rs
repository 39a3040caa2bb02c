//! Named sockets, for guests with clients besides their owner.
//!
//! This process binds the sockets, and QEMU inherits them. The sockets therefore exist before QEMU
//! does, and early clients wait in their queues.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::Error;

/// The file of a socket, removed on drop.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    is_hidden: bool,
}

impl SocketFile {
    /// Returns the path of the socket while it is not hidden.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the file to `PATH.hidden`, so that no more clients find the socket. Existing
    /// connections stay open.
    pub fn hide(&mut self) -> io::Result<()> {
        self.rename(true)
    }

    /// Renames a hidden file back.
    pub fn show(&mut self) -> io::Result<()> {
        self.rename(false)
    }

    fn rename(&mut self, is_hidden: bool) -> io::Result<()> {
        if self.is_hidden != is_hidden {
            let (from, to) = (self.name(self.is_hidden), self.name(is_hidden));
            fs::rename(from, to)?;
            self.is_hidden = is_hidden;
        }
        Ok(())
    }

    fn name(&self, is_hidden: bool) -> PathBuf {
        match is_hidden {
            true => self.path.with_added_extension(qmp::HIDDEN),
            false => self.path.clone(),
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file may already be gone.
        let _ = fs::remove_file(self.name(self.is_hidden));
    }
}

/// Listens at a path in a private directory. A socket file left by an earlier guest is removed.
pub fn listen(path: PathBuf) -> Result<(UnixListener, SocketFile), Error> {
    let _ = fs::remove_file(&path);
    match UnixListener::bind(&path) {
        Ok(listener) => Ok((listener, SocketFile { path, is_hidden: false })),
        Err(source) => Err(Error::Socket { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn socket_replaces_an_earlier_one_and_goes_with_its_owner() {
        let dir = crate::Scratch::new("vm-sockets").unwrap();
        let path = dir.join("g1.port");
        fs::write(&path, "left by a guest that was killed").unwrap();
        let (listener, mut file) = listen(path.clone()).unwrap();
        // The connection has not been accepted yet.
        UnixStream::connect(file.path()).unwrap();
        file.hide().unwrap();
        file.hide().unwrap();
        assert!(UnixStream::connect(&path).is_err(), "no client finds it");
        file.show().unwrap();
        UnixStream::connect(&path).unwrap();
        file.hide().unwrap();
        drop((listener, file));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let error = listen(dir.join("n".repeat(200))).unwrap_err();
        assert!(error.to_string().starts_with("Cannot listen on "), "{error}");
    }
}
