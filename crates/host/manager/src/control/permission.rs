//! Permissions of clients that may open the socket.
//!
//! The owner and root may send any request. Any other client that could open the socket is a member
//! of the socket's group, and may read. A setting decides whether members may also change
//! something. A client's user is the user that the kernel recorded when the connection was made.

use super::{Ask, Failure, Peer};
use crate::config::GroupMay;

/// Rights of clients other than the owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rights {
    pub(super) group: Option<GroupMay>,
    /// User that runs the manager.
    pub(super) owner: u32,
}

impl Rights {
    pub(super) fn check(self, peer: Peer, ask: &Ask) -> Result<(), Failure> {
        let is_owner = [0, self.owner].contains(&peer.uid);
        match self.group {
            _ if is_owner => return Ok(()),
            Some(GroupMay::Set) => return Ok(()),
            Some(GroupMay::Ask) if !ask.is_order() => return Ok(()),
            Some(GroupMay::Ask) => {}
            None => {
                let message = format!("User {} has no permission to use this socket", peer.uid);
                return Err(
                    Failure::new(message).help("run the command as the owner of the socket")
                );
            }
        }
        let message = format!(
            "User {} may only read from this manager: `{}` is not permitted",
            peer.uid,
            ask.verb()
        );
        let help = "run the command as the manager's user, or permit it to the group: `group_may = \
                    \"set\"` in [control]";
        Err(Failure::new(message).help(help))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Change, Whose};

    #[test]
    fn group_members_only_read_unless_the_setting_allows_changes() {
        let guest = || "web1".to_owned();
        let orders = [
            Ask::Set { guest: guest(), change: Change::Release },
            Ask::Park { guest: guest() },
            Ask::Wake { guest: guest() },
            Ask::Reserve { mib: 64, timeout_ms: 0, hold_ms: 1 },
            Ask::Unreserve { reservation: 1 },
            Ask::Reload,
            Ask::Yield,
        ];
        let questions = [
            Ask::Ps,
            Ask::Levers,
            Ask::Status,
            Ask::Inputs { guest: guest() },
            Ask::Scan { guest: guest() },
            Ask::Capture { guest: guest() },
            Ask::Interval { processes: Whose::Everybody },
        ];
        let peer = |uid| Peer { pid: 7, uid, gid: 100 };
        let owner = 990;
        let rights = |group| Rights { group, owner };
        let [looks, sets] = [GroupMay::Ask, GroupMay::Set].map(|group| rights(Some(group)));
        let refused = rights(None).check(peer(1000), &Ask::Ps).unwrap_err();
        assert_eq!(
            refused.message, "User 1000 has no permission to use this socket",
            "there is no group"
        );
        assert_eq!(rights(None).check(peer(owner), &Ask::Ps), Ok(()));
        for ask in &questions {
            assert_eq!(looks.check(peer(1000), ask), Ok(()));
        }
        for ask in &orders {
            let refused = looks.check(peer(1000), ask).unwrap_err();
            assert!(refused.message.contains("User 1000 may only read"), "{refused:?}");
            assert!(refused.help.unwrap().contains("group_may = \"set\""));
            assert_eq!(looks.check(peer(owner), ask), Ok(()));
            assert_eq!(looks.check(peer(0), ask), Ok(()));
            assert_eq!(sets.check(peer(1000), ask), Ok(()));
        }
    }
}
