//! Names of owners, each looked up once.

use std::collections::HashMap;

use nix::unistd::{Gid, Group, Uid, User};

/// The names that this system has for users and groups; the number of one without a name.
#[derive(Debug, Default)]
pub(crate) struct OwnerNames {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl OwnerNames {
    pub(crate) fn user(&mut self, id: u32) -> &str {
        self.users.entry(id).or_insert_with(|| {
            let user = User::from_uid(Uid::from_raw(id)).ok().flatten();
            user.map_or_else(|| id.to_string(), |user| user.name)
        })
    }

    pub(crate) fn group(&mut self, id: u32) -> &str {
        self.groups.entry(id).or_insert_with(|| {
            let group = Group::from_gid(Gid::from_raw(id)).ok().flatten();
            group.map_or_else(|| id.to_string(), |group| group.name)
        })
    }
}
