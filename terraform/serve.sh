#!/usr/bin/env bash
# Directs the traffic of every service to the revision that a release made, and waits until the API's answers name one. RELEASES is the
# folder in the state bucket that has the release.
#
#   terraform/serve.sh RELEASES PROJECT_ID REGION RELEASE URL [ADDRESS]
#   terraform/serve.sh --after=SERVING RELEASES PROJECT_ID REGION
#
# With --after, the script repairs what a deployment did that left the traffic with the revisions in the file SERVING: if another release
# has begun to serve since then, the traffic goes back to that one.
set -euo pipefail

after='' wanted=5
[[ ${1-} != --after=?* ]] || { after=${1#*=} wanted=3; shift; }
[ $# -ge "$wanted" ] || { sed -n 's/^#   terraform/usage: terraform/p' "$0" >&2; exit 2; }
releases=$1 project=$2 region=$3 release=${4-} url=${5-} address=${6-}
gc() { gcloud --project="$project" --quiet "$@"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
revisions=$releases/$release/revisions
[ -z "$after" ] || revisions=$releases/serving
gc storage cp "$revisions" "$work/revisions"
[ -z "$after" ] || [ "$(cat "$work/revisions")" != "$(cat "$after")" ] || exit 0
python3 -c 'import json, sys
for service, revision in json.load(open(sys.argv[1])).items():
	print(service, revision)' "$work/revisions" >"$work/services"

# direct is for bash, because it runs several times in parallel.
# shellcheck disable=SC2016
direct='gcloud --project="$0" --quiet run services update-traffic "$2" --region="$1" --to-revisions="$3=100"'
xargs -P 8 -L 1 bash -c "$direct" "$project" "$region" <"$work/services" || {
	echo "Not every service serves ${release:+release $release}${after:+what served}. Repeat this, or deploy the commit and the image of the release." >&2
	exit 1
}
[ -z "$after" ] || exit 0
# The next deployment leaves the traffic there until its own revisions are tested.
gc storage cp "$work/revisions" "$releases/serving"

for ((attempt = 1; ; attempt++)); do
	answer=$(curl --silent --show-error --max-time 10 ${address:+--connect-to "::$address:443"} "$url/health/live" || true)
	case $answer in *"-$release-"*) break ;; esac
	[ "$attempt" -lt 15 ] || { echo "$url is not answered by release $release, but says: $answer" >&2; exit 1; }
	sleep 10
done
echo "$url is answered by release $release"
