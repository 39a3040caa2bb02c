//! Debian root file systems with real servers, made on the spot from Debian's packages.
//!
//! ```text
//!   apt's Debian sources ─► mmdebstrap ─► customize.sh ─► mkfs.ext4 -d ─► CACHE/disks/ARCH/
//!   (packages of a set)     (a tree)      (pages, app,     (an image)       NAME-KEY.img
//!                                          database)
//! ```
//!
//! An image is made once for a cache and is there whole or not at all. Nothing ever writes to it:
//! guests have it through a [`crate::Disk`], by any number at the same time. It boots without
//! systemd: the guest's first process is the one of every guest, and `/usr/lib/pinhead/start` of
//! the image starts its services.

mod build;
mod settings;

pub use settings::Settings;

base::named! {
    /// Which servers an image has, by its name in a farm's file.
    pub enum Software {
        /// nginx: pages of 27 KiB on port 80, and `/app` handed on to an application server.
        Nginx = "debian-nginx",
        /// An application server on port 8000: a heap of a set size, pages made by Python, and a
        /// transaction for each of them.
        App = "debian-app",
        /// PostgreSQL on port 5432, with the tables of pgbench in the database `pinhead`.
        Postgres = "debian-postgres",
        /// All three.
        Combo = "debian-combo",
    }
}

/// How far the making of an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, in words.
    pub what: &'static str,
    /// How much of all of it is done, in thousandths. The parts are weighed by how long they
    /// usually take.
    pub permille: u16,
}

impl Software {
    /// Its services, in the order in which they start.
    pub fn services(self) -> &'static [&'static str] {
        match self {
            Software::Nginx => &["nginx"],
            Software::App => &["app"],
            Software::Postgres => &["postgres"],
            Software::Combo => &["postgres", "app", "nginx"],
        }
    }

    fn packages(self) -> Vec<&'static str> {
        let of_service = |service: &&str| -> &'static [&'static str] {
            match *service {
                "nginx" => &["nginx"],
                // It runs Python without a process that wakes up to look after the others.
                "app" => &["uwsgi-core", "uwsgi-plugin-python3", "python3-psycopg2"],
                _ => &["postgresql"],
            }
        };
        // What the guest's own scripts need besides what Debian calls essential.
        let mut packages = vec!["busybox-static"];
        packages.extend(self.services().iter().flat_map(of_service));
        packages
    }
}
