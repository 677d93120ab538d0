#!/bin/bash
# 2026-11-25: tests one run on two virtual machines: network namespaces joined by a virtual cable. Needs root.
#
#     benches/two_machines.sh [--install] [BINARY]
#
# BINARY defaults to target/release/formwork and must be built with `--features mpi`. --install installs mpirun (Debian: openmpi-bin).
# Each machine has its own name, address, processes and shared memory. The cable is the only connection between them, and MPI is
# told to use TCP. mpirun starts its agent on the other machine with `ip netns exec` instead of ssh. Both see the same disk, as
# machines with NFS do.
#   hosts     the two ranks of a job have the names and addresses of two machines, and do not see each other's processes
#   one run   a rank on each machine trains the smoke experiment; the weights are those of one process here. The bytes on the
#             cable are compared with `formwork plan --ranks 2`
#   signal    SIGTERM and SIGUSR1 to mpirun in the middle: the run is saved once (mpirun itself ends with 1 and 130) and resumed
#             on both machines, to the same weights
#   cable     the cable is cut in the middle: no step is taken without the other machine, and after a resume the weights
#             are the same
# Any failure ends it with status 1. Namespaces, the cable and all processes end with the script.
set -u
if [ "${1:-}" = --install ]; then
    shift
    apt-get install -y --no-install-recommends openmpi-bin iproute2 || exit 2
fi
cd "$(dirname "$0")/.." || exit 2
binary=$(realpath "${1:-target/release/formwork}")
for program in mpirun ip unshare; do
    command -v $program > /dev/null || { echo "no $program here; see --install"; exit 2; }
done
[ "$(id -u)" = 0 ] || { echo "namespaces need root"; exit 2; }
at=$(mktemp -d); a=fw-a-$$ b=fw-b-$$ ca=fwa$$ cb=fwb$$ job=
finish() {
    for space in $a $b; do
        for pid in $(ip netns pids $space 2> /dev/null); do kill "$pid" 2> /dev/null; done
    done
    sleep 1
    for space in $a $b; do
        for pid in $(ip netns pids $space 2> /dev/null); do kill -KILL "$pid" 2> /dev/null; done
        ip netns del $space 2> /dev/null
        rm -rf "/etc/netns/$space"
    done
    rmdir /etc/netns 2> /dev/null
    [ "${KEEP:-}" ] && echo "kept: $at" || rm -rf "$at"
}
trap finish EXIT
fail() { echo "FAILED: $*"; exit 1; }

ip netns add $a && ip netns add $b || fail "no network namespaces here"
ip link add $ca netns $a type veth peer name $cb netns $b || fail "no virtual cable here"
ip -n $a addr add 10.77.0.1/24 dev $ca; ip -n $b addr add 10.77.0.2/24 dev $cb
for space in $a $b; do
    # `ip netns exec` mounts this over /etc/hosts.
    mkdir -p "/etc/netns/$space"
    printf '127.0.0.1 localhost\n10.77.0.1 %s\n10.77.0.2 %s\n' $a $b > "/etc/netns/$space/hosts"
    ip -n $space link set lo up
done
ip -n $a link set $ca up; ip -n $b link set $cb up
# on MACHINE COMMAND…: runs a command there, with that machine's name, processes and shared memory.
cat > "$at/on" <<'ON'
#!/bin/bash
machine=$1; shift
exec ip netns exec "$machine" unshare --uts --ipc --pid --fork --kill-child --mount-proc bash -c \
    'hostname "$0"; mount -t tmpfs tmpfs /dev/shm; exec "$@"' "$machine" bash -c "$*"
ON
chmod +x "$at/on"
"$at/on" $a "ping -c 1 -W 2 $b" > /dev/null 2>&1 || echo "note: no ping, or no answer to it"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 RAYON_NUM_THREADS=1
# Writes the command that starts a job on both machines, and runs it on the first.
both() {
    printf 'exec mpirun -np 2 --host %s:1,%s:1 --mca plm rsh --mca plm_rsh_agent %q --mca btl tcp,self --mca pml ob1 \
        --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 --bind-to none --mca odls_base_sigkill_timeout 3 \
        -x RAYON_NUM_THREADS ' \
        $a $b "$at/on" > "$at/job.sh"
    printf '%q ' "$@" >> "$at/job.sh"
    ip netns exec $a unshare --uts --ipc --mount bash -c \
        'hostname "$0"; mount -t tmpfs tmpfs /dev/shm; exec bash "$1"' $a "$at/job.sh"
}
weights() { sha256sum "$1/latest/model.safetensors" 2>&1 | cut -c1-64 | grep -xE '[0-9a-f]{64}' || echo "no weights in $1"; }
carried() { ip netns exec $a cat "/sys/class/net/$ca/statistics/tx_bytes"; }
# begun RUN LINES: waits until a run has this many lines with steps in its journal.
begun() {
    for _ in $(seq 600); do
        [ "$(cat "$at/$1/metrics.jsonl" 2> /dev/null | grep -c '"step":')" -ge "$2" ] && return; sleep 0.1
    done
    fail "$1 has no $2 lines of steps after a minute: $(tail -n 5 "$at/$1.log")"
}
# Prints the process id of mpirun on the first machine.
mpirun_pid() { ip netns pids $a | while read -r pid; do [ "$(cat "/proc/$pid/comm")" = mpirun ] && echo "$pid"; done | head -1; }

hosts=$(both sh -c 'echo $(hostname) $(ip -4 -o addr show | grep -o "10.77.0.[0-9]*/" ) $(ls /dev/shm | grep -c .)' 2> "$at/hosts.log")
echo "hosts:"; echo "$hosts" | sed 's/^/  /'
[ "$(echo "$hosts" | cut -d' ' -f1 | sort -u | wc -l)" = 2 ] || fail "two ranks are not on two machines: $(cat "$at/hosts.log")"

file=$PWD/experiments/smoke/tiny.toml
sets=(--set train.steps=400 --set train.eval_every=400 --set train.checkpoint_every=400 --set train.log_every=20)
"$binary" train "$file" --run "$at/here" --quiet "${sets[@]}" > "$at/here.log" || fail "train: $(cat "$at/here.log")"
wanted=$(weights "$at/here")
before=$(carried)
both "$binary" train "$file" --run "$at/both" --plain "${sets[@]}" > "$at/both.log" 2>&1 || fail "$(cat "$at/both.log")"
bytes=$(($(carried) - before))
[ "$(weights "$at/both")" = "$wanted" ] || fail "two machines have other weights: $(weights "$at/both"), here $wanted"
planned=$("$binary" plan "$file" --ranks 2 --no-probe --json | grep -o '"sent_bytes":[0-9]*' | tail -1 | cut -d: -f2)
echo "one run: $(grep '^done after' "$at/both.log"), the weights of one process"
echo "  the first machine sent $bytes bytes, $((bytes / 400)) a step with all headers; gradients are planned as $planned"
[ "${planned:-0}" -gt 0 ] && [ $bytes -ge $((planned * 400)) ] || fail "fewer bytes on the cable than gradients have"

sets=(--set train.steps=12000 --set train.eval_every=4000 --set train.checkpoint_every=1000 --set train.log_every=50)
"$binary" train "$file" --run "$at/calm" --quiet "${sets[@]}" > "$at/calm.log" || fail "train: $(cat "$at/calm.log")"
wanted=$(weights "$at/calm")
# Open MPI 4.1 passes SIGTERM to the ranks after odls_base_sigkill_timeout seconds, and ends with its own status. It passes SIGUSR1
# on at once, and ends with the status of the ranks.
for asked in TERM:1 USR1:130; do
    name=signal-${asked%:*}
    both "$binary" train "$file" --run "$at/$name" --plain "${sets[@]}" > "$at/$name.log" 2>&1 & job=$!
    begun "$name" 10
    kill "-${asked%:*}" "$(mpirun_pid)"
    wait $job; status=$?
    [ $status = "${asked#*:}" ] || fail "mpirun ended with $status after $name: $(tail -n 5 "$at/$name.log")"
    saved=$(basename "$(readlink -f "$at/$name/latest")")
    [ $((10#$saved % 4000)) != 0 ] || fail "no checkpoint of the interruption: $saved; $(tail -n 5 "$at/$name.log")"
    both "$binary" resume "$at/$name" --plain >> "$at/$name.log" 2>&1 || fail "resume: $(tail -n 5 "$at/$name.log")"
    [ "$(weights "$at/$name")" = "$wanted" ] || fail "other weights after $name"
    echo "$name: saved at step $((10#$saved)), mpirun ended with $status, resumed on both machines, the same weights"
done

both "$binary" train "$file" --run "$at/cable" --plain "${sets[@]}" > "$at/cable.log" 2>&1 & job=$!
begun cable 30
ip -n $a link set $ca down
sleep 3
lines=$(grep -c '"step":' "$at/cable/metrics.jsonl"); sleep 3
[ "$(grep -c '"step":' "$at/cable/metrics.jsonl")" = "$lines" ] || fail "steps were taken without the other machine"
kill -TERM "$(mpirun_pid)" 2> /dev/null; sleep 2
for space in $a $b; do for pid in $(ip netns pids $space); do kill -KILL "$pid" 2> /dev/null; done; done
wait $job; status=$?
ip -n $a link set $ca up
both "$binary" train "$file" --run "$at/cable" --resume --plain "${sets[@]}" >> "$at/cable.log" 2>&1 || fail "resume: $(tail -n 5 "$at/cable.log")"
[ "$(weights "$at/cable")" = "$wanted" ] || fail "other weights after a cut cable"
echo "cable: cut, the job ended with $status, resumed on both machines, the same weights"
echo "all as wanted"
