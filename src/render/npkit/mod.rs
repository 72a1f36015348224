//! What NPKit's dumps say, on its way to a person or a program.

mod csv;
pub(super) mod tables;

use std::io::{self, Write};
use std::path::Path;

use super::document::{Block, Document, Section};
use super::view::notes;
use super::{Page, units};
use crate::npkit::view::Npkit;

impl Page for Npkit {
    fn document(&self) -> Document {
        document(self)
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv::write(self, out)
    }
}

fn document(view: &Npkit) -> Document {
    let sections = [
        ("Collectives", vec![tables::collectives(view)]),
        ("Channels", vec![tables::channels(&view.channels)]),
        ("Events", vec![tables::totals(&view.totals)]),
        ("The network's proxies", vec![tables::proxies_alone(view)]),
    ];
    Document {
        title: title(view),
        facts: facts(view),
        headline: headline(view),
        picture: None,
        findings: notes::findings(&view.findings),
        sections: sections
            .into_iter()
            .filter_map(|(heading, tables)| {
                Section::new(heading, tables.into_iter().flatten().map(Block::Table).collect())
            })
            .collect(),
        warnings: notes::warnings(&view.problems),
        definitions: definitions(),
        method: vec![
            "The n-th collective of each rank is taken for the same one; channels that run at the same time are one collective. Times rest on the GPU's nominal clock between two readings of the host's. Bandwidths are decimal. A dash means not measured."
                .to_owned(),
        ],
    }
}

fn title(view: &Npkit) -> String {
    let name = |path: &String| {
        let name = Path::new(path).file_name();
        name.map_or_else(|| path.clone(), |name| name.to_string_lossy().into_owned())
    };
    units::listed(&view.inputs.iter().map(name).collect::<Vec<_>>(), 2)
}

fn facts(view: &Npkit) -> Vec<String> {
    vec![
        format!("library {}", view.library),
        units::plural(view.ranks.len(), "rank"),
        format!("{} records", units::count(view.events)),
        units::plural(view.collectives.len(), "collective"),
    ]
}

fn headline(view: &Npkit) -> Vec<String> {
    match (view.totals.first(), view.collectives.len()) {
        (None, _) => vec!["The dump holds no event with a beginning and an end.".to_owned()],
        (Some(_), 0) => vec!["No event of the dump has a time.".to_owned()],
        (Some(first), n) => vec![format!(
            "Most of the time of events in {} is in {}: {} of them, {} in the mean.",
            units::plural(n, "collective"),
            first.name,
            units::count(first.count),
            units::time(first.mean_ns)
        )],
    }
}

fn definitions() -> Vec<(String, String)> {
    [
        ("primitive", "one step of a channel (SEND, RECV_REDUCE_COPY_SEND, ...): the sum over a collective, median over the channels that have it. Of NET_SEND and NET_RECV the time in which a request of the channel was in flight."),
        ("wait", "time of primitives in which no data was processed (rsvd of NPKit), as a share of their time over all channels; of LL and LL128 what they say they wait. A dash if the build did not collect it."),
        ("entry spread", "from the first channel's first event to the last channel's first event."),
        ("late", "how much later than the first rank this one entered the collective."),
        ("relative", "length of a channel without waiting by that of the median channel, in collectives of at least 50 µs and three channels."),
    ]
    .map(|(term, text)| (term.to_owned(), text.to_owned()))
    .to_vec()
}
