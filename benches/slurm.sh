#!/bin/bash
# 2026-11-25: tests runs as jobs of a real Slurm (munge, slurmctld, two slurmd) on this machine; any failure ends it with status 1.
#
#     benches/slurm.sh [--install] [BINARY]
#
# BINARY defaults to target/release/formwork. --install installs the programs first (Debian: slurm-wlm munge; as root).
# Tests, each with `formwork submit`:
#   whole     one task trains the smoke experiment; the same run made here without Slurm has the same weights
#   ranks     two nodes with one task each, and one node with two, train it to the same weights (only if BINARY has MPI;
#             otherwise two tasks must be refused)
#   requeue   a run is sent SIGTERM in the middle, as Slurm does before a job's time is up: it saves, its job goes back
#             into the queue, is started again and ends with the same weights as an undisturbed run
#   killed    one task is killed: the job ends with an error (only if BINARY has MPI)
#   limit     with FULL=1: a job of five minutes reaches its time limit, saves, and is resumed; scancel ends it for good
# All files are in a temporary folder, and every daemon ends with the script.
set -u
if [ "${1:-}" = --install ]; then
    shift
    apt-get install -y --no-install-recommends slurm-wlm munge || exit 2
fi
cd "$(dirname "$0")/.." || exit 2
binary=$(realpath "${1:-target/release/formwork}")
PATH=$PATH:/usr/sbin:/sbin
for program in munged slurmctld slurmd sbatch squeue scontrol; do
    command -v $program > /dev/null || { echo "no $program here; see --install"; exit 2; }
done
at=$(mktemp -d); pids=()
finish() {
    scancel --quiet --user "$(id -un)" 2> /dev/null
    sleep 1
    for pid in "${pids[@]}"; do kill "$pid" 2> /dev/null; done
    wait 2> /dev/null
    [ "${KEEP:-}" ] && echo "kept: $at" || rm -rf "$at"
}
trap finish EXIT
fail() { echo "FAILED: $*"; tail -n 30 "$at"/*.log; exit 1; }

# The smallest cluster with two nodes; the daemons differ by their ports.
mkdir -m 0755 "$at/state" "$at/n1" "$at/n2" "$at/munge"
chmod 0755 "$at"
head -c 1024 /dev/urandom > "$at/munge/key"; chmod 0600 "$at/munge/key"
munged --foreground --force --key-file="$at/munge/key" --socket="$at/munge/socket" --pid-file="$at/munge/pid" \
    --seed-file="$at/munge/seed" --log-file="$at/munge.log" > "$at/munged.log" 2>&1 & pids+=($!)
host=$(hostname -s); user=$(id -un); base=$((20000 + $$ % 10000))
export SLURM_CONF=$at/slurm.conf
cat > "$SLURM_CONF" <<CONF
ClusterName=here
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$at/munge/socket
CredType=cred/munge
SlurmUser=$user
SlurmdUser=$user
SlurmctldPort=$base
StateSaveLocation=$at/state
SlurmdSpoolDir=$at/%n
SlurmctldPidFile=$at/control.pid
TmpFS=$at/%n
SlurmdPidFile=$at/%n.pid
SlurmctldLogFile=$at/control.log
SlurmdLogFile=$at/%n.log
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
SchedulerParameters=batch_sched_delay=0
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 1)) CPUs=2 State=UNKNOWN
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 2)) CPUs=2 State=UNKNOWN
PartitionName=short Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
for _ in $(seq 50); do [ -S "$at/munge/socket" ] && break; sleep 0.1; done
[ -S "$at/munge/socket" ] || fail "munged did not start"
slurmctld -D > /dev/null 2>&1 & pids+=($!)
for node in n1 n2; do slurmd -D -N $node > /dev/null 2>&1 & pids+=($!); done
for _ in $(seq 120); do
    [ "$(sinfo -h -N -o %t 2> /dev/null | grep -c idle)" = 2 ] && break
    sleep 0.5
done
[ "$(sinfo -h -N -o %t 2> /dev/null | grep -c idle)" = 2 ] || fail "two nodes are not idle after a minute"
echo "cluster: $(slurmctld -V), munge $(munged --version | grep -o '[0-9.]*' | head -1), nodes n1 n2"

# Prints the hash of a run's last weights.
weights() { sha256sum "$1/latest/model.safetensors" 2>&1 | cut -c1-64 | grep -xE '[0-9a-f]{64}' || echo "no weights in $1"; }
# drained SECONDS: waits until no job is left
drained() {
    local empty=0
    for _ in $(seq $(($1 * 5))); do
        # Between two states a job may be missing for a moment, and squeue may get no answer.
        if squeue -h 2> /dev/null | grep -q .; then
            empty=0
        else
            empty=$((empty + 1))
        fi
        [ $empty -ge 10 ] && return
        sleep 0.2
    done
    fail "a job is still there after $1 s: $(squeue)"
}
# submit NAME FLAGS…: submits a run and sets $job to the job's number
submit() {
    local name=$1 said; shift
    said=$("$binary" submit "$file" --run "$at/$name" "$@" 2> "$at/$name.told") || fail "submit: $(cat "$at/$name.told")"
    job=${said##* }
    echo "  $said ($name)"
}
# ended NAME: checks that the run is done, with the same weights as the run without Slurm
ended() {
    local log; log=$(ls "$at/$1".slurm-*.log) || fail "$1 left no log"
    grep -q '^done after' "$log" || fail "$1 is not done: $(cat "$log")"
    [ "$(weights "$at/$1")" = "$wanted" ] || fail "$1 has other weights"
    echo "$1: $(grep '^done after' "$log" | tail -1), the weights of the run without Slurm"
}

file=$PWD/experiments/smoke/tiny.toml
sets=(--set train.steps=60 --set train.checkpoint_every=20)
RAYON_NUM_THREADS=1 "$binary" train "$file" --run "$at/here" --quiet "${sets[@]}" > "$at/here.log" || fail "train"
wanted=$(weights "$at/here")

submit whole --cpus-per-task 1 --time 10 "${sets[@]}"
drained 120; ended whole

if "$binary" submit "$file" --run "$at/never" --tasks-per-node 2 2>&1 > /dev/null | grep -q 'built without MPI'; then
    mpi=; echo "ranks: two tasks are refused, since $binary was built without MPI"
else
    mpi=1; scancel --quiet --user "$user"; drained 60
    submit nodes --nodes 2 --cpus-per-task 1 --time 10 "${sets[@]}"; drained 180; ended nodes
    submit tasks --tasks-per-node 2 --cpus-per-task 1 --time 10 "${sets[@]}"; drained 180; ended tasks
fi

# Long enough to be signalled before the end.
sets=(--set train.steps=4000 --set train.eval_every=1000 --set train.checkpoint_every=1000 --set train.log_every=50)
RAYON_NUM_THREADS=1 "$binary" train "$file" --run "$at/calm" --quiet "${sets[@]}" > "$at/calm.log" || fail "train"
wanted=$(weights "$at/calm")
tasks=(); [ $mpi ] && tasks=(--nodes 2)
# Waits until a run has steps in its journal.
begun() {
    for _ in $(seq 300); do grep -qs '"step":' "$at/$1/metrics.jsonl" && return; sleep 0.1; done
    fail "$1 has no step after 30 s"
}
submit requeue "${tasks[@]}" --cpus-per-task 1 --time 10 "${sets[@]}"
begun requeue
scancel --signal=TERM "$job"
for _ in $(seq 100); do
    state=$(squeue -h -j "$job" -o '%T %r' 2> /dev/null); [[ $state == PENDING* ]] && break; sleep 0.2
done
[[ $state == PENDING* ]] || fail "the job did not go back into the queue: $state"
echo "requeue: $(grep -o 'interrupted at step [0-9]*' "$at"/requeue.slurm-*.log | head -1), then $state"
# Slurm holds a requeued job back for a while; an administrator can release it, but not at once: a start within the same second
# fails with "Job credential revoked", because nodes tell credentials from before and after the requeue apart by their seconds.
sleep 3
scontrol update jobid="$job" starttime=now 2> /dev/null
drained 300; ended requeue

if [ $mpi ]; then
    submit killed --tasks-per-node 2 --cpus-per-task 1 --time 10 "${sets[@]}"
    begun killed
    kill -KILL "$(pgrep -f -- "train $file --run $at/killed " | tail -1)"
    drained 120
    grep -q '^done after' "$at"/killed.slurm-*.log && fail "a run with a killed task is done"
    echo "killed: the job ended; its log: $(grep -iE 'error|killed' "$at"/killed.slurm-*.log | head -2 | tr '\n' ' ')"
fi

if [ "${FULL:-}" ]; then
    submit limit "${tasks[@]}" --cpus-per-task 1 --time 5 --set train.steps=1000000 --set train.checkpoint_every=1000000 \
        --set train.eval_every=1000000 --set train.log_every=100
    began=$SECONDS
    for _ in $(seq 420); do
        state=$(squeue -h -j "$job" -o '%T %r' 2> /dev/null); [[ $state == PENDING*Begin* ]] && break; sleep 1
    done
    at_step=$(grep -o 'interrupted at step [0-9]*' "$at"/limit.slurm-*.log | grep -o '[0-9]*$')
    [[ $state == PENDING* ]] && [ "${at_step:-0}" -gt 0 ] || fail "no requeue at the end of the time: $state"
    echo "limit: asked after $((SECONDS - began)) s of 300, saved at step $at_step, then $state"
    scontrol update jobid="$job" starttime=now 2> /dev/null
    for _ in $(seq 300); do
        step=$(tail -n 1 "$at/limit/metrics.jsonl" | grep -o '"step":[0-9]*' | cut -d: -f2)
        [ "${step:-0}" -gt $((at_step + 200)) ] && break; sleep 0.5
    done
    [ "${step:-0}" -gt $((at_step + 200)) ] || fail "the run was not resumed after step $at_step"
    steps=$(grep -o '"step":[0-9]*,"split":"train"\|"split":"train".*"step":[0-9]*' "$at/limit/metrics.jsonl" | wc -l)
    scancel "$job"; drained 60
    echo "limit: resumed to step $step ($steps lines of steps in the journal), ended by scancel and not started again"
fi
echo "all as wanted"
