#!/usr/bin/env bash
# Directs the traffic of every service to the revision that a release made, and waits until the API's answers name one. RELEASES is the
# folder in the state bucket that has the release.
#
#   terraform/serve.sh RELEASES PROJECT_ID REGION RELEASE URL [ADDRESS]
#   terraform/serve.sh --after=WORKSPACE RELEASES PROJECT_ID REGION
#
# The file serving in RELEASES says which revisions have the traffic. It is written first and read again at the end: of two releases that
# are directed at the same time one serves whole, and Terraform, which another deployment runs, takes nothing away for good.
#
# With --after, the script repairs what terraform/apply.sh did in WORKSPACE, even if that failed: if another release has begun to serve
# since then, the traffic goes back to that one. It fails if the apply did.
set -euo pipefail

after='' wanted=5
[[ ${1-} != --after=?* ]] || { after=${1#*=} wanted=3; shift; }
[ $# -ge "$wanted" ] || { sed -n 's/^#   terraform/usage: terraform/p' "$0" >&2; exit 2; }
releases=$1 project=$2 region=$3 release=${4-} url=${5-} address=${6-}
fail() { printf '%s\n' "$*" >&2; exit 1; }
gc() { gcloud --project="$project" --quiet "$@"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# each runs a command for every service in a file of revisions: with $1 for the region, $2 for the service and $3 for its revision. It is
# for bash, because it runs several times in parallel.
each() {
	python3 -c 'import json, sys
for service, revision in json.load(open(sys.argv[1])).items():
	print(service, revision)' "$2" >"$work/services" || return
	[ ! -s "$work/services" ] ||
		xargs -P 8 -L 1 bash -c "gcloud --project=\"\$0\" --quiet run $1" "$project" "$region" <"$work/services"
}

if [ -n "$after" ]; then
	cp "$after/serving" "$work/directed"
else
	gc storage cp "$releases/$release/revisions" "$work/wanted"
	# shellcheck disable=SC2016
	each 'revisions describe "$3" --region="$1" --format="value(metadata.name)"' "$work/wanted" 2>"$work/errors" || {
		cat "$work/errors" >&2
		[[ $(<"$work/errors") == *'Cannot find revision'* ]] ||
			fail "The revisions of release $release could not be read, and nothing was changed. Repeat it with --serve=$release."
		fail "Release $release has no longer a revision of every service, and nothing was changed. Deploy its commit and its image."
	}
	gc storage cp "$work/wanted" "$releases/serving"
fi
gc storage cp "$releases/serving" "$work/serving"
until cmp -s "$work/directed" "$work/serving"; do
	cp "$work/serving" "$work/directed"
	# shellcheck disable=SC2016
	each 'services update-traffic "$2" --region="$1" --to-revisions="$3=100"' "$work/directed" ||
		fail "Not every service serves what $releases/serving names. Direct the traffic again with terraform/deploy.sh --serve=RELEASE."
	gc storage cp "$releases/serving" "$work/serving"
done
if [ -n "$after" ]; then
	[ -e "$after/applied" ] || fail "The step apply failed. What served before it serves."
	exit 0
fi
cmp -s "$work/wanted" "$work/serving" || fail "Another release was directed at the same time, and serves: $(cat "$work/serving")"

for ((attempt = 1; ; attempt++)); do
	answer=$(curl --silent --show-error --max-time 10 ${address:+--connect-to "::$address:443"} "$url/health/live" || true)
	case $answer in *"-$release-"*) break ;; esac
	[ "$attempt" -lt 15 ] || { echo "$url is not answered by release $release, but says: $answer" >&2; exit 1; }
	sleep 10
done
echo "$url is answered by release $release"
