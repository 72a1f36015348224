//! What the names of events mean: which primitive, which part of a collective, what `size` and `rsvd` say.

use super::ids::{Ids, Library, is_whole};

/// A part of a collective that several primitives make up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// First half of a ring AllReduce: send, and receive-reduce-send.
    ReduceScatter,
    /// The step of a ring AllReduce that ends the reduction and begins the gathering. It belongs to both, so it stands alone.
    Pivot,
    /// Second half of a ring AllReduce, or an AllGather.
    AllGather,
    /// Up a tree.
    TreeUp,
    /// Down a tree.
    TreeDown,
    /// Up and down a tree at once.
    TreeBoth,
    /// A send of a point-to-point operation.
    Send,
    /// A receive of a point-to-point operation.
    Receive,
    /// A copy to oneself.
    LocalCopy,
}

impl Part {
    /// The name in JSON.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Part::ReduceScatter => "reduce_scatter",
            Part::Pivot => "pivot",
            Part::AllGather => "all_gather",
            Part::TreeUp => "tree_up",
            Part::TreeDown => "tree_down",
            Part::TreeBoth => "tree_both",
            Part::Send => "send",
            Part::Receive => "receive",
            Part::LocalCopy => "local_copy",
        }
    }

    /// The part that an event is of, by the event's name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "ALL_REDUCE_RING_SEND" | "ALL_REDUCE_RING_RECV_REDUCE_SEND" => Part::ReduceScatter,
            "ALL_REDUCE_RING_DIRECT_RECV_REDUCE_COPY_SEND" => Part::Pivot,
            "ALL_REDUCE_RING_DIRECT_RECV_COPY_SEND" | "ALL_REDUCE_RING_DIRECT_RECV" => {
                Part::AllGather
            }
            "ALL_REDUCE_TREE_UPDOWN_REDUCE" | "ALL_REDUCE_TREE_SPLIT_REDUCE" => Part::TreeUp,
            "ALL_REDUCE_TREE_UPDOWN_BROADCAST" | "ALL_REDUCE_TREE_SPLIT_BROADCAST" => {
                Part::TreeDown
            }
            "ALL_REDUCE_TREE_SPLIT_REDUCE_BROADCAST" => Part::TreeBoth,
            "SEND_RECV_SEND" => Part::Send,
            "SEND_RECV_RECV" => Part::Receive,
            "SEND_RECV_LOCAL_COPY" => Part::LocalCopy,
            _ if name.starts_with("ALL_GATHER_RING_") => Part::AllGather,
            _ => return None,
        })
    }
}

/// The primitive of an event: its name without the collective that it is a part of and without `DIRECT_`, which says only where
/// the data lies.
pub(crate) fn primitive(name: &str) -> &str {
    const COLLECTIVES: [&str; 7] = [
        "ALL_REDUCE_RING_",
        "ALL_GATHER_RING_",
        "ALL_REDUCE_TREE_UPDOWN_",
        "ALL_REDUCE_TREE_SPLIT_",
        "SEND_RECV_",
        "PRIM_",
        "EXECUTOR_",
    ];
    let rest = COLLECTIVES.iter().find_map(|c| name.strip_prefix(c)).unwrap_or(name);
    rest.strip_prefix("DIRECT_").unwrap_or(rest)
}

/// What `rsvd` at the end of an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// Time in which data was processed: the rest of the event is waiting.
    Processing,
    /// Time of waiting for the peer.
    Waiting,
    /// Nothing; all of the event is waiting.
    AllWaiting,
    /// Nothing.
    Nothing,
}

impl Reserved {
    /// By the event's name.
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "PRIM_LL_DATA_PROCESS" | "PRIM_LL128_DATA_PROCESS" => Reserved::Waiting,
            "PRIM_LL_WAIT_SEND" | "PRIM_LL128_WAIT_SEND" | "PRIM_SIMPLE_WAIT_PEER" => {
                Reserved::AllWaiting
            }
            _ if is_whole(name) => Reserved::Nothing,
            _ if name.starts_with("ALL_REDUCE_")
                || name.starts_with("ALL_GATHER_RING_")
                || name.starts_with("SEND_RECV_") =>
            {
                Reserved::Processing
            }
            _ => Reserved::Nothing,
        }
    }
}

/// What `size` at the end of an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// The bytes that the event moved.
    Own,
    /// The bytes of the whole message, the same in every channel.
    Message,
    /// Something that gives no bandwidth, and why.
    None(&'static str),
}

impl Size {
    /// By the event's name and the libraries that it may come from.
    pub(crate) fn of(name: &str, ids: &Ids) -> Self {
        let msccl = ids.libraries.contains(&Library::Msccl);
        match name {
            "ALL_REDUCE_RING" => match (msccl, ids.libraries.len()) {
                (true, 1) => Size::None("the library writes the size of one chunk only"),
                (false, 1..) => Size::Message,
                _ => Size::None(
                    "its size is the whole message or one chunk, depending on the library",
                ),
            },
            "ALL_REDUCE_TREE_UPDOWN" | "ALL_REDUCE_TREE_SPLIT" => Size::Message,
            _ => match Reserved::of(name) {
                Reserved::AllWaiting => Size::None("nothing is moved while it waits"),
                _ => Size::Own,
            },
        }
    }
}

/// True for the events of proxy threads.
pub(crate) fn is_proxy(name: &str) -> bool {
    name.starts_with("NET_") || name.starts_with("CONN_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primitives_have_the_same_name_in_every_collective() {
        let cases = [
            ("ALL_REDUCE_RING_SEND", "SEND", Some(Part::ReduceScatter)),
            (
                "ALL_REDUCE_RING_DIRECT_RECV_REDUCE_COPY_SEND",
                "RECV_REDUCE_COPY_SEND",
                Some(Part::Pivot),
            ),
            ("ALL_REDUCE_RING_DIRECT_RECV", "RECV", Some(Part::AllGather)),
            ("ALL_GATHER_RING_RECV_COPY_SEND", "RECV_COPY_SEND", Some(Part::AllGather)),
            ("ALL_REDUCE_TREE_UPDOWN_REDUCE", "REDUCE", Some(Part::TreeUp)),
            ("ALL_REDUCE_TREE_SPLIT_REDUCE_BROADCAST", "REDUCE_BROADCAST", Some(Part::TreeBoth)),
            ("SEND_RECV_LOCAL_COPY", "LOCAL_COPY", Some(Part::LocalCopy)),
            ("RECV_REDUCE_SEND", "RECV_REDUCE_SEND", None),
            ("PRIM_LL_DATA_PROCESS", "LL_DATA_PROCESS", None),
            ("NET_SEND", "NET_SEND", None),
        ];
        for (name, want, part) in cases {
            assert_eq!((primitive(name), Part::of(name)), (want, part), "{name}");
        }
    }

    #[test]
    fn the_size_of_a_ring_depends_on_the_library() {
        let size = |libraries: &[Library]| {
            let mut ids = Ids::of(Library::Nccl);
            ids.libraries = libraries.to_vec();
            Size::of("ALL_REDUCE_RING", &ids)
        };
        assert_eq!(size(&[Library::Nccl, Library::Rccl]), Size::Message);
        assert!(matches!(size(&[Library::Msccl]), Size::None(_)));
        assert!(matches!(size(&[Library::Nccl, Library::Msccl]), Size::None(_)));
        assert!(matches!(size(&[]), Size::None(_)), "a header does not say whose it is");
    }
}
