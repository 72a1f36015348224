#!/usr/bin/env bash
# Captures variants of train.py with Nsight Systems, one report a rank, exports them to SQLite and, where nsysnccl is installed,
# reports on each, compares all and checks the step times against CUDA events.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'TEXT'
usage: capture.sh [--gpus N] [--out DIR] [--only VARIANT,...] [--steps N] [--warm N] [--batch N] [--dry-run] [--analyse-only] [--list]

  --gpus N          ranks of a variant, one a GPU (default: all GPUs that nvidia-smi lists)
  --out DIR         where everything goes (default: captures); later runs with the same DIR add to it
  --only A,B        these variants only, in this order, so that a long run can be done in parts
  --steps, --warm, --batch   passed to train.py (default: 20 captured steps after 5 others, 32 images a rank)
  --dry-run         say what would be done, and stop
  --analyse-only    no capture: report on and compare what DIR holds
  --list            the names of the variants

Any variant may end in -nop2p (with NCCL_P2P_DISABLE=1) or -repeat (captured once more), for example bucket25-nop2p, ddp-repeat.

Environment:
  NSYS              the nsys to use (default: nsys)
  NSYS_IMPORTER     QdstrmImporter, for installations where nsys leaves a .qdstrm that it cannot import by itself
  EXTRA_NSYS_FLAGS  more flags for `nsys profile`, for example --gpu-metrics-devices=all
  INSPECTOR_PLUGIN  path of libnccl-profiler-inspector.so: NCCL Inspector logs are written too
  NSYSNCCL          the nsysnccl to use (default: nsysnccl)
  PYTHON, TORCHRUN  the Python that has PyTorch, its launcher (default: python3, python3 -m torch.distributed.run)
  MASTER_PORT       port of the launcher (default: 29500)
  VARIANT_TIMEOUT   seconds after which a variant is given up (default: 300)
Every other variable, NCCL's among them, reaches the program as it is.
TEXT
}

say() { printf '%s\n' "$*"; }
die() { printf 'capture.sh: %s\n' "$*" >&2; exit 2; }

gpus='' out=captures only='' steps=20 warm=5 batch=32 dry_run='' analyse_only='' list=''
while (($#)); do
  case $1 in
    --gpus | --out | --only | --steps | --warm | --batch) (($# > 1)) || die "$1 needs a value"; declare "${1#--}=$2"; shift 2 ;;
    --dry-run) dry_run=1; shift ;;
    --analyse-only) analyse_only=1; shift ;;
    --list) list=1; shift ;;
    -h | --help) usage; exit 0 ;;
    *) die "unknown argument '$1' (see --help)" ;;
  esac
done

# The variants. Each of static, view and what follows it adds one option, as far as the options allow: bf16, PowerSGD and the bucket
# sizes are on top of view, the others on top of plain DDP.
all=(baseline ddp-1gpu ddp static view bf16 powersgd bucket500 bucket100 bucket25 accumulation fsdp slow-rank slow-gpu
  ddp-nop2p view-nop2p bf16-nop2p powersgd-nop2p bucket100-nop2p ddp-repeat view-repeat)

if [[ -n $list ]]; then printf '%s\n' "${all[@]}"; exit 0; fi

nsys=${NSYS:-nsys} python=${PYTHON:-python3} nsysnccl=${NSYSNCCL:-nsysnccl} limit=${VARIANT_TIMEOUT:-300}
read -ra torchrun <<<"${TORCHRUN:-$python -m torch.distributed.run}"
if [[ -z $gpus && -n $analyse_only ]]; then gpus=1; fi
if [[ -z $gpus ]]; then
  gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU' || true)
  [[ $gpus != 0 ]] || { gpus=1; say 'nvidia-smi lists no GPU here: planning for one'; }
fi
for number in "$gpus" "$steps" "$warm" "$batch" "$limit"; do [[ $number =~ ^[1-9][0-9]*$ ]] || die "'$number' is not a positive number"; done

# describe NAME sets: ranks, stem (the file name without the rank), options (of train.py), settings (environment).
describe() {
  local name=$1 suffix=''
  ranks=$gpus options=() settings=()
  [[ $name == *-repeat ]] && name=${name%-repeat} suffix=-repeat
  [[ $name == *-nop2p ]] && name=${name%-nop2p} suffix=-nop2p$suffix settings=(NCCL_P2P_DISABLE=1)
  local view=(--ddp --static-graph --gradient-as-bucket-view)
  stem=ddp-${gpus}gpu-$name
  case $name in
    baseline) ranks=1 stem=baseline options=(--no-ddp) ;;
    ddp-1gpu) ranks=1 stem=ddp-1gpu options=(--ddp) ;;
    ddp | "ddp-${gpus}gpu") stem=ddp-${gpus}gpu options=(--ddp) ;;
    static) options=(--ddp --static-graph) ;;
    view) options=("${view[@]}") ;;
    bf16) options=("${view[@]}" --hook bf16) ;;
    powersgd) options=("${view[@]}" --hook powersgd --powersgd-start 2) ;;
    bucket[1-9]*) [[ ${name#bucket} =~ ^[0-9]+$ ]] || return 1; options=("${view[@]}" --bucket-cap-mb "${name#bucket}") ;;
    accumulation) options=(--ddp --accumulate 2) ;;
    fsdp) stem=fsdp-${gpus}gpu options=(--fsdp) ;;
    slow-rank) options=(--ddp --slow-rank 1 --slow-ms 30) ;;
    slow-gpu) options=(--ddp --slow-rank 1 --slow-gemms 16) ;;
    *) return 1 ;;
  esac
  stem+=$suffix
  options+=(--warm "$warm" --steps "$steps" --batch "$batch")
}

names=()
if [[ -n $only ]]; then
  IFS=, read -ra names <<<"$only"
else
  for name in "${all[@]}"; do
    # On one GPU there is no peer to be slow or to be reached another way.
    if ((gpus == 1)) && [[ $name == ddp-1gpu || $name == slow-* || $name == *-nop2p* ]]; then continue; fi
    names+=("$name")
  done
fi
for name in "${names[@]}"; do
  describe "$name" || die "there is no variant '$name' (see --list)"
  ((gpus > 1)) || [[ $name != slow-* ]] || die "$name needs two GPUs"
done

# Options differ between versions of nsys: one is used only where its help names it.
have_nsys=''
if command -v "$nsys" >/dev/null 2>&1; then have_nsys=1; fi
profile_help='' export_help=''
if [[ -n $have_nsys ]]; then profile_help=$("$nsys" profile --help 2>&1 || true) export_help=$("$nsys" export --help 2>&1 || true); fi
absent=()
offer() { # offer HELP OPTION VALUE: adds --OPTION=VALUE to flags if the help names it (or if there is no nsys here to ask)
  if [[ -z $have_nsys ]] || grep -qE -e "(^|[^[:alnum:]-])--$2([^[:alnum:]-]|\$)" <<<"$1"; then flags+=("--$2=$3"); else absent+=("--$2"); fi
}
flags=("--trace=cuda,nvtx" --capture-range=cudaProfilerApi)
offer "$profile_help" capture-range-end stop
offer "$profile_help" sample none
offer "$profile_help" cpuctxsw none
offer "$profile_help" resolve-symbols false
offer "$profile_help" cuda-graph-trace node
offer "$profile_help" force-overwrite true
read -ra extra <<<"${EXTRA_NSYS_FLAGS:-}"
profile_flags=("${flags[@]}" "${extra[@]}")
flags=(--type=sqlite)
offer "$export_help" force-overwrite true
offer "$export_help" include-blobs true
offer "$export_help" include-json true
export_flags=("${flags[@]}")

nccl_settings() { # of one variant, after describe
  settings+=("NCCL_DEBUG=${NCCL_DEBUG:-INFO}" "NCCL_DEBUG_SUBSYS=${NCCL_DEBUG_SUBSYS:-INIT,GRAPH,ENV,TUNING,P2P,SHM,NET}"
    "NCCL_DEBUG_FILE=$out/$stem.%h.%p.nccl.log")
  [[ -z ${INSPECTOR_PLUGIN:-} ]] || settings+=("NCCL_PROFILER_PLUGIN=$INSPECTOR_PLUGIN" NCCL_INSPECTOR_ENABLE=1
    "NCCL_INSPECTOR_DUMP_DIR=$out/${stem}_inspector" "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=500" NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES=0)
}

# torchrun ends all ranks when one process fails. An nsys that cannot import its report fails although the program ran to its end,
# so a rank counts as good when its step times are there, and the report is looked for afterwards.
# shellcheck disable=SC2016 # expanded by the rank's own shell
rank_shell='events=$1_$RANK.events.json; shift; "$@"; status=$?; [ -s "$events" ] && exit 0; exit $((status ? status : 1))'

commands_of() { # of one variant, after describe: sets launcher and rank_command
  launcher=("${torchrun[@]}" --nnodes=1 "--nproc_per_node=$ranks" --master_addr=127.0.0.1 "--master_port=${MASTER_PORT:-29500}" --no-python)
  rank_command=("$nsys" profile "${profile_flags[@]}" "--output=$out/${stem}_%q{RANK}"
    "$python" "$here/train.py" "--name=$out/$stem" "${options[@]}")
}

plan() {
  say "$gpus GPU(s), ${#names[@]} variant(s), $steps steps each after $warm others, into $out/"
  if [[ -z $have_nsys ]]; then say "nsys: '$nsys' is not here (set NSYS)"; else say "nsys: $("$nsys" --version 2>&1 | tail -n 1)"; fi
  ((${#absent[@]} == 0)) || say "this nsys does not know ${absent[*]}: left out"
  say "Inspector: ${INSPECTOR_PLUGIN:-none (set INSPECTOR_PLUGIN)}"
  say
  printf '%-22s %-5s %-30s %s\n' variant ranks files options
  for name in "${names[@]}"; do
    describe "$name"
    printf '%-22s %-5s %-30s %s\n' "$name" "$ranks" "${stem}_*.sqlite" "${settings[*]:+${settings[*]} }${options[*]}"
  done
  describe "${names[0]}"
  nccl_settings
  commands_of
  say
  say "the first one, with ${settings[*]}"
  say "  launched by     ${launcher[*]}"
  say "  in each rank    ${rank_command[*]}"
  say "each report then: $nsys export ${export_flags[*]} --output=NAME_RANK.sqlite NAME_RANK.nsys-rep"
  say "at the end, where nsysnccl is installed: nsysnccl report, nsysnccl compare -o $out/variants.html, verify.py"
  say
}

capture() { # one variant, after describe
  local log=$out/$stem.log
  rm -f "$out/${stem}"_[0-9]*.{events.json,nsys-rep,qdstrm,sqlite} "$out/$stem".*.nccl.log
  nccl_settings
  [[ -z ${INSPECTOR_PLUGIN:-} ]] || { rm -rf "$out/${stem}_inspector"; mkdir -p "$out/${stem}_inspector"; }
  commands_of
  local started=$SECONDS
  if ! env OMP_NUM_THREADS="${OMP_NUM_THREADS:-4}" "${settings[@]}" timeout --kill-after=20 "$limit" \
    "${launcher[@]}" bash -c "$rank_shell" rank "$out/$stem" "${rank_command[@]}" >"$log" 2>&1 </dev/null; then
    say "$name: failed after $((SECONDS - started)) s; the end of $log:"
    tail -n 15 "$log"
    return 1
  fi
  say "$name: captured in $((SECONDS - started)) s"
}

to_sqlite() { # to_sqlite BASE: BASE.nsys-rep or BASE.qdstrm to BASE.sqlite
  local base=$1
  if [[ ! -s $base.nsys-rep && -s $base.qdstrm ]]; then
    if [[ -z ${NSYS_IMPORTER:-} ]]; then
      say "$base.qdstrm: nsys could not import it; set NSYS_IMPORTER to QdstrmImporter, which lies in the host folder of the nsys installation"
      return 1
    fi
    timeout --kill-after=20 "$limit" "$NSYS_IMPORTER" -i "$base.qdstrm" -o "$base.nsys-rep" || return 1
  fi
  [[ -s $base.nsys-rep ]] || { say "$base.nsys-rep: nsys wrote no report"; return 1; }
  timeout --kill-after=20 "$limit" "$nsys" export "${export_flags[@]}" "--output=$base.sqlite" "$base.nsys-rep" || return 1
  rm -f "$base.qdstrm"
}

export_all() { # one variant, after describe: its ranks side by side
  local rank jobs=() bad=''
  for ((rank = 0; rank < ranks; rank++)); do
    to_sqlite "$out/${stem}_$rank" >"$out/${stem}_$rank.export.log" 2>&1 &
    jobs+=($!)
  done
  for ((rank = 0; rank < ranks; rank++)); do
    if wait "${jobs[rank]}"; then rm -f "$out/${stem}_$rank.export.log"; else bad=1; tail -n 5 "$out/${stem}_$rank.export.log"; fi
  done
  [[ -z $bad ]]
}

# compare_as NAME STEM...: the comparison of these with the first of them, as NAME.html, .md and .json.
compare_as() {
  local name=$1 base=$2 stem groups=()
  shift
  # A repeat is another capture of the same variant: compare takes a name given twice as that.
  for stem; do groups+=("${stem%-repeat}=$out/${stem}_[0-9]*.sqlite"); done
  "$nsysnccl" compare "${groups[@]}" --baseline "$base" --scaling weak -o "$out/$name.html" -o "$out/$name.md" -o "$out/$name.json" || return 1
  say "comparison with $base: $out/$name.html"
}

# report on and compare what $out holds, captured now or before.
analyse() {
  local stems=() file stem documents=() bad=''
  shopt -s nullglob
  for file in "$out"/*_0.sqlite; do file=${file##*/}; stems+=("${file%_0.sqlite}"); done
  ((${#stems[@]})) || { say "no exported report in $out/"; return 1; }
  local events=("$out"/*.events.json)
  if ! command -v "$nsysnccl" >/dev/null 2>&1; then
    say "nsysnccl is not here: build it, then: NSYSNCCL=PATH $here/capture.sh --analyse-only --out $out"
    "$python" "$here/verify.py" "${events[@]}"
    return
  fi
  for stem in "${stems[@]}"; do
    local inputs=("$out/$stem"_[0-9]*.sqlite) logs=("$out/$stem".*.nccl.log) inspector=("$out/${stem}_inspector"/*) more=()
    ((${#logs[@]} == 0)) || more+=(--nccl-log "${logs[@]}")
    ((${#inspector[@]} == 0)) || more+=(--inspector "$out/${stem}_inspector")
    [[ ! -s $out/topology.txt ]] || more+=(--topo "$out/topology.txt")
    if "$nsysnccl" report "${inputs[@]}" "${more[@]}" -o "$out/$stem.report.md" -o "$out/$stem.report.json"; then
      documents+=(--report "$out/$stem.report.json")
    else
      say "$stem: no report"; bad=1
    fi
  done
  # Everything against plain DDP on most GPUs; without peer access, against plain DDP without it.
  local base=${stems[0]} most=0 plain=() nop2p=()
  for stem in "${stems[@]}"; do
    if [[ $stem =~ ^ddp-([0-9]+)gpu$ ]] && ((BASH_REMATCH[1] > most)); then base=$stem most=${BASH_REMATCH[1]}; fi
  done
  for stem in "${stems[@]}"; do
    if [[ $stem == "$base"* && $stem == *-nop2p* && $stem != "$base-nop2p" ]]; then nop2p+=("$stem"); elif [[ $stem != "$base" ]]; then plain+=("$stem"); fi
  done
  if ((${#plain[@]})); then
    if compare_as variants "$base" "${plain[@]}"; then documents+=(--compare "$out/variants.json"); else bad=1; fi
  fi
  if ((${#nop2p[@]})) && [[ -s $out/$base-nop2p_0.sqlite ]]; then
    if compare_as variants-nop2p "$base-nop2p" "${nop2p[@]}"; then documents+=(--compare "$out/variants-nop2p.json"); else bad=1; fi
  fi
  "$python" "$here/verify.py" "${events[@]}" "${documents[@]}" | tee "$out/verify.txt" || bad=1
  [[ -z $bad ]]
}

failed=()
if [[ -z $analyse_only ]]; then
  plan
  [[ -z $dry_run ]] || exit 0
  [[ -n $have_nsys ]] || die "'$nsys' is not here: install Nsight Systems or set NSYS"
  mkdir -p "$out"
  out=$(cd "$out" && pwd)
  nvidia-smi topo -m >"$out/topology.txt" 2>/dev/null || say 'nvidia-smi gave no topology'
  { nvidia-smi --query-gpu=index,name,driver_version --format=csv || true; "$nsys" --version; } >"$out/machine.txt" 2>&1
  captured=()
  for name in "${names[@]}"; do
    describe "$name"
    if capture; then captured+=("$name"); else failed+=("$name"); fi
  done
  # Only now, so that no export keeps the host busy while a variant is measured.
  for name in "${captured[@]}"; do
    describe "$name"
    export_all || failed+=("$name")
  done
fi
[[ -z $dry_run ]] || { say "would report on and compare the exports in $out/"; exit 0; }
analyse || failed+=(analysis)
((${#failed[@]} == 0)) || { say "failed: ${failed[*]}"; exit 1; }
