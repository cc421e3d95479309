#!/usr/bin/env bash
# Deploys what is in this directory: three builds, each with the rights of one account. The first that fails ends it.
#
#   1. cloudbuild.yaml              runs the tests and pushes the image
#   2. terraform/build/deploy.yaml  plans and applies, in the project and in the clusters
#   3. terraform/build/smoke.yaml   tests the deployment from outside
#
#   terraform/deploy.sh [--skip-quotas] [--image=IMAGE | --smoke=RELEASE] PROJECT_ID [REGION] [ENVIRONMENT]
#
# --image deploys an image that was built before, and skips the first build. --smoke runs only the third, for a release that is deployed.
# BUILD_REGION is where builds run, and BUILD_MACHINE is the machine of the first build.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "usage: terraform/deploy.sh [--skip-quotas] [--image=IMAGE | --smoke=RELEASE] PROJECT_ID [REGION] [ENVIRONMENT]" >&2; exit 2; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

image='' release='' skip=''
while [[ ${1:-} == -* ]]; do
	case $1 in
		--image=?*) image=${1#*=} ;;
		--smoke=?*) release=${1#*=} ;;
		--skip-quotas) skip=1 ;;
		*) usage ;;
	esac
	shift
done
[ $# -ge 1 ] || usage
project=$1 region=${2:-us-central1} environment=${3:-prod}
state=$project-$environment-terraform
builds=$project-$environment-builds

gc() { gcloud --project="$project" --quiet "$@"; }
# submit runs a build as an account, with a source that is staged in a bucket this account can read.
submit() {
	local config=$1 account=$2 staging=$3 source=$4 substitutions=$5
	shift 5
	printf '\n== %s as %s\n' "$config" "$environment-$account"
	gc beta builds submit "$source" --config="$config" --region="${BUILD_REGION:-global}" --gcs-source-staging-dir="gs://$staging" \
		--service-account="projects/$project/serviceAccounts/$environment-$account@$project.iam.gserviceaccount.com" \
		--substitutions="_ENVIRONMENT=$environment,$substitutions" "$@"
}
# setting prints the value of a setting that is a text.
setting() { sed -n "s/^$1[[:space:]]*=[[:space:]]*\"\(.*\)\".*/\1/p" terraform/terraform.tfvars; }
# pinned prints an image of the builds with its digest.
pinned() { sed -n "s/^$1=//p" terraform/build/images.lock; }

for file in terraform.tfvars backend.tf; do
	[ -e "terraform/$file" ] || fail "terraform/$file is missing: run terraform/bootstrap.sh $project $region $environment"
done
for pair in "project_id $project" "region $region" "environment $environment"; do
	[ "$(setting "${pair% *}")" = "${pair#* }" ] || fail "terraform/terraform.tfvars is not of ${pair#* }: see ${pair% *}"
done
grep -q "\"$state\"" terraform/backend.tf || fail "terraform/backend.tf does not name the bucket $state"
for name in identity_issuer agent_domain; do
	[ -n "$(setting $name)" ] || fail "set $name in terraform/terraform.tfvars"
done
case $(setting identity_issuer) in
	https://securetoken.google.com/*) gc services enable identitytoolkit.googleapis.com ;;
esac
if [ -z "$skip$release" ]; then
	echo "quotas"
	terraform/quotas.sh "$project" "$region" || fail "Raise these quotas, or deploy with --skip-quotas."
fi
if [ ! -e terraform/.terraform.lock.hcl ] || [ ! -e terraform/build/images.lock ]; then
	terraform/lock.sh
fi

if [ -z "$release" ]; then
	release=$(date -u +%Y%m%d-%H%M%S)
	if [ -z "$image" ]; then
		submit cloudbuild.yaml builder "$builds/source" . \
			"_REGION=$region,_RELEASE=$release,_GO=$(pinned _GO),_CLOUD_SDK=$(pinned _CLOUD_SDK)" \
			${BUILD_MACHINE:+"--machine-type=$BUILD_MACHINE"}
		image=$(gc storage cat "gs://$builds/releases/$release/image")
	fi
	# The first build runs libraries of others. What it says becomes an argument of the second one.
	[[ $image =~ ^$region-docker\.pkg\.dev/$project/$environment/controlplane@sha256:[0-9a-f]{64}$ ]] ||
		fail "this is no image of the registry $environment by digest: $image"
	submit terraform/build/deploy.yaml deployer "$state/source" . \
		"_RELEASE=$release,_IMAGE=$image,_TERRAFORM=$(pinned _TERRAFORM),_CLOUD_SDK=$(pinned _CLOUD_SDK)"
fi

url='' address='' certificate=''
while read -r key value; do
	case $key in
		url) url=$value ;;
		address) address=$value ;;
		certificate) certificate=$value ;;
	esac
done < <(gc storage cat "gs://$state/releases/$release/deployment")
[ -n "$url" ] || fail "release $release was not deployed"
printf '\n== left to do\n'
gc storage cat "gs://$state/releases/$release/next"

if grep -Eq '^maintenance[[:space:]]*=[[:space:]]*true' terraform/terraform.tfvars; then
	printf '\nRelease %s is deployed. It was not tested: maintenance is on, so %s refuses calls.\n' "$release" "$url"
	exit 0
fi
if [ -n "$certificate" ]; then
	status=$(gc certificate-manager certificates describe "$certificate" --format='value(managed.state)')
	if [ "$status" != ACTIVE ]; then
		printf '\nRelease %s is deployed. It was not tested: the certificate of %s is %s until the records above exist.\n' \
			"$release" "$url" "${status:-not issued}"
		printf 'Test it then:\n\n  terraform/deploy.sh --smoke=%s %s %s %s\n' "$release" "$project" "$region" "$environment"
		exit 0
	fi
fi
submit terraform/build/smoke.yaml smoke "$builds/smoke" . "_URL=$url,_GO=$(pinned _GO)${address:+,_ADDRESS=$address}" \
	--ignore-file=terraform/build/smoke.ignore
printf '\nRelease %s is deployed and tested: %s\n' "$release" "$url"
