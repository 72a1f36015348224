//! Which NVTX ranges are a library's own: they mark a call of the library, never a step of the program.
//!
//! Two tables: names of NVTX domains, and beginnings of texts for libraries that write into the default
//! domain. PyTorch's `emit_nvtx` writes one range for each operation and tells it by its ending.

/// Domains of libraries, in small letters and digits alone; a domain is theirs if its name begins so.
const DOMAINS: &[&str] = &[
    "nccl",
    "cccl",
    "cub",
    "thrust",
    "cublas",
    "cudnn",
    "cutlass",
    "cusparse",
    "cusolver",
    "cufft",
    "curand",
    "cutensor",
    "transformerengine",
    "dali",
    "nvidiadali",
    "libcudf",
    "cudf",
    "libkvikio",
    "kvikio",
    "rapids",
    "raft",
    "libraft",
    "rmm",
    "librmm",
    "cuml",
    "cugraph",
    "cuvs",
    "nvshmem",
    "ucx",
    "ucp",
    "uct",
    "tensorrt",
    "nvjpeg",
    "npp",
    "nvimagecodec",
    "nixl",
];

/// Beginnings of texts that libraries write into the default domain.
const TEXTS: &[&str] = &[
    "nccl",
    "transformer_engine.",
    "nvte_",
    "te.",
    "cub::",
    "thrust::",
    "cudf::",
    "raft::",
    "[DALI]",
    "DALI ",
    "cudnn",
    "cublas",
    "aten::",
    "autograd::",
    "c10d::",
    "record_param_comms",
    "nvshmem",
];

/// True for the name of a library's NVTX domain.
pub(crate) fn is_library_domain(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    DOMAINS.iter().any(|domain| plain.starts_with(domain))
}

/// True for a range text that a library writes, whatever its domain.
pub(crate) fn is_library_text(text: &str) -> bool {
    TEXTS.iter().any(|start| text.starts_with(start))
        || has_number_after(text, ", seq = ")
        || has_number_after(text, "op_id = ")
}

fn has_number_after(text: &str, mark: &str) -> bool {
    text.find(mark)
        .is_some_and(|at| text[at + mark.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_by_domain_or_text() {
        for domain in
            ["NCCL", "CCCL", "TransformerEngine", "NVIDIA DALI", "libcudf", "cuDNN", "NVSHMEM"]
        {
            assert!(is_library_domain(domain), "{domain}");
        }
        for domain in ["train", "my-app", "Megatron", "TSL", "vLLM", "PyTorch"] {
            assert!(!is_library_domain(domain), "{domain}");
        }
        for text in [
            "ncclAllReduce",
            "transformer_engine.LayerNormLinear.forward",
            "aten::mm, op_id = 17",
            "AddmmBackward0, seq = 12, op_id = 4",
            "cub::DeviceReduce::Sum",
        ] {
            assert!(is_library_text(text), "{text}");
        }
        for text in
            ["Batch 5", "forward", "text encoder", "optimizer, seq = long", "step 3", "team 4"]
        {
            assert!(!is_library_text(text), "{text}");
        }
    }
}
