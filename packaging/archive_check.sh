#!/usr/bin/env bash
# archive.sh: what is promised is in it, the program in it runs, and a second archive has the same bytes.
#
#   archive_check.sh PROGRAM
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
packaging/archive.sh "$program" check "$out/1"
packaging/archive.sh "$program" check "$out/2" >/dev/null
cmp "$out"/1/*.tar.gz "$out"/2/*.tar.gz
(cd "$out/1" && sha256sum --quiet --check ./*.sha256)
tar -C "$out" -xzf "$out"/1/*.tar.gz
cd "$out"/nsysnccl-*-check
for file in nsysnccl gate.sh README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT completions/nsysnccl.bash completions/_nsysnccl completions/nsysnccl.fish; do
    [ -s "$file" ] || { echo "$file is not in the archive" >&2; exit 1; }
done
# A command without a man page is a command that archive.sh does not know.
for command in $(./nsysnccl --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]\+\) .*/\1/p' | grep -vxE 'man|help'); do
    [ -s "man/nsysnccl-$command.1" ] || { echo "$command has no man page in the archive" >&2; exit 1; }
done
bash -n completions/nsysnccl.bash
[ "$(./nsysnccl --version)" = "$("$program" --version)" ]
