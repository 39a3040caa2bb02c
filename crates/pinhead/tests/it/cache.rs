//! Attacks on the cache by another user while root works in the cache. Each attack runs as the user
//! nobody, against the real program.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const NOBODY: u32 = 65_534;

/// A directory with a cache owned by nobody. The directory is removed at the end, together with the
/// attacker.
struct Attack {
    place: PathBuf,
    attacker: Option<Child>,
}

impl Attack {
    /// Creates the directory. Without root the attacks are skipped, because only root can give a
    /// directory to another user.
    fn new(name: &str) -> Option<Attack> {
        if !rustix::process::geteuid().is_root() {
            base::skipped!("attacks on root need root");
            return None;
        }
        let place = std::env::temp_dir().join(format!("pinhead-{name}-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o755).create(&place).expect("a step of the attack");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755))
            .expect("a step of the attack");
        fs::create_dir_all(place.join("guest/x86_64")).expect("a step of the attack");
        fs::write(place.join("guest/x86_64/pinheadd"), "").expect("a step of the attack");
        fs::create_dir(place.join("cache")).expect("a step of the attack");
        chown(place.join("cache"), Some(NOBODY), Some(NOBODY)).expect("a step of the attack");
        Some(Attack { place, attacker: None })
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.join(path)
    }

    fn as_nobody(&self, script: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-euc"]);
        command.arg(script).current_dir(self.at("cache")).stderr(Stdio::null());
        command
    }

    /// Runs the attacker's preparation before root's command.
    fn before(&self, script: &str) {
        assert!(
            self.as_nobody(script).status().expect("a step of the attack").success(),
            "{script}"
        );
    }

    /// Starts the attacker's part that runs during root's command.
    fn meanwhile(&mut self, script: &str) {
        self.attacker = Some(self.as_nobody(script).spawn().expect("a step of the attack"));
    }

    fn up(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_pinhead"))
            .arg("up")
            .args(words)
            .env("PINHEAD_CACHE", self.at("cache"))
            .env("PINHEAD_GUEST_DIR", self.at("guest"))
            .output()
            .expect("a step of the attack")
    }

    /// Asserts that root's command has failed, has done nothing for the attacker, and reports the
    /// reason.
    fn is_refused(&self, output: &Output, marker: &Path) {
        let got = fs::read_to_string(marker);
        assert!(got.is_err(), "the attacker got: {got:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        for part in ["cache is not safe to use: it belongs to user 65534", "PINHEAD_CACHE"] {
            assert!(stderr.contains(part), "{stderr}");
        }
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        if let Some(attacker) = &mut self.attacker {
            let _ = attacker.kill();
            let _ = attacker.wait();
        }
        let _ = fs::remove_dir_all(&self.place);
    }
}

/// Root writes apt's configuration into a file that the user keeps open, and the user adds a
/// command.
#[test]
fn finding_01_root_runs_no_hook_out_of_a_users_cache() {
    let Some(mut attack) = Attack::new("hook") else { return };
    let owned = attack.at("owned");
    attack.before("mkdir -p apt/x86_64 && : > apt/x86_64/apt.conf");
    // The hook fails, so that the update ends before any download.
    let hook = format!("APT::Update::Pre-Invoke {{ \"id > {}; exit 1\"; }};", owned.display());
    attack.meanwhile(&format!(
        "until [ -s apt/x86_64/apt.conf ]; do :; done; echo '{hook}' >> apt/x86_64/apt.conf"
    ));
    let output = attack.up(&["--guests", "1", "--for", "1"]);
    attack.is_refused(&output, &owned);
}

/// Root runs the last step of an image's build from a directory that the user replaces during the
/// download of packages.
#[test]
fn finding_01_root_runs_no_script_out_of_a_users_cache() {
    let Some(mut attack) = Attack::new("script") else { return };
    let owned = attack.at("owned");
    let farm = attack.at("FARM.toml");
    let class = "[[class]]\nname = 'w'\nimage = 'debian-nginx'\ndaemon = false\n";
    fs::write(&farm, class).unwrap();
    // The packages exist already, so the build of the disk comes next.
    let modules = "virtio_pci virtio_console virtio_balloon virtio_net pvpanic_pci";
    attack.before(&format!(
        "mkdir -p packages/x86_64/boot packages/x86_64/bin packages/x86_64/lib/modules/1 \
             disks/x86_64\n\
         echo > packages/x86_64/boot/vmlinuz-1\n\
         echo > packages/x86_64/bin/busybox\n\
         for module in {modules}; do echo kernel/$module.ko; done \
             > packages/x86_64/lib/modules/1/modules.builtin"
    ));
    let disk = "disks/x86_64/debian-nginx.part";
    attack.meanwhile(&format!(
        "until [ -e {disk}/tree/usr/bin/dpkg ]; do :; done\n\
         mv {disk} disks/x86_64/moved && mkdir {disk} && ln -s ../moved/tree {disk}/tree\n\
         echo 'id > {}; exit 1' > {disk}/customize.sh",
        owned.display()
    ));
    let output = attack.up(&[farm.to_str().unwrap(), "--for", "1"]);
    attack.is_refused(&output, &owned);
}

/// Root opens a lock file that is a link to a directory where the user may not write.
#[test]
fn finding_01_root_follows_no_link_out_of_a_users_cache() {
    let Some(attack) = Attack::new("link") else { return };
    let made = attack.at("made");
    // The packages' directory is a file, so that nothing is downloaded.
    attack.before("echo > packages");
    symlink(&made, attack.at("cache/lock")).unwrap();
    let output = attack.up(&["--guests", "1", "--for", "1"]);
    attack.is_refused(&output, &made);
}

/// The owner of a directory above the cache can replace the cache by another one.
#[test]
fn finding_01_a_cache_below_a_users_directory_is_refused_too() {
    let Some(attack) = Attack::new("above") else { return };
    let above = attack.at("cache");
    fs::create_dir(above.join("pinhead")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_pinhead"))
        .args(["up", "--no-manager", "--guests", "1", "--for", "1"])
        .env("PINHEAD_CACHE", above.join("pinhead"))
        .env("PINHEAD_GUEST_DIR", attack.at("guest"))
        .output()
        .unwrap();
    let touched = fs::read_dir(above.join("pinhead")).unwrap().count();
    assert_eq!(touched, 0, "root has worked in it");
    attack.is_refused(&output, &attack.at("owned"));
}
