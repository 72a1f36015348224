#!/usr/bin/env bash
# The archive of a release: program, man pages, completions, licences, README, the gate for CI. Prints its name and sizes.
#
#   archive.sh PROGRAM TARGET FOLDER     e.g. archive.sh target/release/nsysnccl x86_64-unknown-linux-gnu dist
#
# The same program makes the same bytes: times are those of the last commit (or SOURCE_DATE_EPOCH), owners are 0.
set -euo pipefail
if [ $# -ne 3 ]; then
    echo "usage: archive.sh PROGRAM TARGET FOLDER" >&2
    exit 2
fi
program=$(realpath "$1") target=$2
mkdir -p "$3"
folder=$(realpath "$3")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$("$program" --version | cut -d' ' -f2)
name=nsysnccl-$version-$target
at=$work/$name
mkdir -p "$at/man" "$at/completions"
install -m 755 "$program" "$at/nsysnccl"
strip "$at/nsysnccl"
"$program" man >"$at/man/nsysnccl.1"
for command in report compare trace inspect npkit doctor completions; do
    "$program" man "$command" >"$at/man/nsysnccl-$command.1"
done
"$program" completions bash >"$at/completions/nsysnccl.bash"
"$program" completions zsh >"$at/completions/_nsysnccl"
"$program" completions fish >"$at/completions/nsysnccl.fish"
install -m 644 README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$at"
install -m 755 packaging/gate.sh "$at/gate.sh"

# 20 MB is what an archive promises.
size=$(stat -c %s "$at/nsysnccl")
if [ "$size" -gt 20000000 ]; then
    echo "the program has $size bytes: more than 20,000,000" >&2
    exit 1
fi
time=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
archive=$folder/$name.tar.gz
tar -C "$work" --sort=name --mtime="@$time" --owner=0 --group=0 --numeric-owner --mode=go-w -cf "$work/$name.tar" "$name"
gzip -9n <"$work/$name.tar" >"$archive.part"
mv "$archive.part" "$archive"
(cd "$folder" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$archive: $(stat -c %s "$archive") bytes, the program $size"
