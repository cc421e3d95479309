#!/usr/bin/env bash
# Pins what the builds run: the Google provider by checksum in .terraform.lock.hcl, and the builds' images by digest in build/images.lock.
# Run it after each change of versions.tf or build/images, and commit what it writes. It needs Terraform and Go.
#
#   terraform/lock.sh
set -euo pipefail
cd "$(dirname "$0")"

for command in terraform go; do
	command -v "$command" >/dev/null || { echo "$command is not installed, and lock.sh needs it" >&2; exit 1; }
done

lock=$(mktemp)
trap 'rm -f "$lock"' EXIT
while read -r name image; do
	case $name in '' | '#'*) continue ;; esac
	digest=$(go tool -modfile=../.ci/image/go.mod crane digest "$image")
	echo "$name=$image@$digest" >>"$lock"
done <build/images
cp "$lock" build/images.lock

# Builds run on linux_amd64. The others are for operators who read outputs on their machines.
terraform providers lock -platform=linux_amd64 -platform=linux_arm64 -platform=darwin_amd64 -platform=darwin_arm64
