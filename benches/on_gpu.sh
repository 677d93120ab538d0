#!/usr/bin/env bash
# Runs the checks and measurements that need a GPU, the most valuable first, each part with its own time limit, 16 minutes in all.
#
#   cargo build --release --features cuda --bins --tests
#   FORMWORK_DATA=FOLDER benches/on_gpu.sh RESULTS [DEVICE]
#
# RESULTS receives one file per part; DEVICE defaults to cuda. The binary and the tests are those in target/release, or
# FORMWORK_BINARY and FORMWORK_TESTS. A part that fails or takes too long is reported, and the others go on. The comparison needs
# PyTorch. FORMWORK_PERCENT scales the time limit of every part. The parts ran on an NVIDIA H200 on 2026-11-27, one by one; the
# script as a whole has not run. Most of a first start is NVRTC's compilation; a persistent XDG_CACHE_HOME keeps the kernels.
set -uo pipefail
cd "$(dirname "$0")/.."
fail() {
  echo "on_gpu.sh: $1" >&2
  exit 2
}
[ -n "${1:-}" ] || fail "name a folder for the results"
out=$(realpath -m "$1")
device=${2:-cuda}
binary=${FORMWORK_BINARY:-target/release/formwork}
tests=${FORMWORK_TESTS:-$(ls -t target/release/deps/it-* 2> /dev/null | grep -v '\.d$' | head -1)}
percent=${FORMWORK_PERCENT:-100} # of each part's time
[ -x "$binary" ] || fail "there is no $binary: cargo build --release --features cuda --bins --tests"
[ -x "$tests" ] || fail "there is no target/release/deps/it-*: cargo build --release --features cuda --bins --tests"
mkdir -p "$out" || exit 2

# part NAME SECONDS COMMAND...: runs a command with a time limit and reports its status
part() {
  local name=$1 limit=$(($2 * percent / 100 + 1)) status=0 began=$SECONDS
  shift 2
  # A run that receives SIGTERM finishes its step first.
  timeout -k 20 "$limit" "$@" > "$out/$name.txt" 2>&1 || status=$?
  echo "$name: status $status after $((SECONDS - began)) s$([ "$status" = 124 ] && echo ', out of time'): $(tail -n 1 "$out/$name.txt" | cut -c1-160)"
}

compare() {
  python3 benches/torch_gpu.py --device "$device" --binary "$binary" --rounds 1 "$@"
}
export -f compare
export device binary FORMWORK_TEST_DEVICE=$device

part devices 30 "$binary" list devices
part kernels 150 "$tests" on_device
part lm_m 80 bash -c 'compare --case lm_m --mode eager --mode flash; compare --case lm_m --mode eager --mode flash --replay'
part gpt2 150 bash -c 'compare --case gpt2 --mode eager --mode flash; compare --case gpt2 --mode flash --dtype bf16 --replay'
part compiled 100 bash -c 'compare --case lm_m --case gpt2 --mode compile --dtype bf16 --replay'
part nanogpt 200 "$binary" train experiments/causal_lm/shakespeare_char.toml --device "$device" --run "$out/nanogpt" \
  --set train.dtype=mixed_bf16 --set train.replay=true
part others 100 bash -c 'compare --case bert_base --case vit_b --mode eager --mode flash'
part experiments 140 python3 benches/gpu.py --device "$device" --binary "$binary" --jobs 4
