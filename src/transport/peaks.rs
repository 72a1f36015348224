//! How fast a link can be in one direction: the yardstick for a measured bus bandwidth.
//!
//! Vendors print NVLink in both directions together and PCIe as the raw rate of both; here is half of the former, and the
//! latter after line coding. 1 GB is 10^9 bytes.

/// What two GPUs exchange data over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LinkKind {
    /// So many NVLinks.
    NvLink(u32),
    /// A PCIe slot of 16 lanes, also where the data goes through host memory.
    Pcie,
}

/// The most that a link can carry.
#[derive(Debug, Clone, PartialEq)]
pub struct Peak {
    /// GB/s in one direction.
    pub gbs: f64,
    /// Where the number comes from.
    pub source: String,
}

/// NVLink of one GPU model.
struct NvLink {
    /// A word of the model's name.
    model: &'static str,
    /// Links that the GPU has.
    links: u32,
    /// GB/s of one link in one direction.
    gbs: f64,
    /// Document that says so, with the sum of all links in both directions.
    source: &'static str,
}

const fn nvlink(model: &'static str, links: u32, gbs: f64, source: &'static str) -> NvLink {
    NvLink { model, links, gbs, source }
}

/// Sources: the data sheet of each model (NVLink row), whose figure is links x one direction x 2.
const NVLINKS: &[NvLink] = &[
    nvlink("P100", 4, 20.0, "NVIDIA Tesla P100 data sheet: NVLink 160 GB/s"),
    nvlink("V100", 6, 25.0, "NVIDIA V100 data sheet: NVLink 300 GB/s"),
    nvlink("A100", 12, 25.0, "NVIDIA A100 data sheet: NVLink 600 GB/s"),
    nvlink("A800", 8, 25.0, "NVIDIA A800 data sheet: NVLink 400 GB/s"),
    nvlink("H100", 18, 25.0, "NVIDIA H100 data sheet: NVLink 900 GB/s"),
    nvlink("H800", 8, 25.0, "NVIDIA H800 data sheet: NVLink 400 GB/s"),
    nvlink("H200", 18, 25.0, "NVIDIA H200 data sheet: NVLink 900 GB/s"),
    nvlink("H20", 18, 25.0, "NVIDIA H20 data sheet: NVLink 900 GB/s"),
    nvlink("GH200", 18, 25.0, "NVIDIA GH200 data sheet: NVLink 900 GB/s"),
    nvlink("B200", 18, 50.0, "NVIDIA DGX B200 data sheet: NVLink 1.8 TB/s a GPU"),
    nvlink("GB200", 18, 50.0, "NVIDIA GB200 NVL72 data sheet: NVLink 1.8 TB/s a GPU"),
    nvlink("B300", 18, 50.0, "NVIDIA DGX B300 data sheet: NVLink 1.8 TB/s a GPU"),
    nvlink("GB300", 18, 50.0, "NVIDIA GB300 NVL72 data sheet: NVLink 1.8 TB/s a GPU"),
];

/// PCIe generation by a word of the model's name. Source: the interface row of each data sheet.
const PCIE: &[(&str, u32)] = &[
    ("P100", 3),
    ("V100", 3),
    ("T4", 3),
    ("A100", 4),
    ("A800", 4),
    ("A40", 4),
    ("A30", 4),
    ("A10", 4),
    ("A10G", 4),
    ("A6000", 4),
    ("L4", 4),
    ("L40", 4),
    ("L40S", 4),
    ("3090", 4),
    ("4090", 4),
    ("H100", 5),
    ("H800", 5),
    ("H200", 5),
    ("H20", 5),
    ("B200", 5),
    ("5090", 5),
];

/// The peak of `link` at a GPU of the model `gpu` (`NVIDIA H200`, `Tesla V100-SXM2-32GB`); `None` if the model is not known.
pub(crate) fn peak_gbs(gpu: &str, link: LinkKind) -> Option<Peak> {
    let is_word =
        |model: &str| gpu.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == model);
    match link {
        LinkKind::NvLink(links) => {
            let model = NVLINKS.iter().find(|m| is_word(m.model)).filter(|_| links > 0)?;
            // Where every cell of the matrix shows all links of a switch, they do not add up.
            let links = links.min(model.links);
            Some(Peak {
                gbs: f64::from(links) * model.gbs,
                source: format!("{links} NVLinks of {} GB/s ({})", model.gbs, model.source),
            })
        }
        LinkKind::Pcie => {
            let &(_, generation) = PCIE.iter().find(|(model, _)| is_word(model))?;
            // PCI Express Base Specification: 8 GT/s a lane in generation 3, twice that in each later one; 128b/130b coding.
            let gbs = f64::from(8_u32 << (generation - 3)) * 16.0 / 8.0 * 128.0 / 130.0;
            Some(Peak {
                gbs,
                source: format!(
                    "PCIe {generation}.0 x16, 128b/130b coding (PCI Express Base Specification; data sheet of the GPU)"
                ),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_by_hand() {
        let gbs = |gpu, link| peak_gbs(gpu, link).map(|peak| peak.gbs);
        assert_eq!(gbs("NVIDIA H200", LinkKind::NvLink(18)), Some(450.0));
        assert_eq!(gbs("NVIDIA H100 80GB HBM3", LinkKind::NvLink(6)), Some(150.0));
        assert_eq!(gbs("NVIDIA A100-SXM4-80GB", LinkKind::NvLink(12)), Some(300.0));
        assert_eq!(gbs("Tesla V100-SXM2-32GB", LinkKind::NvLink(2)), Some(50.0));
        assert_eq!(gbs("NVIDIA B200", LinkKind::NvLink(18)), Some(900.0));
        // Seven peers of 18 links behind one switch are 18 links.
        assert_eq!(gbs("NVIDIA H200", LinkKind::NvLink(126)), Some(450.0));
        let pcie = gbs("NVIDIA H200", LinkKind::Pcie).expect("a peak");
        assert!((pcie - 63.015).abs() < 0.001, "{pcie}");
        assert!((gbs("NVIDIA L40S", LinkKind::Pcie).expect("a peak") - 31.508).abs() < 0.001);
        assert!((gbs("Tesla T4", LinkKind::Pcie).expect("a peak") - 15.754).abs() < 0.001);
    }

    #[test]
    fn an_unknown_model_has_no_peak() {
        for gpu in ["", "NVIDIA L40S", "NVIDIA H2000", "XH100", "NVIDIA Z9"] {
            assert_eq!(peak_gbs(gpu, LinkKind::NvLink(4)), None, "{gpu}");
        }
        assert_eq!(peak_gbs("NVIDIA H200", LinkKind::NvLink(0)), None);
        assert_eq!(peak_gbs("NVIDIA B300", LinkKind::Pcie), None);
    }

    #[test]
    fn the_table_is_consistent_with_the_sums_that_its_sources_print() {
        for model in NVLINKS {
            let both = 2.0 * f64::from(model.links) * model.gbs;
            let printed = if both >= 1000.0 {
                format!("{:.1} TB/s", both / 1000.0)
            } else {
                format!("{both} GB/s")
            };
            assert!(model.source.contains(&printed), "{}: {printed}", model.model);
        }
    }
}
