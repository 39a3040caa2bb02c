//! The socket's file. Only one manager uses the socket at a time. No process can open the socket
//! before its mode is set.
//!
//! ```text
//!   SOCKET.lock, held until death ─► SOCKET.new: 0600, bound, its group, 0660 ─► renamed: SOCKET
//! ```
//!
//! A held lock proves that its owner is alive, because the kernel releases the lock when the owner
//! ends for any reason. A socket with a free lock therefore belongs to a dead manager and is
//! replaced. The mode is set before the file exists, because a socket's file keeps the mode that
//! the socket has when it is bound. The name known to clients is given last.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::{Error, group};

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// A socket of this process. On drop, the socket's file is removed. The lock's file remains,
/// unlocked.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    pub(crate) path: PathBuf,
    _lock: File,
}

impl Socket {
    pub(crate) fn open(path: &Path, group: Option<&str>) -> Result<Socket, Error> {
        let group = group.map(|name| group::find(Path::new("/etc/group"), name)).transpose()?;
        let step = |step, path: &Path| {
            let path = path.to_path_buf();
            move |source: io::Error| Error::Step { step, path, source }
        };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(step("make the directory", dir))?;
        }
        let lock = lock(path)?;
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(Error::NotASocket { path: path.to_path_buf() });
            }
            _ => {}
        }
        let fresh = path.with_added_extension("new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(step("remove", &fresh)(error));
            }
            _ => {}
        }
        let listener = bind(&fresh).map_err(step("make the socket", &fresh))?;
        if let Some(group) = group {
            rustix::fs::chown(&fresh, None, Some(Gid::from_raw(group)))
                .map_err(|error| step("give the socket to its group:", &fresh)(error.into()))?;
            fs::set_permissions(&fresh, Permissions::from_mode(0o660))
                .map_err(step("open the socket to its group:", &fresh))?;
        }
        fs::rename(&fresh, path).map_err(step("put the socket at", path))?;
        Ok(Socket { listener, path: path.to_path_buf(), _lock: lock })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // This process still holds the lock, so the socket's file is not another manager's.
        let _ = fs::remove_file(&self.path);
    }
}

fn lock(socket: &Path) -> Result<File, Error> {
    let path = socket.with_added_extension("lock");
    let wrap = |source| Error::Step { step: "lock", path: path.clone(), source };
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&path)
        .map_err(wrap)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = file.take(20).read_to_string(&mut pid);
            let pid = pid.trim().parse().ok();
            return Err(Error::Taken { pid, path: socket.to_path_buf() });
        }
        Err(TryLockError::Error(source)) => return Err(wrap(source)),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(wrap)?;
    Ok(file)
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}
