//! Interned strings: kernel names and range texts are stored once.

use foldhash::HashMap;

use crate::redact;
use crate::text::shorten;

/// Characters of a name that are kept: the longest kernel names of template libraries have some thousands.
const LONGEST: usize = 16 << 10;

/// An index into [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

impl NameId {
    /// An operation without a name (copies, memsets, graphs).
    pub const NONE: NameId = NameId(u32::MAX);
}

/// A table of distinct strings, as they may be shown: without secrets, and not longer than a kernel's name can be.
#[derive(Debug, Clone, Default)]
pub struct Names {
    list: Vec<Box<str>>,
    index: HashMap<Box<str>, NameId>,
}

impl Names {
    /// The id of `name`, added if it is new.
    pub fn intern(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.index.get(name) {
            return id;
        }
        let id = NameId(self.list.len() as u32);
        self.list.push(redact::text(&shorten(name, LONGEST)).into());
        self.index.insert(name.into(), id);
        id
    }

    /// The string of `id`; empty for [`NameId::NONE`].
    pub fn get(&self, id: NameId) -> &str {
        self.list.get(id.0 as usize).map_or("", |s| s)
    }

    /// How many distinct strings there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
