#!/bin/sh
# Install this tree into .venv with extras (install.sh parquet), in the versions that constraints.txt names.
#
# uv does it in a quarter of pip's time. It reads none of pip's settings, an index of one's own among them. So where it fails, pip tries.
# Bytecode is compiled at once: tests make errors of the warnings that compiling some packages gives.
# A person sees the large packages come, and all that was said if neither succeeds.
set -u
said=$(mktemp)
trap 'rm -f "$said"' EXIT
wanted="--constraint constraints.txt --editable .[$1]"
pip=".venv/bin/python -m pip install --disable-pip-version-check --progress-bar off"
# shellcheck disable=SC2086 # Words of the options.
with_uv() { $pip --quiet --constraint constraints.txt uv && .venv/bin/uv pip install --compile-bytecode --python .venv/bin/python $wanted; }
# shellcheck disable=SC2086
with_pip() { echo "uv could not; pip tries ..." && $pip $wanted; }
for way in with_uv with_pip; do
  { $way 2>&1 || echo failed; } | tee "$said" | awk '/^uv |Downloading .*[0-9][0-9][.][0-9]* ?Mi?B/ { print "  " $0; fflush() }'
  [ "$(tail -n 1 "$said")" = failed ] || exit 0
done
sed '$d' "$said" >&2
exit 1
