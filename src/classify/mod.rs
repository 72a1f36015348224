//! Which kernels are communication: one ordered rule table (docs/metrics.md, section 3).
//!
//! Rules are prefixes and substrings, never loose words: `reduce` and `dispatch` occur in the names of many compute
//! kernels. What no rule names is compute; what the first rule that matches calls fused both communicates and computes,
//! stays compute and is named in a warning ([`doubt`]).

pub(crate) mod doubt;

pub(crate) mod ranges;

use regex::Regex;

use crate::error::{Error, Result};
use crate::model::CommOp;

/// The library or technique that a communication kernel belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// NCCL, its symmetric kernels and its one-rank reduce.
    Nccl,
    /// PyTorch symmetric memory.
    SymmetricMemory,
    /// The all-reduce that vLLM and SGLang bring along.
    CustomAllReduce,
    /// NVSHMEM.
    Nvshmem,
    /// DeepEP (expert-parallel dispatch and combine).
    DeepEp,
    /// MSCCL++.
    Mscclpp,
    /// Transformer Engine and TensorRT-LLM userbuffers.
    Userbuffers,
    /// The all-reduce and all-to-all of TensorRT-LLM, which FlashInfer and others carry along.
    TrtLlm,
    /// Expert-parallel dispatch and combine of DeepEP's hybrid branch and NCCL's expert parallelism.
    HybridEp,
    /// XLA's own collectives.
    Xla,
    /// Named by the user (`--comm-regex`).
    User,
}

impl Family {
    /// The name that reports print.
    pub fn label(self) -> &'static str {
        match self {
            Family::Nccl => "nccl",
            Family::SymmetricMemory => "symmetric-memory",
            Family::CustomAllReduce => "custom-all-reduce",
            Family::Nvshmem => "nvshmem",
            Family::DeepEp => "deepep",
            Family::Mscclpp => "mscclpp",
            Family::Userbuffers => "userbuffers",
            Family::TrtLlm => "tensorrt-llm",
            Family::HybridEp => "hybrid-ep",
            Family::Xla => "xla",
            Family::User => "user",
        }
    }
}

/// How a rule recognises a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// The short name (no namespace, no template arguments) starts with this.
    ShortPrefix(&'static str),
    /// The short name contains this.
    ShortContains(&'static str),
    /// The demangled name contains this: for kernels whose short name is a common word.
    DemangledContains(&'static str),
    /// The demangled name contains the first, a namespace, and the short name starts with the second.
    InNamespace(&'static str, &'static str),
}

impl Pattern {
    fn matches(self, short_name: &str, demangled: &str) -> bool {
        match self {
            Pattern::ShortPrefix(prefix) => short_name.starts_with(prefix),
            Pattern::ShortContains(part) => short_name.contains(part),
            Pattern::DemangledContains(part) => demangled.contains(part),
            Pattern::InNamespace(namespace, prefix) => {
                short_name.starts_with(prefix) && demangled.contains(namespace)
            }
        }
    }
}

/// What a kernel that a rule matches does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It moves data between GPUs or waits for other GPUs.
    Communicates,
    /// It communicates and computes in one: its time is both, and counts as compute.
    Fused,
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// What a kernel that matches belongs to.
    pub family: Family,
    /// What such a kernel does.
    pub role: Role,
    /// How it is recognised.
    pub pattern: Pattern,
    /// Kernels that it is there for, as (short name, demangled name).
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests run every one"))]
    pub examples: &'static [(&'static str, &'static str)],
}

/// The rules in order: the first that matches decides.
pub(crate) const RULES: &[Rule] = &[
    // Fused kernels come first: some of their names start like those of plain all-reduces.
    Rule {
        family: Family::TrtLlm,
        role: Role::Fused,
        pattern: Pattern::ShortContains("_all_reduce_norm_kernel"),
        examples: &[
            (
                "one_shot_all_reduce_norm_kernel",
                "void tensorrt_llm::kernels::reduce_fusion::one_shot_all_reduce_norm_kernel<__half, (bool)1, (bool)1, (int)2, (bool)1>(tensorrt_llm::kernels::AllReduceParams)",
            ),
            (
                "lamport_style_one_shot_all_reduce_norm_kernel",
                "void tensorrt_llm::kernels::reduce_fusion::lamport_style_one_shot_all_reduce_norm_kernel<__nv_bfloat16, (int)2>(tensorrt_llm::kernels::AllReduceParams)",
            ),
        ],
    },
    Rule {
        family: Family::TrtLlm,
        role: Role::Fused,
        pattern: Pattern::ShortContains("allreduce_fusion_kernel"),
        examples: &[
            (
                "allreduce_fusion_kernel_oneshot_lamport",
                "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(int)2, __half>(int)",
            ),
            (
                "allreduce_fusion_kernel_twoshot_sync",
                "void tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_twoshot_sync<(int)1, __half, (int)4>(int)",
            ),
            (
                "moefinalize_allreduce_fusion_kernel_oneshot_lamport",
                "void tensorrt_llm::kernels::ar_fusion::moe::moefinalize_allreduce_fusion_kernel_oneshot_lamport<(int)4>(int)",
            ),
        ],
    },
    Rule {
        family: Family::TrtLlm,
        role: Role::Fused,
        pattern: Pattern::ShortContains("AllreduceFusionKernel"),
        examples: &[(
            "oneshotAllreduceFusionKernel",
            "void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<(unsigned char)8, __nv_bfloat16, (bool)1>(T2 *)",
        )],
    },
    Rule {
        family: Family::Userbuffers,
        role: Role::Fused,
        pattern: Pattern::ShortContains("_inplace_gpu_mc_rmsnorm"),
        examples: &[(
            "userbuffers_fp16_sum_inplace_gpu_mc_rmsnorm_quant",
            "void tensorrt_llm::kernels::ub::userbuffers_fp16_sum_inplace_gpu_mc_rmsnorm_quant<__half, (int)4>(int)",
        )],
    },
    Rule {
        family: Family::Nccl,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("nccl"),
        examples: &[
            // Up to 2.7, then 2.8 to 2.18, then 2.19 and later; symmetric kernels since 2.27 and 2.28.
            ("ncclAllReduceRingLLKernel_sum_f32", "ncclAllReduceRingLLKernel_sum_f32(ncclColl)"),
            (
                "ncclKernel_AllReduce_RING_LL_Sum_float",
                "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm *, unsigned long, ncclWork *)",
            ),
            (
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
            ),
            (
                "ncclDevKernel_Generic",
                "ncclDevKernel_Generic(ncclDevComm *, unsigned long, ncclWork *)",
            ),
            ("ncclSymDevKernel_AllGather_LL", "ncclSymDevKernel_AllGather_LL(ncclSymDevArgs)"),
            (
                "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16",
                "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymkDevWorkArgs)",
            ),
        ],
    },
    Rule {
        family: Family::Nccl,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("oneRankReduce"),
        examples: &[(
            "oneRankReduce",
            "void <unnamed>::oneRankReduce<FuncPreMulSum<float>>(void *, void *, unsigned long, unsigned long, bool)",
        )],
    },
    Rule {
        family: Family::SymmetricMemory,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("one_shot_all_reduce"),
        examples: &[(
            "one_shot_all_reduce_kernel",
            "void <unnamed>::one_shot_all_reduce_kernel<c10::BFloat16, (int)16, (int)8>(T1 **, T1 *)",
        )],
    },
    Rule {
        family: Family::SymmetricMemory,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("two_shot_all_reduce"),
        examples: &[
            (
                "two_shot_all_reduce_kernel",
                "void <unnamed>::two_shot_all_reduce_kernel<float, (int)16, (int)8>(T1 **, T1 *)",
            ),
            (
                "two_shot_all_reduce_kernel_inplace",
                "void <unnamed>::two_shot_all_reduce_kernel_inplace<float, (int)16, (int)8>(T1 **)",
            ),
        ],
    },
    Rule {
        family: Family::SymmetricMemory,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("multimem_"),
        examples: &[
            (
                "multimem_all_reduce_kernel",
                "void <unnamed>::multimem_all_reduce_kernel<c10::BFloat16, (int)16>(T1 *)",
            ),
            (
                "multimem_one_shot_all_reduce_kernel",
                "void <unnamed>::multimem_one_shot_all_reduce_kernel<float, (int)16>(T1 *)",
            ),
            (
                "multimem_all_gather_kernel",
                "void <unnamed>::multimem_all_gather_kernel<(int)16>(char *)",
            ),
        ],
    },
    Rule {
        family: Family::CustomAllReduce,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("cross_device_reduce"),
        examples: &[
            (
                "cross_device_reduce_1stage",
                "void vllm::cross_device_reduce_1stage<__nv_bfloat16, (int)8>(vllm::RankData *)",
            ),
            (
                "cross_device_reduce_2stage",
                "void sglang::cross_device_reduce_2stage<__half, (int)4>(sglang::RankData *)",
            ),
        ],
    },
    Rule {
        family: Family::Nvshmem,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("nvshmem"),
        examples: &[
            ("nvshmemi_barrier_all_kernel", "nvshmemi_barrier_all_kernel()"),
            ("nvshmemx_alltoall_kernel", "nvshmemx_alltoall_kernel(int)"),
        ],
    },
    Rule {
        family: Family::DeepEp,
        role: Role::Communicates,
        pattern: Pattern::DemangledContains("deep_ep::"),
        examples: &[
            (
                "dispatch",
                "void deep_ep::intranode::dispatch<(int)8, (int)768, (int)8192>(int4 *, float *)",
            ),
            (
                "combine",
                "void deep_ep::legacy::internode_ll::combine<(bool)0, (int)7168, (int)9>(void *, void *)",
            ),
            (
                "notify_dispatch",
                "void deep_ep::internode::notify_dispatch<(bool)0, (int)2>(const int *, int *)",
            ),
        ],
    },
    Rule {
        family: Family::Mscclpp,
        role: Role::Communicates,
        pattern: Pattern::DemangledContains("mscclpp::"),
        examples: &[
            (
                "executionKernel",
                "void mscclpp::executionKernel<float, mscclpp::LL16Packet, (bool)0>(int, T1 *)",
            ),
            (
                "allreducePacket",
                "void mscclpp::collective::allreducePacket<(mscclpp::ReduceOp)0, __half>(T2 *, T2 *)",
            ),
        ],
    },
    Rule {
        family: Family::Userbuffers,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("userbuffers_"),
        examples: &[(
            "userbuffers_fp16_sum_inplace_gpu_rw_ag",
            "void userbuffers_fp16_sum_inplace_gpu_rw_ag<(int)2>(int, int)",
        )],
    },
    // The point-to-point kernels of the same library put a `k` in front.
    Rule {
        family: Family::Userbuffers,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("kuserbuffers_"),
        examples: &[
            ("kuserbuffers_pushsend", "kuserbuffers_pushsend(int *, int *, int4 *, int4 *, int)"),
            ("kuserbuffers_pushrecv", "kuserbuffers_pushrecv(int, int, int, int *, int *, int)"),
        ],
    },
    // Barriers and signals: the GPU waits for others in them.
    Rule {
        family: Family::SymmetricMemory,
        role: Role::Communicates,
        pattern: Pattern::DemangledContains("c10d::symmetric_memory::"),
        examples: &[
            (
                "barrier_kernel",
                "c10d::symmetric_memory::barrier_kernel(unsigned int **, int, int, int, unsigned long)",
            ),
            (
                "put_signal_kernel",
                "c10d::symmetric_memory::put_signal_kernel(unsigned int **, int, int, int, int, unsigned long)",
            ),
            (
                "wait_signal_kernel",
                "c10d::symmetric_memory::wait_signal_kernel(unsigned int **, int, int, int, int, unsigned long)",
            ),
        ],
    },
    Rule {
        family: Family::SymmetricMemory,
        role: Role::Communicates,
        pattern: Pattern::DemangledContains("c10d::nvshmem_extension::"),
        examples: &[(
            "allToAllV",
            "c10d::nvshmem_extension::allToAllV(void *, void *, long *, unsigned long, int)",
        )],
    },
    // Its collectives from the host: NAME_on_stream_kernel, with type, operation and scope in newer and older names.
    Rule {
        family: Family::Nvshmem,
        role: Role::Communicates,
        pattern: Pattern::ShortContains("_on_stream_kernel"),
        examples: &[
            (
                "barrier_on_stream_kernel_threadgroup",
                "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)2>(int, int)",
            ),
            (
                "sync_on_stream_kernel_threadgroup",
                "void sync_on_stream_kernel_threadgroup<(threadgroup_t)1>(int)",
            ),
            ("barrier_all_on_stream_kernel", "barrier_all_on_stream_kernel()"),
            (
                "rdxn_on_stream_kernel",
                "void rdxn_on_stream_kernel<float, (rdxn_ops)4>(int, T1 *, const T1 *, unsigned long)",
            ),
            (
                "alltoall_on_stream_kernel",
                "void alltoall_on_stream_kernel<char>(int, T1 *, const T1 *, unsigned long)",
            ),
            (
                "fcollect_on_stream_kernel",
                "void fcollect_on_stream_kernel<float>(int, T1 *, const T1 *, unsigned long)",
            ),
            (
                "rdxn_float_sum_on_stream_kernel",
                "rdxn_float_sum_on_stream_kernel(float *, const float *, int, int, int)",
            ),
        ],
    },
    Rule {
        family: Family::TrtLlm,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("oneShotAllReduceKernel"),
        examples: &[
            (
                "oneShotAllReduceKernel",
                "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, (int)2, (bool)1>(tensorrt_llm::kernels::AllReduceParams)",
            ),
            (
                "oneShotAllReduceKernel",
                "void flashinfer::trtllm_allreduce::oneShotAllReduceKernel<__half, (int)8, (bool)0>(int)",
            ),
        ],
    },
    Rule {
        family: Family::TrtLlm,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("twoShotAllReduceKernel"),
        examples: &[(
            "twoShotAllReduceKernel",
            "void tensorrt_llm::kernels::twoShotAllReduceKernel<float, (int)4, (bool)1>(tensorrt_llm::kernels::AllReduceParams)",
        )],
    },
    Rule {
        family: Family::TrtLlm,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("multiGpuBarrierKernel"),
        examples: &[(
            "multiGpuBarrierKernel",
            "tensorrt_llm::kernels::multiGpuBarrierKernel(tensorrt_llm::kernels::AllReduceParams)",
        )],
    },
    Rule {
        family: Family::TrtLlm,
        role: Role::Communicates,
        pattern: Pattern::InNamespace("mnnvl", "twoshot"),
        examples: &[
            (
                "twoshot_allreduce_kernel",
                "void tensorrt_llm::kernels::mnnvl::twoshot_allreduce_kernel<(int)8, __nv_bfloat16>(T2 *, T2 *)",
            ),
            (
                "twoshotAllreduceKernel",
                "void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<(unsigned char)8, __nv_bfloat16>(T2 *)",
            ),
        ],
    },
    Rule {
        family: Family::TrtLlm,
        role: Role::Communicates,
        pattern: Pattern::InNamespace("mnnvl", "oneshot_allreduce_kernel"),
        examples: &[(
            "oneshot_allreduce_kernel",
            "void tensorrt_llm::kernels::mnnvl::oneshot_allreduce_kernel<(int)8, __nv_bfloat16>(T2 *, T2 *)",
        )],
    },
    // Expert-parallel all-to-all, with the small kernels that prepare it.
    Rule {
        family: Family::TrtLlm,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("moeA2A"),
        examples: &[
            (
                "moeA2ADispatchKernel",
                "void tensorrt_llm::kernels::mnnvl_throughput::moeA2ADispatchKernel<(int)8>(const int *)",
            ),
            (
                "moeA2ACombineKernel",
                "void flashinfer::trtllm_moe_alltoall::moeA2ACombineKernel<__nv_bfloat16, (int)8>(int)",
            ),
        ],
    },
    Rule {
        family: Family::TrtLlm,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("moeAllToAllKernel"),
        examples: &[(
            "moeAllToAllKernel",
            "void tensorrt_llm::kernels::fused_moe_impl::moeAllToAllKernel<(bool)1>(int)",
        )],
    },
    // Its permutation and prefix sums are compute; what waits for the other GPUs is not.
    Rule {
        family: Family::HybridEp,
        role: Role::Communicates,
        pattern: Pattern::InNamespace("hybrid_ep::", "dispatch_kernel"),
        examples: &[(
            "dispatch_kernel",
            "void hybrid_ep::dispatch_kernel<(int)4, (int)2, (int)8>(hybrid_ep::dispatch_kernel_param_t<unsigned char>)",
        )],
    },
    Rule {
        family: Family::HybridEp,
        role: Role::Communicates,
        pattern: Pattern::InNamespace("hybrid_ep::", "combine_kernel"),
        examples: &[(
            "combine_kernel",
            "void hybrid_ep::combine_kernel<(int)4, (int)8>(hybrid_ep::combine_kernel_param_t)",
        )],
    },
    Rule {
        family: Family::HybridEp,
        role: Role::Communicates,
        pattern: Pattern::InNamespace("hybrid_ep::", "device_sync_kernel"),
        examples: &[(
            "device_sync_kernel",
            "void hybrid_ep::device_sync_kernel<(int)64>(unsigned int *, unsigned int *)",
        )],
    },
    Rule {
        family: Family::HybridEp,
        role: Role::Communicates,
        pattern: Pattern::DemangledContains("nccl_ep::"),
        examples: &[(
            "dispatch",
            "void nccl_ep::internode_ll::dispatch<(bool)1, (int)7168>(void *, float *)",
        )],
    },
    Rule {
        family: Family::Xla,
        role: Role::Communicates,
        pattern: Pattern::InNamespace("stream_executor::gpu::", "AllReduceKernelImpl"),
        examples: &[(
            "AllReduceKernelImpl",
            "void stream_executor::gpu::AllReduceKernelImpl<float, (xla::ReductionKind)0, (xla::se::gpu::AllReduceStrategy)0>(T1 **)",
        )],
    },
    Rule {
        family: Family::Xla,
        role: Role::Communicates,
        pattern: Pattern::InNamespace("stream_executor::gpu::", "RaggedAllToAllKernelImpl"),
        examples: &[(
            "RaggedAllToAllKernelImpl",
            "void stream_executor::gpu::RaggedAllToAllKernelImpl<(long)8>(const void *, void **)",
        )],
    },
    Rule {
        family: Family::Xla,
        role: Role::Communicates,
        pattern: Pattern::ShortPrefix("MultiGpuBarrierKernelImpl"),
        examples: &[(
            "MultiGpuBarrierKernelImpl",
            "void stream_executor::gpu::MultiGpuBarrierKernelImpl<(stream_executor::gpu::PlatformType)0>(long, long)",
        )],
    },
];

/// The table, with the user's own pattern after it.
#[derive(Debug, Clone, Default)]
pub struct Classifier {
    user: Option<Regex>,
}

impl Classifier {
    /// The built-in rules and, where given, `comm_regex`: a kernel whose short or demangled name it matches is communication too.
    ///
    /// # Errors
    /// If `comm_regex` is not a regular expression.
    pub fn new(comm_regex: Option<&str>) -> Result<Self> {
        let user = comm_regex.map(Regex::new).transpose().map_err(|e| {
            Error::usage(format!(
                "--comm-regex is not a regular expression: {}",
                crate::text::regex_fault(&e)
            ))
            .with_hint("e.g. --comm-regex '^allreduce_fusion'")
        })?;
        Ok(Self { user })
    }

    /// The family of a communication kernel; `None` for compute.
    pub fn kernel(&self, short_name: &str, demangled: &str) -> Option<Family> {
        let user = || {
            self.user
                .as_ref()
                .filter(|re| re.is_match(short_name) || re.is_match(demangled))
                .map(|_| Family::User)
        };
        rule(short_name, demangled)
            .filter(|rule| rule.role == Role::Communicates)
            .map(|rule| rule.family)
            .or_else(user)
    }
}

/// The first rule that matches.
fn rule(short_name: &str, demangled: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.pattern.matches(short_name, demangled))
}

/// True for a kernel that communicates and computes in one. The rules for them need the short name only.
pub(crate) fn is_fused(short_name: &str) -> bool {
    rule(short_name, "").is_some_and(|rule| rule.role == Role::Fused)
}

/// The short name in a demangled one: without return type, namespaces, template arguments and parameters.
pub(crate) fn short_name(demangled: &str) -> &str {
    let (mut start, mut depth) = (0, 0u32);
    for (at, c) in demangled.char_indices() {
        match c {
            // `(anonymous namespace)::` is a namespace, not the parameters.
            '(' if depth == 0 && !demangled[at..].starts_with("(anonymous") => {
                return end_of_name(&demangled[start..at]);
            }
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            ' ' | ':' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    end_of_name(&demangled[start..])
}

fn end_of_name(name: &str) -> &str {
    name.split('<').next().unwrap_or(name)
}

/// What stands between `nccl` and the operation in a kernel's name, by naming generation (up to 2.7: nothing).
const NCCL_GENERATIONS: [&str; 4] = ["SymkDevKernel_", "SymDevKernel_", "DevKernel_", "Kernel_"];

/// The operation that an NCCL kernel is named after; `None` if the name holds none (`ncclDevKernel_Generic`, other libraries).
///
/// Only this much of a name can be trusted: NCCL specialises few variants, so algorithm, protocol and reduction in it
/// are not those that ran, and a kernel that carries a group of operations is named after one of them.
pub(crate) fn op(short_name: &str) -> Option<CommOp> {
    let name = short_name.strip_prefix("nccl")?;
    let name = NCCL_GENERATIONS
        .iter()
        .find_map(|generation| name.strip_prefix(generation))
        .unwrap_or(name);
    // Longer names first: `ReduceScatter` starts with `Reduce`.
    const OPS: [&str; 10] = [
        "ReduceScatter",
        "AllReduce",
        "AllGather",
        "AlltoAll",
        "AllToAll",
        "Broadcast",
        "SendRecv",
        "Reduce",
        "Gather",
        "Scatter",
    ];
    let op = OPS.iter().find(|op| {
        name.strip_prefix(**op)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_lowercase()))
    })?;
    CommOp::parse(op)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_found_by_its_own_rule() {
        let classifier = Classifier::default();
        for (i, rule) in RULES.iter().enumerate() {
            assert!(!rule.examples.is_empty(), "rule {i} has no example");
            for (short, demangled) in rule.examples {
                let family = (rule.role == Role::Communicates).then_some(rule.family);
                assert_eq!(classifier.kernel(short, demangled), family, "{short}");
                assert_eq!(is_fused(short), rule.role == Role::Fused, "{short}");
                // No earlier rule may take it: then this one would be dead.
                let first = RULES.iter().position(|r| r.pattern.matches(short, demangled));
                assert_eq!(first, Some(i), "{short}");
                assert_eq!(short_name(demangled), *short);
            }
        }
    }

    #[test]
    fn near_misses_stay_compute() {
        let near_misses = [
            (
                "reduce_kernel",
                "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float>>(T3)",
            ),
            (
                "splitKreduce_kernel",
                "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float>(float *)",
            ),
            (
                "nll_loss_forward_reduce_cuda_kernel_2d",
                "void at::native::<unnamed>::nll_loss_forward_reduce_cuda_kernel_2d<float>(T1 *)",
            ),
            (
                "DeviceReduceKernel",
                "void cub::CUB_200200_900_NS::DeviceReduceKernel<cub::DeviceReducePolicy>(float *)",
            ),
            (
                "DeviceScanKernel",
                "void cub::DispatchScan<cub::DeviceScanPolicy>::DeviceScanKernel(float *)",
            ),
            ("dispatch", "void my_moe::dispatch<(int)8>(int4 *)"),
            ("combine", "combine(float *, float *)"),
            (
                "vectorized_gather_kernel",
                "void at::native::vectorized_gather_kernel<(int)16, long>(char *)",
            ),
            (
                "indexSelectLargeIndex",
                "void at::native::<unnamed>::indexSelectLargeIndex<float, long>(T1)",
            ),
            // Beside expert-parallel communication, but on one GPU alone.
            ("permute_kernel", "void hybrid_ep::permute_kernel<__nv_bfloat16>(int)"),
            ("dispatch_kernel", "void at::native::dispatch_kernel<float>(int)"),
            ("AllReduceKernelImpl", "void pto::AllReduceKernelImpl<float>(int)"),
            // Upper case, or the word in another place: not NCCL's.
            ("NcclLikeKernel", "NcclLikeKernel()"),
            ("my_ncclKernel_AllReduce", "my_ncclKernel_AllReduce()"),
            ("multimember_sort", "multimember_sort(int *)"),
            ("", ""),
        ];
        let classifier = Classifier::default();
        for (short, demangled) in near_misses {
            assert_eq!(classifier.kernel(short, demangled), None, "{short}");
        }
    }

    #[test]
    fn a_short_name_is_what_stands_before_arguments_and_after_namespaces() {
        let cases = [
            ("ncclDevKernel_SendRecv(ncclDevKernelArgs)", "ncclDevKernel_SendRecv"),
            ("void (anonymous namespace)::f<ns::A<(int)3>>(T1 (*)(int))", "f"),
            ("void a::b<c::d, (bool)1>::g<e>(int)", "g"),
            ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
            ("void <unnamed>::h", "h"),
            ("", ""),
        ];
        for (demangled, short) in cases {
            assert_eq!(short_name(demangled), short, "{demangled}");
        }
    }

    #[test]
    fn the_users_pattern_adds_and_never_takes_away() {
        let classifier =
            Classifier::new(Some("allreduce_fusion|^nccl|my_moe::")).expect("a valid pattern");
        assert_eq!(
            classifier.kernel("allreduce_fusion_kernel", "allreduce_fusion_kernel()"),
            Some(Family::User)
        );
        assert_eq!(
            classifier.kernel("dispatch", "void my_moe::dispatch<(int)8>(int4 *)"),
            Some(Family::User)
        );
        assert_eq!(classifier.kernel("ncclDevKernel_SendRecv", ""), Some(Family::Nccl));
        assert_eq!(
            classifier.kernel("reduce_kernel", "void at::native::reduce_kernel<float>()"),
            None
        );
    }

    #[test]
    fn a_bad_pattern_is_wrong_usage() {
        let error = Classifier::new(Some("(")).expect_err("an open group");
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--comm-regex"), "{error}");
    }

    #[test]
    fn the_operation_is_read_from_every_naming_generation() {
        let cases = [
            // Up to 2.7.
            ("ncclAllReduceRingLLKernel_sum_f32", Some(CommOp::AllReduce)),
            ("ncclAllReduceTreeLLKernel_sum_f16", Some(CommOp::AllReduce)),
            ("ncclReduceScatterRingLLKernel_sum_i8", Some(CommOp::ReduceScatter)),
            ("ncclReduceRingLLKernel_sum_f32", Some(CommOp::Reduce)),
            ("ncclBroadcastRingLLKernel_copy_i8", Some(CommOp::Broadcast)),
            ("ncclAllGatherRingLLKernel_copy_i8", Some(CommOp::AllGather)),
            ("ncclSendRecvKernel_copy_i8", Some(CommOp::SendRecv)),
            // 2.8 to 2.18.
            ("ncclKernel_AllReduce_RING_LL_Sum_float", Some(CommOp::AllReduce)),
            ("ncclKernel_ReduceScatter_RING_LL_Sum_int8_t", Some(CommOp::ReduceScatter)),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", Some(CommOp::SendRecv)),
            // 2.19 and later.
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", Some(CommOp::AllReduce)),
            ("ncclDevKernel_Reduce_Sum_f32_RING_LL", Some(CommOp::Reduce)),
            ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", Some(CommOp::ReduceScatter)),
            ("ncclDevKernel_Broadcast_RING_LL", Some(CommOp::Broadcast)),
            ("ncclDevKernel_AllGather_RING_LL", Some(CommOp::AllGather)),
            ("ncclDevKernel_SendRecv", Some(CommOp::SendRecv)),
            // Symmetric, 2.27 and 2.28.
            ("ncclSymDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_f32", Some(CommOp::AllReduce)),
            ("ncclSymkDevKernel_ReduceScatter_LDMC_sum_bf16", Some(CommOp::ReduceScatter)),
            ("ncclSymkDevKernel_AllGather_STMC", Some(CommOp::AllGather)),
            // Names without an operation.
            ("ncclDevKernel_Generic", None),
            ("ncclKernel_Reducer", None),
            ("ncclDevKernel_", None),
            ("nccl", None),
            ("oneRankReduce", None),
            ("reduce_kernel", None),
            ("AllReduce", None),
        ];
        for (name, expected) in cases {
            assert_eq!(op(name), expected, "{name}");
        }
    }
}
