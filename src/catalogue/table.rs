//! The table itself.

use serde::{Deserialize, Serialize};

use super::{Class, Confidence, Entry, Removal, Rule, Said, Scenario, Unit, Weight};

macro_rules! catalogue {
    ($($id:ident $name:literal [$($said:ident($command:ident)),*] $weight:expr, $trigger:literal, {$($fact:literal $unit:ident),*},
       $remedy:literal $(, [$($class:ident)*] $confidence:ident, $helped:literal $(, $scenario:ident $with:expr)?)?;)*) => {
        /// What a finding or a warning is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[allow(missing_docs)]
        pub enum Id { $(#[serde(rename = $name)] $id,)* }

        impl Id {
            /// All entries in the order of the documentation.
            pub const ALL: &'static [Id] = &[$(Id::$id,)*];

            /// Name and meaning.
            pub fn entry(self) -> Entry {
                use super::{Command::*, Severity::*};
                use Weight::*;
                match self { $(Id::$id => Entry {
                    name: $name,
                    said: &[$(Said::$said($command)),*],
                    weight: $weight,
                    trigger: $trigger,
                    evidence: &[$(($fact, Unit::$unit)),*],
                    remedy: $remedy,
                    rule: entry!(@rule $([$($class)*] $confidence, $helped $(, $scenario $with)?)?),
                },)* }
            }
        }
    };
}

/// The last columns of a row, which only rules of findings have.
macro_rules! entry {
    (@rule) => { None };
    (@rule [$($class:ident)*] $confidence:ident, $helped:literal $(, $scenario:ident $with:expr)?) => {
        Some(Rule {
            needs: &[$(Class::$class),*],
            confidence: Confidence::$confidence,
            helped: $helped,
            removed: entry!(@removed $($scenario $with)?),
        })
    };
    (@removed) => { None };
    (@removed $scenario:ident $with:expr) => {
        Some(Removal { scenario: Scenario::$scenario, with: $with })
    };
}

const EVEN: &str = "With each rank's work as the median rank's";
const FASTER: &str = "Without communication, the bound of any faster link,";
const NO_COPIES: &str = "Without any copies";

// Name, who says it, how much it matters; when; facts with units; what to try; for rules of findings also which evidence they need, how
// sure they are, what the data looks like if the advice helped, and which scenario removes the cause and how that is said.
catalogue! {
    // What explains a step.
    Straggler "straggler" [Finding(Report)] ByCost,
        "At least 60 % of all waiting in matched collectives is for one rank, and it costs the others 1 % of the step or more.",
        { "rank" Rank, "last_count" Count, "ordered_count" Count, "others_wait_ns_per_step" NsPerStep, "cause" Text,
          "cause_excess_ns_per_step" NsPerStep, "cause_excess_in_late_steps_ns" Ns, "kernels" Text, "host" Text },
        "Look at what this rank does longer than the others: its host where it is idle, its work or its GPU where it computes, its copies.",
        [Trace OtherRanks] Derived, "The others' exposed wait for this rank falls, and the step by as much as the replay says; the rank arrives last as often as any other.",
        NobodyLate EVEN;
    ArrivalJitter "arrival-jitter" [Finding(Report)] ByCost,
        "Ranks wait 5 % of the step or more for each other, and no single rank is to blame.",
        { "exposed_wait_ns_per_step" NsPerStep, "most_often_last_rank" Rank, "last_count" Count, "ordered_count" Count },
        "Look for work that varies from step to step on every rank; in a pipeline use more micro-batches or stages of equal length.",
        [Trace OtherRanks] Measured, "Exposed wait falls on all ranks, and the step with it; transfer times stay as they are.",
        NobodyLate EVEN;
    ComputeImbalance "compute-imbalance" [Finding(Report)] ByCost,
        "No rank is known to be late, and the rank that computes longest exceeds the mean by 2 % of the step or more.",
        { "slowest_rank" Rank, "fastest_rank" Rank, "max_compute_ns" Ns, "min_compute_ns" Ns, "mean_compute_ns" Ns },
        "Give ranks equal work; equal work that takes longer on one rank means a slower GPU.",
        [Trace OtherRanks] Measured, "Compute of the slowest rank falls towards the mean, and the others' wait with it.",
        NobodyLate EVEN;
    ExposedCommunication "exposed-communication" [Finding(Report)] ByCost,
        "5 % of the step or more is communication beside which no compute kernel runs; it weighs what is left without waiting for others.",
        { "step_ns" Ns, "comm_ns" Ns, "exposed_comm_ns" Ns, "overlap_fraction" OfComm, "comm_count_per_step" CountPerStep, "exposed_wait_ns" Ns,
          "most_exposed_at" Text, "most_exposed_at_ns" Ns },
        "Start communication earlier (smaller buckets, prefetching), send fewer bytes, or look at the transport.",
        [Trace] Measured, "Overlap rises, or communication takes less time; exposed communication falls either way, and compute does not grow by as much.",
        NoCommunication "Without communication";
    TinyMessages "tiny-messages" [Finding(Report)] ByCost,
        "Half of the collectives of known size or more carry 64 KiB or less, and a step has 20 communication operations or more.",
        { "tiny_calls" Count, "sized_calls" Count, "tiny_limit_bytes" Bytes, "comm_count_per_step" CountPerStep,
          "calls_below_half_speed" Count, "calls_of_fitted_sizes" Count, "below_half_speed_ns_per_step" NsPerStep },
        "Send fewer, larger messages: larger buckets, grouped calls, flattened parameters.",
        [Trace Sizes] Measured, "Fewer communication operations in a step with as many bytes, and less communication time.";
    HtodCopies "htod-copies" [Finding(Report)] ByCost,
        "Host-to-device copies beside which nothing else runs take 0.5 % of the step or more.",
        { "htod_ns" Ns, "htod_exposed_ns" Ns, "htod_count" Count, "htod_bytes" Bytes },
        "Keep on the device what is copied again, and copy the next batch ahead on a stream of its own from pinned memory.",
        [Trace] Measured, "Count, bytes and exposed time of these copies fall, and the step with them.",
        CopiesFree NO_COPIES;
    DtohCopies "dtoh-copies" [Finding(Report)] ByCost,
        "Device-to-host copies beside which nothing else runs take 0.5 % of the step or more.",
        { "dtoh_ns" Ns, "dtoh_exposed_ns" Ns, "dtoh_count" Count, "dtoh_bytes" Bytes },
        "Read results less often, and copy them on a stream of their own into pinned memory.",
        [Trace] Measured, "Count, bytes and exposed time of these copies fall, and the step with them.",
        CopiesFree NO_COPIES;
    DtodCopies "dtod-copies" [Finding(Report)] ByCost,
        "Device-to-device copies beside which nothing else runs take 0.5 % of the step or more.",
        { "dtod_ns" Ns, "dtod_exposed_ns" Ns, "dtod_count" Count, "dtod_bytes" Bytes },
        "With DDP, gradient_as_bucket_view=True saves the copies between gradients and buckets.",
        [Trace] Measured, "Count, bytes and exposed time of device-to-device copies fall, and the step with them.",
        DtodCopiesFree "Without these copies";
    OtherCopies "other-copies" [Finding(Report)] ByCost,
        "Copies that are neither to, from nor on a device beside which nothing else runs take 0.5 % of the step or more.",
        { "other_copy_ns" Ns, "other_copy_exposed_ns" Ns, "other_copy_count" Count, "other_copy_bytes" Bytes },
        "Look at which calls make them; prefetching saves migrations of unified memory.",
        [Trace] Measured, "Count, bytes and exposed time of these copies fall, and the step with them.",
        CopiesFree NO_COPIES;
    Memsets "memsets" [Finding(Report)] ByCost,
        "Memsets beside which nothing else runs take 0.5 % of the step or more.",
        { "memset_ns" Ns, "memset_exposed_ns" Ns, "memset_count" Count, "memset_bytes" Bytes },
        "Look for buffers that are zeroed and then written in full.",
        [Trace] Measured, "Count, bytes and exposed time of memsets fall, and the step with them.",
        CopiesFree NO_COPIES;
    Idle "idle" [Finding(Report)] ByCost,
        "GPUs are idle for 10 % of the step or more; where one rank is late because it idles, the others are.",
        { "idle_ns" Ns, "host_late_ns" Ns, "step_ns" Ns, "host_of_most_idle_rank" Text },
        "Look at data loading, synchronisation and small kernels; in a pipeline at the number of micro-batches.",
        [Trace] Measured, "Idle time falls, and the step by as much; compute and communication stay.",
        HostNeverLate "With hosts that are never late";
    EndSpread "end-spread" [Finding(Report)] Fixed(Medium),
        "Ranks leave a collective that lets all go together 200 µs and 10 % of its transfer or more apart, even on aligned clocks.",
        { "op" Text, "comm_id" Text, "leave_spread_p95_ns" Ns, "transfer_ns" Ns, "clock_residual_p50_ns" Ns },
        "Look at the clocks of the hosts, and at single steps before trusting the order of arrival.",
        [Trace OtherRanks] Guess, "Ranks leave the same collective together, to the precision of the clocks.";
    SharedGpu "shared-gpu" [Finding(Report)] Fixed(High),
        "Several ranks run on one GPU.",
        { "gpus" Text, "ranks" Ranks },
        "Give each rank a GPU of its own.",
        [Trace OtherRanks] Measured, "Each rank names a GPU of its own, and kernels of the same work take less time.";

    // How ranks reach each other.
    TransportBelowTopology "transport-below-topology" [Finding(Report)] ByCase("high if the GPUs are linked by NVLink, or nothing is known of the path; else medium, or what exposed communication weighs if that is more"),
        "Ranks of one host exchange data through host memory or a network although their GPUs reach each other directly.",
        { "transport" Text, "pairs" Text, "not_listed" Count, "channels" Count, "nccl_logs" Text, "topology" Text, "topology_file" Text,
          "nvlink_in_nccl_topology_gbs" Gbs, "peer_access" Text, "nodes_that_nccl_sees" Count, "NCCL_*" Text },
        "Unset the setting that keeps NCCL from peer-to-peer transport, or look at peer access (nvidia-smi topo -p2p r).",
        [NcclLog Topology] Measured, "The NCCL log names P2P for these pairs, and the bus bandwidth of large collectives rises towards the link's peak.",
        NoCommunication FASTER;
    SocketTransport "socket-transport" [Finding(Report)] ByCase("medium, or what exposed communication weighs if that is more"),
        "Hosts exchange data through TCP sockets, and NCCL found no card for RDMA.",
        { "transport" Text, "pairs" Text, "not_listed" Count, "channels" Count, "nccl_logs" Text, "network" Text, "NCCL_*" Text },
        "If the machines have such cards, make them visible to the processes.",
        [NcclLog] Measured, "The NCCL log names NET/IB, and transfers between hosts take less time.",
        NoCommunication FASTER;
    SocketsDespiteRdma "sockets-despite-rdma" [Finding(Report)] Fixed(High),
        "Hosts exchange data through TCP sockets although they have cards for RDMA.",
        { "transport" Text, "pairs" Text, "not_listed" Count, "channels" Count, "nccl_logs" Text, "cards" Text, "NCCL_*" Text },
        "Remove the setting that rules the cards out, or look at why NET/IB is not chosen.",
        [NcclLog] Measured, "The NCCL log names NET/IB for these cards, and transfers between hosts take less time.",
        NoCommunication FASTER;
    MissingGdrdma "missing-gdrdma" [Finding(Report)] ByCase("info if all cards are across a host bridge, else medium; or what exposed communication weighs if that is more"),
        "Data to and from a network other than sockets goes through host memory: no GPU Direct RDMA.",
        { "transport" Text, "pairs" Text, "not_listed" Count, "channels" Count, "nccl_logs" Text, "cards_without_gdrdma" Text,
          "cards_with_gdrdma" Count, "topology" Text, "NCCL_*" Text },
        "Load nvidia-peermem or use DMA-BUF on every host, and check that PCIe ACS is off.",
        [NcclLog] Measured, "The NCCL log names GDRDMA on these cards, and transfers between hosts take less time.",
        NoCommunication FASTER;
    DistantNetworkCard "distant-network-card" [Finding(Report)] Fixed(Medium),
        "A GPU uses a network card across a host bridge although another card is nearer.",
        { "used" Text, "not_listed" Count },
        "Check NCCL_IB_HCA and NCCL_CROSS_NIC, and that the process sees the near cards.",
        [NcclLog Topology] Measured, "The NCCL log names the nearest card of each GPU.";
    DegradedNvlink "degraded-nvlink" [Finding(Report)] Fixed(High),
        "All GPUs of a machine are linked by NVLink, some pairs by fewer links than others, and by more than two where they are whole.",
        { "topology" Text, "pairs" Text, "not_listed" Count, "full_links" Count },
        "Look at nvidia-smi nvlink -s and nvidia-smi nvlink -e on that GPU.",
        [Topology] Measured, "The topology shows as many links for each pair, and the bus bandwidth of large collectives rises.",
        NoCommunication FASTER;
    ChannelCountDiffers "channel-count-differs" [Finding(Report)] Fixed(Medium),
        "Ranks of one communicator have different numbers of channels.",
        { "comm_id" Text, "ranks_with_*_channels" Ranks },
        "Give all ranks the same NCCL settings and the same NCCL version.",
        [NcclLog] Measured, "The NCCL log names as many channels on each rank of the communicator.";

    // What a comparison shows.
    ExpectationFailed "expectation-failed" [Finding(Compare)] Fixed(Medium),
        "An option does not show in counts, bytes or times what it should do.",
        { "variant" Text, "expected" Text, "observed" Text, "without_it" Text, "compared_with" Text, "option_source" Text },
        "Check that the option reached the program.",
        [Trace] Derived, "The check of the option passes: counts, bytes or times move as it says.";
    OptionWithoutEffect "option-without-effect" [Finding(Compare)] Fixed(High),
        "PowerSGD is on, and communication is as it is without it.",
        { "variant" Text, "expected" Text, "observed" Text, "without_it" Text, "compared_with" Text, "option_source" Text },
        "Set start_powerSGD_iter lower, or capture later steps.",
        [Trace] Derived, "Communication moves far fewer bytes, in less time.";
    HookBringsCopiesBack "hook-brings-copies-back" [Finding(Compare)] Fixed(Medium),
        "With a communication hook there are as many device-to-device copies as without gradient_as_bucket_view.",
        { "variants" Text, "dtod_copies_count" Count, "dtod_copies_bytes" Bytes, "compared_with" Text },
        "Weigh the copies against the bytes that the hook saves.",
        [Trace] Derived, "Device-to-device copies fall to what they are without the hook.";

    // What Inspector logs show.
    SlowRank "slow-rank" [Finding(Inspect)] ByCase("high if waiting is more than 5 % of the time in operations, else info"),
        "A process arrives last far more often than its share, and than chance would have it.",
        { "hostname" Text, "pid" Number, "rank" Rank, "last_count" Count, "last_expected" Count, "ordered_count" Count,
          "wait_us_of_all_ranks" Us, "time_us_of_all_ranks" Us },
        "Look at what this rank does before its collectives: input, CPU load, clocks of its GPU, more work than the others.",
        [Inspector] Measured, "The process arrives last as often as any other, and the others' waiting falls.";
    SlowCommunicator "slow-communicator" [Finding(Inspect)] Fixed(Medium),
        "A communicator runs an operation of one size at less than 80 % of the bandwidth that others of its kind have.",
        { "comm_id" Text, "class" Text, "n_ranks" Count, "op" Text, "bytes" Bytes, "compared" Count, "transfer_busbw_gbs" Gbs,
          "others_busbw_gbs" Gbs, "hosts" Text },
        "Compare the links and hosts of this communicator with those of the others.",
        [Inspector] Measured, "The communicator runs the operation as fast as others of its kind.";
    SlowStretch "slow-stretch" [Finding(Inspect)] Fixed(Medium),
        "In a stretch of the run operations ran at less than 80 % of their usual speed.",
        { "start_us" UnixUs, "end_us" UnixUs, "operations" Count, "time_us" Us, "relative_speed" Share },
        "Look for other traffic on the network or other work on the hosts at that time.",
        [Inspector] Measured, "Operations of the same size take as long throughout the run.";

    // What NPKit's dumps show of the inside of collectives.
    NpkitWaiting "npkit-waiting" [Finding(Npkit), Finding(Report)] ByCase("medium if it is 20 % of the rank's time in collectives or more, else info"),
        "A rank spends half of its time in a collective or more, and 20 µs or more, waiting for data; that is 5 % of its time in all of them or more.",
        { "rank" Rank, "waits_for_rank" Rank, "primitive" Text, "collectives_count" Count, "wait_fraction" Share, "wait_ns" Ns, "later_ns" Ns },
        "Look at what the rank that arrives later does before the collective; where none does, compare primitives, channels and proxies of the ranks.",
        [Npkit] Derived, "The share of waiting in the primitives of this rank falls, and the collective's duration by as much.";
    CommunicationSlowsCompute "communication-slows-compute" [Finding(Report)] Fixed(Medium),
        "SMs or tensor cores are active less than 90 % as much in compute beside communication as in compute alone, and such overlap takes 2 % of the steps or more.",
        { "sm_active_overlap_percent" Percent, "sm_active_compute_percent" Percent, "tensor_active_overlap_percent" Percent,
          "tensor_active_compute_percent" Percent, "ranks_count" Count },
        "Try fewer channels (NCCL_MAX_CTAS) or copy engines for the communication.",
        [Counters] Guess, "The counters beside communication come near those alone, and compute kernels there take as long as elsewhere.";
    LinkLoad "link-load" [Finding(Report)] Fixed(Info),
        "NVLink or PCIe carries 1 % of its peak or more while data moves; the busier link is named.",
        { "link" Text, "sent_gbs" Gbs, "received_gbs" Gbs, "peak_fraction" Share, "peak_gbs" Gbs },
        "Near the peak only fewer bytes help; else larger messages, more channels or another algorithm.",
        [Counters] Measured, "Transfers take less time at a higher share of the peak, or move fewer bytes.";
    GpuThrottled "gpu-throttled" [Finding(Report)] ByCase("medium where the clock is below 85 % of the highest"),
        "A GPU computes at less than 95 % of its highest clock, or its driver counts reasons for holding the clock down.",
        { "rank" Rank, "clock_mhz" Mhz, "highest_mhz" Mhz, "clock_fraction" Share, "reasons" Text },
        "See nvidia-smi -q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE while it runs.",
        [Counters] Measured, "The clock in compute comes near the highest, and compute gets shorter by as much.";
    LinkErrors "link-errors" [Finding(Report)] ByCase("medium where errors were counted while it was sampled"),
        "Links count errors or repetitions, or the driver reports an XID.",
        { "nvlink_errors_count" Count, "nvlink_errors_new_count" Count, "pcie_replays_count" Count, "pcie_replays_new_count" Count, "xid" Number },
        "Look with nvidia-smi nvlink -e and in the kernel's log.",
        [Counters] Measured, "The counters stay where they are.";
    NpkitSlowChannel "npkit-slow-channel" [Finding(Npkit), Finding(Report)] Fixed(Medium),
        "A channel takes 20 % longer or more than the median channel, on every rank, in the median of three collectives or more.",
        { "channel" Number, "longer_fraction" Share, "collectives_count" Count },
        "See in the NCCL log which ring and which links the channel uses, and compare them with the topology.",
        [Npkit] Measured, "All channels of a collective take as long, and the collective ends sooner.";
    NpkitProxyLatency "npkit-proxy-latency" [Finding(Npkit), Finding(Report)] Fixed(Medium),
        "Requests of a proxy are in flight 80 % of a collective or more while the GPU mostly waits, in half of the collectives over the network or more.",
        { "event" Text, "in_flight_fraction" Share, "p50_ns" Ns, "p95_ns" Ns },
        "Look at the transport: sockets where RDMA is possible, GPUDirect RDMA that is off, proxy threads that share a core.",
        [Npkit] Derived, "Requests take less time, and the GPU waits for a smaller share of the collective.";

    // Reports that do not belong together, or not all of them.
    CapturedApart "captured-apart" [Finding(Report), Finding(Doctor), Warning(Report)] Fixed(High),
        "Ranks were captured at different times: these are reports of different runs, and no number across ranks means anything.",
        {},
        "Give the reports of one run; compare takes several runs.";
    RanksMissing "ranks-missing" [Finding(Doctor), Warning(Report)] Fixed(Medium),
        "The run has more ranks than there are reports.",
        {},
        "Add their reports: the slowest rank may be one of them.";
    RankByOrder "rank-by-order" [Warning(Report)] Unweighed,
        "Nothing in the capture says which rank a process is: they are numbered in order of file, process and device.",
        {},
        "Capture one report for each rank with -o NAME_%q{RANK}, or use --rank-regex.";
    RankUnknown "rank-unknown" [Finding(Doctor)] Fixed(Medium),
        "Nothing in the capture of several ranks says which rank a process is.",
        {},
        "Capture one report for each rank with --output=NAME_%q{RANK}, or name the ranks with --rank-regex.";
    ProcessWithoutSteps "process-without-steps" [Finding(Doctor), Warning(Report)] Fixed(Medium),
        "A process ran GPU work but no step range, although others have: it is left out.",
        {},
        "If it is a rank, put the NVTX range of the step into every process.";
    InputUnusable "input-unusable" [Warning(Report)] Unweighed,
        "An input could not be read and is left out.",
        {},
        "See what the error says.";
    UnusableInput "unusable-input" [Warning(Compare)] Unweighed,
        "An input of a variant could not be read and is left out.",
        {},
        "See what the error says.";
    RanksAsCaptures "ranks-as-captures" [Warning(Compare)] Unweighed,
        "The captures of a variant hold different ranks, as reports of one run do.",
        {},
        "Name all reports of a run at once.";
    ReportFails "report-fails" [Finding(Doctor)] Fixed(High),
        "A report of these files stops with an error.",
        {},
        "Give the reports of one run only.";
    NoExport "no-export" [Finding(Doctor)] Fixed(High),
        "None of the files is an export of nsys with GPU work.",
        {},
        "Capture one and export it as SQLite.";
    NoGpuWork "no-gpu-work" [Finding(Doctor)] Fixed(High),
        "An export holds no GPU work.",
        {},
        "Capture with CUDA traced, while the GPU works.";

    // Which steps there are.
    StepsNotFound "steps-not-found" [Finding(Doctor)] Fixed(High),
        "No range can be told to be a step, and a report without --step stops.",
        {},
        "Name the range that is a step, or put one around each step.";
    NoStepRanges "no-step-ranges" [Finding(Doctor)] Fixed(High),
        "The only NVTX ranges are NCCL's own, so the whole capture is one step.",
        {},
        "Put an NVTX range around each step, or name a kernel that begins each step.";
    NoNvtx "no-nvtx" [Finding(Doctor)] Fixed(High),
        "There is no NVTX range, so the whole capture is one step.",
        {},
        "Trace NVTX and put a range around each step, or name a kernel that begins each step.";
    StepsByGuess "steps-by-guess" [Finding(Doctor)] Fixed(Info),
        "No range is called step, batch or iteration: steps are taken from a range that is repeated.",
        {},
        "Check it, or name another one with --step.";
    StepsArePeriods "steps-are-periods" [Warning(Report)] Unweighed,
        "Step ranges cover only a part of the GPU work and recur with the rest between them: a step is the period from one to the next.",
        {},
        "--window gpu takes what the ranges themselves launch, --step other ranges.";
    StepsUncovered "steps-uncovered" [Warning(Report)] Unweighed,
        "No NVTX range covers half of the GPU work as a step, so the whole capture is one window.",
        {},
        "Name the range that is one step, or start a step with a kernel.";
    StepsOfAnotherProcess "steps-of-another-process" [Warning(Report)] Unweighed,
        "Step ranges are those of a process that runs no GPU work.",
        {},
        "Annotate the steps in the processes that launch the GPU work, or use --step-kernel.";
    StepsOnSeveralThreads "steps-on-several-threads" [Warning(Report)] Unweighed,
        "Several threads have step ranges: the one whose ranges launch most of the GPU work counts.",
        {},
        "Annotate steps on one thread of each process.";
    StepsDiffer "steps-differ" [Finding(Doctor)] ByCase("high if no step is on every rank, else medium"),
        "Some steps are not on every rank.",
        {},
        "Capture the same steps on every rank.";
    StepsPairedByTime "steps-paired-by-time" [Warning(Report)] Unweighed,
        "Steps of ranks are not paired by their texts but by when they run.",
        {},
        "Write the number of the step, and nothing that differs between ranks, into its range.";
    StepsShifted "steps-shifted" [Warning(Report)] Unweighed,
        "Collectives that run at the same time lie in steps of different number.",
        {},
        "Name steps by number, or capture the same steps on every rank.";
    StepAbsent "step-absent" [Warning(Report)] Unweighed,
        "A rank has no window for a step, which is left out of the figures of the run.",
        {},
        "Capture the same steps on every rank.";
    StepWithoutWindow "step-without-window" [Warning(Report)] Unweighed,
        "A step range has no window, for the reason given.",
        {},
        "See the reason; --window cpu needs no GPU work.";
    FirstStepLeftOut "first-step-left-out" [Warning(Report)] Unweighed,
        "The first captured step is an outlier and is left out of summaries.",
        {},
        "--keep-first keeps it.";
    FewSteps "few-steps" [Finding(Doctor)] Fixed(Info),
        "Too few steps of a rank were captured for firm medians and intervals.",
        {},
        "Capture more steps.";

    // What an export holds.
    CountersSteps "counters-steps" [Warning(Report)] Unweighed,
        "Averages of counters cover fewer steps than the report.",
        {},
        "Nothing: the steps that are covered are named.";
    CountersUntimed "counters-untimed" [Warning(Report)] Unweighed,
        "Samples of a file with counters have no times.",
        {},
        "Sample with times, or with nsys profile --gpu-metrics-devices=all.";
    CountersCoarse "counters-coarse" [Warning(Report)] Unweighed,
        "A sample of counters is longer than most parts of a step.",
        {},
        "Sample more often, or with nsys profile --gpu-metrics-devices=all.";
    CountersMissing "counters-missing" [Warning(Report)] Unweighed,
        "Counters that were given belong to no rank of the report.",
        {},
        "Give the counters of the machine and the time of the run.";
    CountersUnplaced "counters-unplaced" [Warning(Report)] Unweighed,
        "It is not known which rank a GPU with counters is of.",
        {},
        "Name GPUs by UUID, or give the reports of one machine.";
    CountersCut "counters-cut" [Warning(Report)] Unweighed,
        "More samples of GPU metrics than are read.",
        {},
        "Sample less often.";
    CountersInstances "counters-instances" [Warning(Report)] Unweighed,
        "A file with counters has lines of parts of a GPU, of links or of switches: they are left out.",
        {},
        "Nothing: counters of whole GPUs are read.";
    CountersLines "counters-lines" [Warning(Report)] Unweighed,
        "A file with counters has lines that are not as its header or format says: they are left out.",
        {},
        "Look whether the file was cut or edited.";
    FoundUnusable "found-unusable" [Warning(Report)] Unweighed,
        "A file that was found in a folder beside the reports is left out.",
        {},
        "Name it with its option to see the error.";
    SchemaUnknown "schema-unknown" [Finding(Doctor), Warning(Report)] Fixed(Medium),
        "An export lacks columns that every known version of its tables has.",
        {},
        "Look for a newer version of this program if the export is of a newer Nsight Systems.";
    GraphLevelTrace "graph-level-trace" [Finding(Doctor), Warning(Report)] Fixed(High),
        "CUDA graphs were captured as one row each: what runs inside them is unknown.",
        {},
        "Capture with --cuda-graph-trace=node.";
    GraphRowsReplaced "graph-rows-replaced" [Warning(Report)] Unweighed,
        "Rows of graphs are left out because their kernels are there one by one.",
        {},
        "Nothing: no work counts twice.";
    PartialExport "partial-export" [Finding(Doctor)] Fixed(High),
        "Only some tables or times were exported.",
        {},
        "Export everything.";
    NoApiCalls "no-api-calls" [Finding(Doctor)] Fixed(High),
        "There are no CUDA API calls, so nothing says which step launched what.",
        {},
        "Capture with CUDA traced; --step whole and --window cpu do without.";
    NoLaunch "no-launch" [Warning(Report)] Unweighed,
        "GPU operations have no API call in the capture: they belong to no step, but count in the windows they run in.",
        {},
        "Let the captured range begin before the work is launched.";
    NoEpoch "no-epoch" [Finding(Doctor)] Fixed(Medium),
        "The export does not say when it was captured.",
        {},
        "Export again, with all tables.";
    NsysVersionsDiffer "nsys-versions-differ" [Finding(Doctor)] Fixed(Info),
        "The exports of a run are by different versions of nsys.",
        {},
        "Use one version on all ranks.";
    ProfilerError "profiler-error" [Finding(Doctor), Warning(Report)] Fixed(Medium),
        "The profiler noted an error: events may be lost.",
        {},
        "Capture fewer steps; let the program end by itself; see what the error says.";
    ProfilerWarning "profiler-warning" [Finding(Doctor)] Fixed(Info),
        "The profiler noted something unusual.",
        {},
        "See what it says.";
    BeforeCapture "before-capture" [Warning(Report)] Unweighed,
        "Work or ranges begin before the capture and are left out.",
        {},
        "Nothing, if they are few.";
    NegativeDuration "negative-duration" [Warning(Report)] Unweighed,
        "Rows end before they start and count as zero length.",
        {},
        "Export again; if they stay, capture again.";
    NoTime "no-time" [Warning(Report)] Unweighed,
        "Rows have no start or no end that can be a time, and are left out.",
        {},
        "Export again; if they stay, capture again.";
    ZeroTime "zero-time" [Warning(Report)] Unweighed,
        "Rows start and end at zero, since the profiler lost the times, and are left out.",
        {},
        "Capture fewer steps.";
    Overrun "overrun" [Warning(Report)] Unweighed,
        "Rows run far over the next operation of their stream, which cannot be, and are cut where it starts.",
        {},
        "Capture again if many are.";
    UnnamedKernels "unnamed-kernels" [Warning(Report)] Unweighed,
        "Kernels have no name, so nobody can tell whether they communicate: they are of unknown class.",
        {},
        "Export again, with all tables.";
    Identity "identity" [Warning(Report)] Unweighed,
        "The parts of a step do not add up to it.",
        {},
        "This is a fault of nsysnccl: report it with the capture.";

    // Which work is communication.
    NoCommunication "no-communication" [Finding(Doctor)] Fixed(Medium),
        "No communication kernel is recognised, although there are several ranks.",
        {},
        "Name kernels that communicate with --comm-regex, or capture whole steps.";
    NoCommunicationRecognised "no-communication-recognised" [Warning(Report)] Unweighed,
        "No communication is recognised, although the run has several ranks; the kernels that are likeliest to be it are named.",
        {},
        "If one of them communicates, name it with --comm-regex.";
    RankWithoutCommunication "rank-without-communication" [Finding(Doctor)] Fixed(Medium),
        "A rank ran no communication kernel, although others did.",
        {},
        "Capture the same steps on every rank.";
    FusedKernels "fused-kernels" [Warning(Report)] Unweighed,
        "Kernels that communicate and compute in one count as compute.",
        {},
        "To count their whole time as communication, name them with --comm-regex.";
    CommRegexUnused "comm-regex-unused" [Warning(Report)] Unweighed,
        "--comm-regex matches no kernel that is not known to be communication anyway.",
        {},
        "Give a part of a kernel's name as the table of kernels lists them.";

    // Matching collectives and clocks of ranks.
    NoPayloads "no-payloads" [Finding(Doctor), Warning(Report)] Fixed(Medium),
        "The exports carry no NCCL payloads: sizes and bandwidths are not known.",
        {},
        "Export with --include-blobs true --include-json true, or give Inspector logs.";
    CollectivesUnmatched "collectives-unmatched" [Warning(Report)] Unweighed,
        "Communication operations have no partner on other ranks, for the reason given.",
        {},
        "Give the reports of all ranks, with payloads.";
    CommunicatorSizeAssumed "communicator-size-assumed" [Warning(Report)] Unweighed,
        "Nothing says how many ranks the run has: it is taken to have those that are here, which busbw depends on.",
        {},
        "Capture with WORLD_SIZE in the environment, or include the making of communicators.";
    NoStartTime "no-start-time" [Warning(Report)] Unweighed,
        "Reports have no start time: clocks there rest on matched collectives alone.",
        {},
        "Export again, with all tables.";
    ClocksApart "clocks-apart" [Warning(Report)] Unweighed,
        "By the ends of matched collectives the clocks of ranks are more than 1 ms apart; times are corrected by that.",
        {},
        "Synchronise the hosts' clocks (NTP or PTP).";
    ClockUnknown "clock-unknown" [Warning(Report)] Unweighed,
        "No collective that ranks leave together links a rank to the others, so its clock is not compared.",
        {},
        "Capture steps in which all ranks share a collective.";
    GraphOrderByTime "graph-order-by-time" [Warning(Report)] Unweighed,
        "The order of operations inside CUDA graphs is not in the capture: the replay takes it from their streams and times.",
        {},
        "Nothing: what the replay predicts is a bound then.";
    RanksLeaveApart "ranks-leave-apart" [Warning(Report)] Unweighed,
        "Ranks of one machine leave matched collectives apart, which clocks cannot explain: no time is corrected by that.",
        {},
        "Ranks that share a GPU take turns on it: give each its own.";

    // NCCL logs and topology.
    NoNcclLog "no-nccl-log" [Finding(Doctor)] Fixed(Info),
        "There is no NCCL log of the captured processes.",
        {},
        "Run with NCCL_DEBUG=INFO NCCL_DEBUG_FILE=nccl.%h.%p.log and give the files to --nccl-log.";
    NcclLogMissing "nccl-log-missing" [Finding(Doctor)] Fixed(Info),
        "No NCCL log names a connection of a rank, although one does of others.",
        {},
        "Give the logs of all processes to --nccl-log.";
    NcclLogWithoutChannels "nccl-log-without-channels" [Finding(Doctor)] Fixed(Info),
        "The NCCL log names no channel.",
        {},
        "Where NCCL_DEBUG_SUBSYS is set, it needs INIT and P2P,SHM,NET.";
    NcclLogOfAnotherRun "nccl-log-of-another-run" [Finding(Doctor)] Fixed(Medium),
        "NCCL logs come from other processes than the captured ones.",
        {},
        "Give the log of the captured run.";
    NcclLogOfOtherProcesses "nccl-log-of-other-processes" [Warning(Report)] Unweighed,
        "None of the processes of the NCCL logs is among the captured ones: what is said of the transport may be another run's.",
        {},
        "Give the log of the captured run.";
    NcclLogHost "nccl-log-host" [Warning(Report)] Unweighed,
        "NCCL logs name another host than the reports do; they were taken as theirs.",
        {},
        "Nothing, if the program ran in a container with a name of its own.";
    NcclLogTorn "nccl-log-torn" [Warning(Report)] Unweighed,
        "Messages of an NCCL log broke off because several processes wrote to one file.",
        {},
        "Let every process write its own log: NCCL_DEBUG_FILE=nccl.%h.%p.log.";
    NcclWarning "nccl-warning" [Warning(Report)] Unweighed,
        "NCCL wrote a warning of its own.",
        {},
        "See what it says.";
    NoTopology "no-topology" [Finding(Doctor)] Fixed(Info),
        "There is no topology of the machine, or it is not clear which of several it is.",
        {},
        "On the machine: nvidia-smi topo -m > topo.txt; give the file to --topo.";
    TopologyWithoutNvlink "topology-without-nvlink" [Finding(Doctor), Warning(Report)] Fixed(Info),
        "The topology was printed without NVLink: what looks like PCIe may be NVLink.",
        {},
        "On the machine: nvidia-smi topo -m > topo.txt.";

    // Inspector logs beside a trace.
    NoInspector "no-inspector" [Finding(Doctor)] Fixed(Info),
        "There is no Inspector log of the captured processes.",
        {},
        "Run with the Inspector plugin and give the folder to --inspector.";
    InspectorLogMissing "inspector-log-missing" [Finding(Doctor)] Fixed(Info),
        "There is no Inspector log of a rank, although there is of others.",
        {},
        "Look for its log in NCCL_INSPECTOR_DUMP_DIR; a process that ends within the dump interval loses it.";
    InspectorLogOfAnotherRun "inspector-log-of-another-run" [Finding(Doctor)] Fixed(Medium),
        "Inspector logs come from other processes and communicators than the captured ones.",
        {},
        "Give the logs of the captured run.";
    InspectorRankMissing "inspector-rank-missing" [Warning(Report)] Unweighed,
        "There is no Inspector record of a rank.",
        {},
        "Give the folder with all logs.";
    InspectorHost "inspector-host" [Warning(Report)] Unweighed,
        "Inspector logs name another host than the reports do; they were taken as theirs.",
        {},
        "Nothing, if the program ran in a container with a name of its own.";
    InspectorClock "inspector-clock" [Warning(Report)] Unweighed,
        "The clock of a log is not that of the trace: kernels and records were paired by number, size and duration.",
        {},
        "Check that the log was written in this run.";
    InspectorDropped "inspector-dropped" [Warning(Report)] Unweighed,
        "Inspector says that it dropped records while the capture ran.",
        {},
        "Dump more often, or keep more (NCCL_INSPECTOR_DUMP_COLL_RING_SIZE).";
    InspectorLost "inspector-lost" [Warning(Report)] Unweighed,
        "The numbers of the records have gaps: not all captured operations were logged.",
        {},
        "Log operations of every size (NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES), and dump more often.";
    InspectorRepeated "inspector-repeated" [Warning(Report)] Unweighed,
        "Records stood in the logs more than once and were left out.",
        {},
        "Name each log once; a .log beside its .log.gz is one log.";
    InspectorTimesDiffer "inspector-times-differ" [Warning(Report)] Unweighed,
        "Inspector's times on a communicator are not those of the kernels: more than a tenth of the pairs differ by more than 10 µs and 5 %.",
        {},
        "Rely on the kernel times of the trace.";

    // NPKit dumps.
    OnlyClockRecords "only-clock-records" [Warning(Npkit), Warning(Report)] Unweighed,
        "A dump holds only clock records.",
        {},
        "Build with the events of the algorithm and protocol that runs (NPKIT_FLAGS).";
    EmptyDump "empty-dump" [Warning(Npkit), Warning(Report)] Unweighed,
        "Every buffer of a dump is empty.",
        {},
        "Check that the program was linked with the library that carries NPKit, and ran collectives on the communicator that was dumped.";
    RankMissing "rank-missing" [Warning(Npkit), Warning(Report)] Unweighed,
        "A rank left no events in the dump, or there is no file of it.",
        {},
        "End every rank with ncclCommDestroy, and collect the files of all hosts in one folder.";
    BufferFull "buffer-full" [Warning(Npkit), Warning(Report)] Unweighed,
        "Buffers were full: what came later was dropped, and nobody counted it.",
        {},
        "Dump fewer steps, or compile in fewer events.";
    OddSize "odd-size" [Warning(Npkit), Warning(Report)] Unweighed,
        "The size of a file is not a multiple of the 16 bytes of a record.",
        {},
        "Copy the files again: they were cut.";
    UnknownIds "unknown-ids" [Warning(Npkit), Warning(Report)] Unweighed,
        "Records have numbers that the library does not know.",
        {},
        "Give the npkit_event.h of the library that wrote the dump with --header.";
    ClockFileMissing "clock-file-missing" [Warning(Npkit), Warning(Report)] Unweighed,
        "The rate or the period of a clock is missing or is not a number.",
        {},
        "Copy the clock files, too.";
    ClockPeriod "clock-period" [Warning(Npkit), Warning(Report)] Unweighed,
        "The clock of the CPU does not count nanoseconds.",
        {},
        "Doubt this period first if events lie outside the kernels of a report.";
    GpuClock "gpu-clock" [Warning(Npkit), Warning(Report)] Unweighed,
        "Between its clock records the clock of a GPU ran at another rate than the one of its file.",
        {},
        "Rely on shares; times inside a collective are off by as much.";
    UnpairedEvents "unpaired-events" [Warning(Npkit), Warning(Report)] Unweighed,
        "Records begin or end an event whose other half is missing: they have no time.",
        {},
        "Compile in the ENTRY and the EXIT of each event.";
    NoClockRecord "no-clock-record" [Warning(Npkit), Warning(Report)] Unweighed,
        "Records stand before the first clock record of their buffer: when they were is not known.",
        {},
        "Compile in NPKIT_EVENT_TIME_SYNC_CPU and NPKIT_EVENT_TIME_SYNC_GPU.";
    TimeBackwards "time-backwards" [Warning(Npkit), Warning(Report)] Unweighed,
        "Records lie before the record that stands before them: two communicators may have written to one buffer.",
        {},
        "Dump a program with one communicator a process.";
    LeftOut "left-out" [Warning(Npkit), Warning(Report)] Unweighed,
        "Collectives and requests beyond the first of each buffer are in the totals only.",
        {},
        "Dump fewer steps to see all.";
    RoundedTimes "rounded-times" [Warning(Npkit), Warning(Report)] Unweighed,
        "The times of a generated trace have lost precision.",
        {},
        "Read the dump itself.";
    RanksDiffer "ranks-differ" [Warning(Npkit), Warning(Report)] Unweighed,
        "Ranks of a dump do not hold the same collectives.",
        {},
        "Dump the same steps on every rank.";
    RankOfCommunicator "rank-of-communicator" [Warning(Report)] Unweighed,
        "A rank of a dump is taken for another rank of the report, by order and times.",
        {},
        "Nothing: a dump numbers ranks inside its communicator.";
    ClocksDoNotFit "clocks-do-not-fit" [Warning(Report)] Unweighed,
        "Events lie outside of the kernels of their rank, and inside when they are moved.",
        {},
        "Check that the dump and the report are of the same processes.";
    DumpDoesNotFit "dump-does-not-fit" [Warning(Report)] Unweighed,
        "Events lie inside the kernels of no rank of the report: they are not used.",
        {},
        "Check that the dump and the report are of the same processes.";
    EventsOutside "events-outside" [Warning(Report)] Unweighed,
        "Records lie in no kernel, as far as clocks can tell.",
        {},
        "Nothing, if they are few: the clock word of NPKit is kept by a thread of the host.";
    OneCommunicator "one-communicator" [Warning(Report)] Unweighed,
        "Communication kernels have no event.",
        {},
        "Nothing: NPKit keeps one communicator a process, and phases are of the kernels that have them.";

    // Inspector logs by themselves.
    NoRecords "no-records" [Warning(Inspect)] Unweighed,
        "A file has no Inspector record.",
        {},
        "Set NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS; other files need not be named.";
    BadLines "bad-lines" [Warning(Inspect)] Unweighed,
        "Lines that are not a record were left out.",
        {},
        "Look at the first of them.";
    TornFile "torn-file" [Warning(Inspect)] Unweighed,
        "Reading of a file ended early; what stands before counts.",
        {},
        "Copy the file again.";
    UnknownOperations "unknown-operations" [Warning(Inspect)] Unweighed,
        "Operations of unknown kind have no bandwidth.",
        {},
        "Nothing: they are counted and timed.";
    TimesOfOthers "times-of-others" [Warning(Inspect)] Unweighed,
        "Records give a time that is longer than from their start to their writing: it belongs to another operation and is not used.",
        {},
        "Compare with a trace (report --inspector).";
    ChannelsUnseen "channels-unseen" [Warning(Inspect)] Unweighed,
        "Verbose records have no stamp on any channel.",
        {},
        "Nothing: the plugin looked at other channels than those that did the work.";
    NegativeSizes "negative-sizes" [Warning(Inspect)] Unweighed,
        "Records give a size of 2^64 - n bytes, as some do for data types of 1 byte; n is used.",
        {},
        "Nothing: bandwidths are computed anew.";
    ZeroTimes "zero-times" [Warning(Inspect)] Unweighed,
        "Records give no time, a time of 0 or an impossible one; they are in no time and no bandwidth.",
        {},
        "Nothing, if they are few.";
    HostTiming "host-timing" [Warning(Inspect)] Unweighed,
        "Times were taken on the host, which is late when the proxy thread is busy.",
        {},
        "NCCL_INSPECTOR_REQUIRE_KERNEL_TIMING=1 leaves them out.";
    MissingRanks "missing-ranks" [Warning(Inspect)] Unweighed,
        "Communicators lack ranks: no wait is known there.",
        {},
        "Give the logs of all ranks.";
    Sampled "sampled" [Warning(Inspect)] Unweighed,
        "Transfers, waits and the timeline rest on one operation in several.",
        {},
        "Use --since and --until to look at a stretch of the run in full.";
    RepeatedRecords "repeated-records" [Warning(Inspect)] Unweighed,
        "Records repeat a sequence number of their rank; the earlier one is compared.",
        {},
        "Name each log once.";
    PrometheusSummaries "prometheus-summaries" [Warning(Inspect)] Unweighed,
        "Rows of the Prometheus mode are summaries; nothing is recomputed from them.",
        {},
        "Without NCCL_INSPECTOR_PROM_DUMP the plugin writes every operation.";
    SequenceGaps "sequence-gaps" [Warning(Inspect)] Unweighed,
        "Sequence numbers are missing between those logged.",
        {},
        "Dump more often, and log operations of every size.";
    Drops "drops" [Warning(Inspect)] Unweighed,
        "Inspector says that it dropped records.",
        {},
        "Dump more often, or keep more (NCCL_INSPECTOR_DUMP_COLL_RING_SIZE).";
    RankStopsEarly "rank-stops-early" [Warning(Inspect)] Unweighed,
        "The last operation of a rank lies far behind that of the others.",
        {},
        "Look at what that process did after its last record: it may hang or have died.";
    RepeatedFile "repeated-file" [Warning(Inspect)] Unweighed,
        "A file repeats the records of another: they count once.",
        {},
        "Name each log once; a .log beside its .log.gz is one log.";
    SameRankTwice "same-rank-twice" [Warning(Inspect)] Unweighed,
        "Two files hold different records for the same rank of the same communicator.",
        {},
        "Inspect the logs of one run at a time.";
    PidTwice "pid-twice" [Warning(Inspect)] Unweighed,
        "One process id wrote records of different runs: it is taken as several processes.",
        {},
        "Inspect the runs one by one if these are two.";
    CommunicatorShapes "communicator-shapes" [Warning(Inspect)] Unweighed,
        "Records of a communicator disagree on its size; what most say is used.",
        {},
        "Inspect the logs of several runs one by one.";
}
