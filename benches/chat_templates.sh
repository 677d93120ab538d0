#!/bin/bash
# Chat templates of published models, as PyPI's trl ships them, against transformers: texts and ids.
#
#     benches/chat_templates.sh PYTHON [cargo test's arguments]     # a Python with transformers 5.24 and jinja2 3.1.6
#
# 2026-11-29, trl 1.16.0: 428 of 432 texts are the same; of the others (LFM2's, a call of a tool without content) transformers makes
# an error of an undefined value, so that the test ends with these four.
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
