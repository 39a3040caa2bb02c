//! Debian root file systems with real servers, made on this host from Debian's packages.
//!
//! ```text
//!   apt's Debian sources ─► mmdebstrap ─► customize.sh ─► mkfs.ext4 -d ─► CACHE/disks/ARCH/
//!   (packages of a set)     (a tree)      (pages, app,     (an image)       NAME-KEY.img
//!                                          database)
//! ```
//!
//! An image is made once for a cache, and is either complete or absent. No guest writes to it, so
//! any number of guests use it at the same time through a [`Disk`](super::Disk). The image boots
//! without systemd, because all guests have the same init process. `/usr/lib/pinhead/start` in the
//! image starts the services.

mod build;
mod settings;

pub use settings::Settings;

base::named! {
    /// The servers of an image, by the image's name in a farm's file.
    pub enum Software {
        /// nginx: pages of 27 KiB on port 80. Requests for `/app` are passed on to an application
        /// server.
        Nginx = "debian-nginx",
        /// An application server on port 8000, with a heap of a set size. Python makes each page,
        /// with a database transaction.
        App = "debian-app",
        /// PostgreSQL on port 5432, with the tables of pgbench in the database `pinhead`.
        Postgres = "debian-postgres",
        /// nginx, the application server and PostgreSQL.
        Combo = "debian-combo",
    }
}

/// Progress of making an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Description of the current step.
    pub what: &'static str,
    /// Progress in thousandths. Steps are weighted by their usual duration.
    pub permille: u16,
}

impl Software {
    /// Returns the image's services, in the order in which they start.
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
                // uWSGI runs Python without a master process that wakes up regularly.
                "app" => &["uwsgi-core", "uwsgi-plugin-python3", "python3-psycopg2"],
                _ => &["postgresql"],
            }
        };
        // Packages needed by the guest's scripts besides Debian's essential ones.
        let mut packages = vec!["busybox-static"];
        packages.extend(self.services().iter().flat_map(of_service));
        packages
    }
}
