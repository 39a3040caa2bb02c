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

/// Which servers an image has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Software {
    /// nginx: pages of 27 KiB on port 80, and `/app` handed on to an application server.
    Nginx,
    /// An application server on port 8000: a heap of a set size, pages made by Python, and a
    /// transaction for each of them.
    App,
    /// PostgreSQL on port 5432, with the tables of pgbench in the database `pinhead`.
    Postgres,
    /// All three.
    Combo,
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
    /// All of them, to loop over.
    pub const ALL: [Software; 4] =
        [Software::Nginx, Software::App, Software::Postgres, Software::Combo];

    /// The image's name, as a farm's file has it.
    pub fn name(self) -> &'static str {
        match self {
            Software::Nginx => "debian-nginx",
            Software::App => "debian-app",
            Software::Postgres => "debian-postgres",
            Software::Combo => "debian-combo",
        }
    }

    /// The image of this name.
    pub fn from_name(name: &str) -> Option<Software> {
        Software::ALL.into_iter().find(|software| software.name() == name)
    }

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
