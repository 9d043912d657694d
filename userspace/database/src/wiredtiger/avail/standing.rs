// SPDX-License-Identifier: GPL-2.0-or-later
//! What may be done with the blocks that a database's checkpoints free: lists are
//! understood of more databases than those for which the rule is known to hold.

use std::path::Path;

use super::{refuse, unsupported, FileEntry, Kind, Refusal, Snapshot, Version, NOT_YET};

/// Major and minor versions whose blocks may be discarded: those that never checkpoint
/// a single file when its handle is closed, by their source.  The tests have databases of
/// 11.2, 11.3 and 12.0, and none of 11.0.
///
/// In MongoDB 5.0 to 5.3 such a checkpoint frees blocks for use at once, and no turtle
/// shows.  They call themselves 10.0.2, as MongoDB 6.0 does, which makes none.  Nothing
/// in the files separates the two: the turtle has the same line of both, and what the
/// metadata says of a file is what the version that made the file wrote, and stays when
/// the database is upgraded or downgraded.  So neither is taken.
///
/// One checkpoint of a single file is left in all of these, at the end of a bulk load.  It
/// does no harm: WiredTiger refuses a bulk cursor on a file that ever had a checkpoint, so
/// that there is no older list, and a difference of lists needs one.
const PROVED: [(u32, u32); 4] = [(11, 0), (11, 2), (11, 3), (12, 0)];
/// From this one on a program cannot checkpoint some files alone: WiredTiger refuses it.
const WHOLE: u32 = 12;

/// What every database of mongod's has, below its directory.
const CATALOG: &str = "_mdb_catalog.wt";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They may be discarded.
    Discard,
    /// The rule holds, and nobody has tried it with this program: nothing is discarded before
    /// an audit of each process that opens this very database has passed, of so many pages at
    /// least as are the default.
    Prove(String),
    /// The rule may hold, and nobody has seen it: nothing is discarded before an audit of
    /// this very database has.
    Audit(String),
    /// The rule does not hold, or its proof does not cover this.
    Refused(String),
}

impl Snapshot {
    pub fn standing(&self) -> Standing {
        let version = self.version;
        let number = (version.major, version.minor);
        if number < PROVED[0] {
            return Standing::Refused(too_old(version));
        }
        if self.unsynced {
            return Standing::Refused(
                "the database has checkpoint_sync=false: its checkpoints are not durable".into(),
            );
        }
        let is_mongods = self.files.iter().any(|f| f.path == Path::new(CATALOG));
        // What a checkpoint of some files alone frees is handed out before any turtle
        // shows; mongod makes none.
        if version.major < WHOLE && !is_mongods {
            return Standing::Refused(format!(
                "the database has no {CATALOG}: it is not mongod's, and others may make checkpoints of some files alone"
            ));
        }
        if !PROVED.contains(&number) {
            return Standing::Audit(format!(
                "the database is of WiredTiger {version}, with which nobody has tried discards"
            ));
        }
        if !is_mongods {
            return Standing::Prove(format!(
                "the database has no {CATALOG}: it is not mongod's, and nobody has tried discards with its program"
            ));
        }
        Standing::Discard
    }

    /// Refuses one of which no file but WiredTiger's own has a checkpoint: nothing can be said
    /// of it yet.
    pub fn has_begun(&self) -> Result<(), Refusal> {
        let begun = |f: &FileEntry| f.order > 0 && !f.name().starts_with(b"WiredTiger");
        match self.files.iter().any(begun) {
            true => Ok(()),
            false => Err(refuse(Kind::Early, NOT_YET)),
        }
    }

    /// Whether blocks of this database may be discarded when its audit has passed.
    pub fn may_discard(&self) -> Result<(), Refusal> {
        match self.standing() {
            Standing::Discard | Standing::Prove(_) => Ok(()),
            Standing::Audit(why) | Standing::Refused(why) => Err(unsupported(why)),
        }
    }
}

fn too_old(version: Version) -> String {
    let of = match (version.major, version.minor, version.patch) {
        (10, 0, 2) => {
            " (MongoDB 5.0 and 6.0, which nothing in the files separates, and whose support has ended)"
        }
        _ => "",
    };
    format!(
        "the database is of WiredTiger {version}{of}, and blocks are discarded from 11.0 on (MongoDB 6.1)"
    )
}
