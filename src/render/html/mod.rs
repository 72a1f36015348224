//! One self-contained HTML page: style, script and pictures are inside, nothing is fetched, and it reads without its script.

mod timeline;

use std::io;

use askama::Template;

use super::document::{Block, Document, Entry, Figure, Level, Note};
use super::plot::{Ink, LegendEntry};
use super::table::{Align, Table, Tone};
use crate::text;

const CSS: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const TIMELINE_SCRIPT: &str = include_str!("timeline.js");
/// Characters of a cell or a title; what is longer is cut.
const LONGEST_CELL: usize = 160;
const LONGEST_TITLE: usize = 2000;
/// Rows of a table that stand open; the whole of a longer one is folded.
const LONGEST_TABLE: usize = 60;
/// Characters of a text that stay on one line.
const WRAPS_FROM: usize = 28;

/// Writes a document as an HTML page.
///
/// # Errors
/// `out` cannot be written to.
pub fn write(document: &Document, out: &mut dyn io::Write) -> io::Result<()> {
    let mut blocks = document.sections.iter().flat_map(|section| &section.blocks);
    let has_timeline = blocks.any(|block| matches!(block, Block::Timeline(..)));
    let template = PageTemplate {
        page: View::new(document),
        css: ink_classes() + CSS,
        script: if has_timeline { format!("{SCRIPT}{TIMELINE_SCRIPT}") } else { SCRIPT.to_owned() },
        version: env!("CARGO_PKG_VERSION"),
    };
    template.write_into(out)
}

/// The classes that pictures and legends use: filled, stroked, lightly filled, written.
fn ink_classes() -> String {
    let mut css = String::new();
    for ink in Ink::all() {
        let name = ink.name();
        css.push_str(&format!(
            ".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name})}}.l-{name}{{fill:var(--{name});stroke:var(--{name})}}.t-{name}{{color:var(--{name})}}\n"
        ));
    }
    css
}

#[derive(Template)]
#[template(path = "page.html", config = "src/render/html/askama.toml")]
struct PageTemplate {
    page: View,
    css: String,
    script: String,
    version: &'static str,
}

/// A document with every text printable and every picture drawn.
struct View {
    title: String,
    facts: Vec<String>,
    headline: Vec<String>,
    picture: Option<FigureBox>,
    findings: Vec<NoteBox>,
    sections: Vec<SectionBox>,
    warnings: Vec<NoteBox>,
    definitions: Vec<(String, String)>,
    method: Vec<String>,
}

struct SectionBox {
    heading: String,
    blocks: Vec<Piece>,
}

enum Piece {
    Text(String),
    Command(String),
    Entries(Vec<EntryBox>),
    Table(TableBox),
    Details(TableBox),
    Figure(FigureBox),
    Figures(Vec<(String, Vec<FigureBox>)>),
    Timeline(TimelineBox),
}

struct TimelineBox {
    /// What is in it, as sentences.
    said: Vec<String>,
    /// JSON that no end of a script is in.
    data: String,
    /// What is shown without script, and printed.
    still: Option<FigureBox>,
}

struct EntryBox {
    name: String,
    text: String,
    tone: &'static str,
}

struct NoteBox {
    class: &'static str,
    label: &'static str,
    text: String,
    evidence: Option<String>,
    advice: Option<String>,
}

struct TableBox {
    caption: String,
    heads: Vec<HeadBox>,
    rows: Vec<RowBox>,
    note: Option<String>,
}

struct HeadBox {
    text: String,
    unit: &'static str,
    help: String,
    right: bool,
}

struct RowBox {
    faint: bool,
    cells: Vec<CellBox>,
}

struct CellBox {
    names_row: bool,
    text: String,
    sort: Option<f64>,
    title: Option<String>,
    /// `n` for numbers, `long` for texts that may wrap.
    class: &'static str,
    tone: &'static str,
    change: Option<(String, &'static str)>,
}

struct FigureBox {
    caption: String,
    svg: String,
    legend: Vec<LegendEntry>,
}

fn printable(text: &str) -> String {
    text::printable(text).into_owned()
}

fn tone_class(tone: Tone) -> &'static str {
    match tone {
        Tone::Neutral => "",
        Tone::Good => "good",
        Tone::Bad => "bad",
    }
}

impl View {
    fn new(document: &Document) -> Self {
        Self {
            title: printable(&document.title),
            facts: document.facts.iter().map(|s| printable(s)).collect(),
            headline: document.headline.iter().map(|s| printable(s)).collect(),
            picture: document.picture.as_ref().map(FigureBox::new),
            findings: document
                .findings
                .iter()
                .map(|note| NoteBox::new(note, note.level.label()))
                .collect(),
            sections: document
                .sections
                .iter()
                .map(|s| SectionBox {
                    heading: printable(&s.heading),
                    blocks: s.blocks.iter().flat_map(Piece::new).collect(),
                })
                .collect(),
            warnings: document.warnings.iter().map(|note| NoteBox::new(note, "Warning")).collect(),
            definitions: document
                .definitions
                .iter()
                .map(|(term, text)| (printable(term), printable(text)))
                .collect(),
            method: document.method.iter().map(|s| printable(s)).collect(),
        }
    }
}

impl Piece {
    fn new(block: &Block) -> Vec<Self> {
        match block {
            Block::Text(text) => vec![Piece::Text(printable(text))],
            Block::Command(words) => vec![Piece::Command(printable(&words.join(" ")))],
            Block::Table(table) | Block::Records(table) => match table.limited(LONGEST_TABLE) {
                (_, None) => vec![Piece::Table(TableBox::new(table))],
                (short, Some(said)) => {
                    let short = TableBox { note: Some(said), ..TableBox::new(&short) };
                    vec![Piece::Table(short), Piece::Details(TableBox::new(table))]
                }
            },
            Block::Entries(entries) => {
                let entry = |e: &Entry| EntryBox {
                    name: printable(&e.name),
                    text: printable(&e.text),
                    tone: tone_class(e.tone),
                };
                vec![Piece::Entries(entries.iter().map(entry).collect())]
            }
            Block::Details(table) => vec![Piece::Details(TableBox::new(table))],
            Block::Figure(figure) => vec![Piece::Figure(FigureBox::new(figure))],
            Block::Timeline(lanes, still) => vec![Piece::Timeline(TimelineBox {
                said: timeline::said(lanes),
                data: timeline::json(lanes),
                still: still.as_ref().map(FigureBox::new),
            })],
            Block::Figures(things) => {
                let drawn = |figures: &Vec<Figure>| figures.iter().map(FigureBox::new).collect();
                let things = things.iter().map(|(name, figures)| (printable(name), drawn(figures)));
                vec![Piece::Figures(things.collect())]
            }
        }
    }
}

impl NoteBox {
    fn new(note: &Note, label: &'static str) -> Self {
        let class = match note.level {
            Level::High => "high",
            Level::Medium => "medium",
            Level::Info => "info",
        };
        Self {
            class,
            label,
            text: printable(&note.text),
            evidence: note.evidence.as_deref().map(printable),
            advice: note.advice.as_deref().map(printable),
        }
    }
}

impl TableBox {
    fn new(table: &Table) -> Self {
        let heads = table
            .columns
            .iter()
            .map(|c| HeadBox {
                text: printable(&c.head),
                unit: c.unit,
                help: printable(&c.help),
                right: c.align == Align::Right,
            })
            .collect();
        let rows = (0..table.len())
            .map(|row| RowBox {
                faint: table.faint.contains(&row),
                cells: table
                    .row(row)
                    .enumerate()
                    .map(|(at, (column, cell))| {
                        let full = printable(&cell.text);
                        let text = text::shorten(&full, LONGEST_CELL).into_owned();
                        let title = cell
                            .title
                            .as_deref()
                            .map(printable)
                            .or_else(|| (text != full).then(|| full.clone()));
                        CellBox {
                            names_row: at == 0,
                            class: match column.align {
                                Align::Right => "n",
                                Align::Left if text.chars().nth(WRAPS_FROM).is_some() => "long",
                                Align::Left => "",
                            },
                            text,
                            sort: cell.sort,
                            title: title.map(|t| text::shorten(&t, LONGEST_TITLE).into_owned()),
                            tone: tone_class(cell.tone),
                            change: cell
                                .change
                                .as_ref()
                                .map(|change| (printable(&change.text), tone_class(change.tone))),
                        }
                    })
                    .collect(),
            })
            .collect();
        Self {
            caption: printable(&table.caption),
            heads,
            rows,
            note: table.note.as_deref().map(printable),
        }
    }
}

impl FigureBox {
    fn new(figure: &Figure) -> Self {
        let drawing = figure.plot.draw(&figure.description);
        let legend = drawing
            .legend
            .into_iter()
            .map(|entry| LegendEntry { name: printable(&entry.name), ..entry })
            .collect();
        Self { caption: printable(&figure.caption), svg: drawing.svg, legend }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The colours of the light theme, then of the dark one, by variable.
    fn themes() -> [std::collections::HashMap<&'static str, [f64; 3]>; 2] {
        let (light, dark) = CSS.split_once("prefers-color-scheme: dark").expect("two themes");
        [light, dark].map(|theme| {
            let variables = theme.split("--").skip(1).filter_map(|part| part.split_once(": #"));
            let channel = |hex: &str, i: usize| {
                f64::from(u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("a colour")) / 255.0
            };
            variables.map(|(name, hex)| (name, [0, 1, 2].map(|i| channel(hex, i)))).collect()
        })
    }

    /// Contrast of two colours as WCAG 2 defines it, 1 to 21.
    fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
        let linear =
            |c: f64| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
        let luminance =
            |c: [f64; 3]| 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_can_be_read_in_both_themes() {
        for (theme, colors) in themes().iter().enumerate() {
            let check = |ink: &str, ground: &str, least: f64| {
                let value = contrast(colors[ink], colors[ground]);
                assert!(
                    value >= least,
                    "theme {theme}: {ink} on {ground} has a contrast of {value:.2}"
                );
            };
            for ground in ["page", "panel"] {
                for ink in ["text", "muted", "link", "high", "medium", "info"] {
                    check(ink, ground, 4.5);
                }
            }
            check("on-dark", "compute", 4.5);
            for ground in ["comm", "copies", "unclassified", "idle", "wait"] {
                check("on-light", ground, 4.5);
            }
            for mark in
                ["compute", "comm", "copies", "unclassified", "idle", "wait", "good", "high"]
            {
                check(mark, "page", 3.0);
                check(mark, "ground", 3.0);
            }
            // Lines and marks need less, but must stand out from the page.
            for ink in ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"] {
                check(ink, "page", 3.0);
            }
        }
    }

    #[test]
    fn every_ink_has_a_colour_in_both_themes() {
        for colors in themes() {
            for ink in Ink::all() {
                assert!(colors.contains_key(ink.name()), "--{}", ink.name());
            }
        }
    }
}
