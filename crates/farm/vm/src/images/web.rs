//! nginx in a guest's memory: the smallest guest with a real web server.
//!
//! ```text
//!   nginx, its libraries (Debian's packages) ─► files of an image ─► port 80 of the guest:
//!   a configuration, a page of 27 KiB                                   / and /page.html
//! ```

use std::fs;
use std::path::Path;

use crate::images::elf::libraries;
use crate::images::error::FileContext;
use crate::images::packages::below_either;
use crate::images::{Arch, Cache, Error, GuestFile};

/// nginx's port in the guest.
pub const WEB_PORT: u16 = 80;

/// Size of the served page, as in the published experiments.
pub const PAGE_BYTES: usize = 27 * 1024;

/// Configuration with one worker, for a guest of one CPU. Without requests the worker never wakes
/// up.
const CONFIGURATION: &str = "\
user nobody nogroup;
worker_processes 1;
pid /run/nginx.pid;
error_log stderr crit;
pcre_jit off;
events { worker_connections 128; }
http {
    default_type text/html;
    access_log off;
    sendfile on;
    keepalive_timeout 15s;
    client_body_temp_path /run/nginx-body;
    proxy_temp_path /run/nginx-proxy;
    fastcgi_temp_path /run/nginx-fastcgi;
    uwsgi_temp_path /run/nginx-uwsgi;
    scgi_temp_path /run/nginx-scgi;
    server {
        listen 80 backlog=128;
        root /var/www;
        index page.html;
    }
}
";

/// Command that ends when the server listens, because nginx opens its port before it moves to the
/// background.
const SERVICE: &str =
    "mkdir -p /var/lib/nginx /var/log/nginx\nexec /usr/sbin/nginx -c /etc/nginx.conf\n";

/// Returns the files of a web server, for [`super::ImageSpec::files`].
pub fn web_files(cache: &Cache, arch: Arch) -> Result<Vec<GuestFile>, Error> {
    let root = cache.web_packages(arch)?;
    let mut files = vec![file_of(&root, "usr/sbin/nginx")?];
    let mut place = 0;
    while let Some(file) = files.get(place) {
        for path in linked_with(&root, arch, file)? {
            if !files.iter().any(|file| file.path == path) {
                files.push(file_of(&root, path.trim_start_matches('/'))?);
            }
        }
        place += 1;
    }
    let loader = match arch {
        Arch::X86_64 => "lib64/ld-linux-x86-64.so.2",
        Arch::S390x => "lib/ld64.so.1",
    };
    files.push(file_of(&root, loader)?);
    files.push(GuestFile::text("/etc/nginx.conf", CONFIGURATION));
    files.push(GuestFile::text("/etc/services/nginx", SERVICE));
    files.push(GuestFile::text(
        "/etc/passwd",
        "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    ));
    files.push(GuestFile::text("/etc/group", "root:x:0:\nnogroup:x:65534:\n"));
    files.push(GuestFile::text("/var/www/page.html", page()));
    Ok(files)
}

/// Returns a page of [`PAGE_BYTES`] with distinct lines, because a real page does not repeat one
/// byte.
fn page() -> String {
    let mut text = String::from("<!doctype html><title>pinhead</title><pre>\n");
    let mut line = 0;
    while text.len() < PAGE_BYTES {
        line += 1;
        text.push_str(&format!("Line {line} of a page that a guest serves from its memory.\n"));
    }
    text.truncate(PAGE_BYTES);
    text
}

/// Returns the paths that the libraries of a program or of a library have in the guest.
fn linked_with(root: &Path, arch: Arch, file: &GuestFile) -> Result<Vec<String>, Error> {
    let unknown = || Error::PackageContent {
        root: root.to_owned(),
        missing: format!("{} whose libraries can be read", file.path),
    };
    let names = libraries(&file.bytes).ok_or_else(unknown)?;
    // The loader is in another directory.
    let names = names.into_iter().filter(|name| !name.starts_with("ld"));
    // The loader searches this directory by default.
    Ok(names.map(|name| format!("/lib/{arch}-linux-gnu/{name}")).collect())
}

fn file_of(root: &Path, path: &str) -> Result<GuestFile, Error> {
    let bytes = read(root, &below_either(root, path)?)?;
    Ok(GuestFile { path: format!("/{path}"), mode: 0o755, bytes })
}

/// Reads a file of the packages, and resolves links as in the guest. The loader is a link to
/// `/lib/TRIPLET/...`, where this machine may have another C library's loader.
fn read(root: &Path, path: &Path) -> Result<Vec<u8>, Error> {
    if path.is_symlink() {
        let target = fs::read_link(path).file("read", path)?;
        if let Ok(inside) = target.strip_prefix("/") {
            let inside = below_either(root, &inside.to_string_lossy())?;
            return fs::read(&inside).file("read", inside);
        }
    }
    fs::read(path).file("read", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_is_that_of_the_packages_and_not_this_machines() {
        let root = crate::Scratch::new("images-web").unwrap();
        for directory in ["proc", "lib64"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        // A file with the name of the link's target also exists on this machine.
        std::os::unix::fs::symlink("/proc/version", root.join("lib64/loader")).unwrap();
        fs::write(root.join("proc/version"), "the packages'").unwrap();
        let read = file_of(root.path(), "lib64/loader").unwrap().bytes;
        assert_eq!(read, b"the packages'");
    }

    #[test]
    fn the_page_has_its_size_and_no_two_lines_alike() {
        let page = page();
        assert_eq!(page.len(), PAGE_BYTES);
        let lines: std::collections::BTreeSet<_> = page.lines().collect();
        assert_eq!(lines.len(), page.lines().count());
    }
}
