#!/bin/bash
# Compares chat templates of published models, as shipped in PyPI's trl, with transformers: texts and ids.
#
#     benches/chat_templates.sh PYTHON [cargo test's arguments]     # a Python with transformers 5.24 and jinja2 3.1.6
#
# 2026-11-29, trl 1.16.0: 428 of 432 texts are the same. For the other four (LFM2's, a tool call without content) transformers
# raises an error about an undefined value, so the test ends by reporting these four.
set -euo pipefail
python=$1
shift
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip download --quiet --no-deps --dest "$work" trl==1.16.0
"$python" -m zipfile --extract "$work"/trl-*.whl "$work/trl"
"$python" "$here/tests/goldens/make_chat.py" "$work/trl" > "$work/chat.json"
cd "$here"
FORMWORK_CHAT_GOLDEN=$work/chat.json cargo test --release "$@" --test it -- chat::templates
