#!/usr/bin/env bash
# Deploys what is in this directory: four builds, each with the rights of one account. The first that fails ends it.
#
#   1. cloudbuild.yaml              runs the tests and pushes the image
#   2. terraform/build/deploy.yaml  plans and applies, in the project and in the clusters; the former revisions keep the traffic
#   3. terraform/build/smoke.yaml   tests the new revision from outside
#   4. terraform/build/serve.yaml   directs the traffic to the new revisions
#
#   terraform/deploy.sh [OPTION]... PROJECT_ID [REGION] [ENVIRONMENT]
#
#   --image=IMAGE      deploy an image that was built before, and skip the first build
#   --smoke=RELEASE    run only the third build and the fourth, for a release that is deployed
#   --serve=RELEASE    run only the fourth build: go back to a release that was in service
#   --settings=NUMBER  use settings that differ from those of the last deployment; the difference is printed with its number
#   --allow=ADDRESS    let Terraform destroy or replace this resource; ADDRESS* stands for all that begin with it
#   --skip-quotas      do not compare the project's quotas with what the deployment needs
#
# BUILD_REGION is where builds run, and BUILD_MACHINE is the machine of the first build.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { { echo usage: && sed -n '/^#   terraform\/deploy/,/^#   --skip/s/^# *//p' terraform/deploy.sh; } >&2; exit 2; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

image='' release='' skip='' only='' accepted='' allow=()
while [[ ${1:-} == -* ]]; do
	case $1 in
		--image=?*) image=${1#*=} ;;
		--smoke=?*) only=smoke release=${1#*=} ;;
		--serve=?*) only=serve release=${1#*=} ;;
		--settings=?*) accepted=${1#*=} ;;
		--allow=?*) allow+=("${1#*=}") ;;
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
# shellcheck source=settings.sh
. terraform/settings.sh
# pinned prints an image of the builds with its digest.
pinned() { sed -n "s/^$1=//p" terraform/build/images.lock; }

# outdated reports whether images.lock lacks an image that build/images names, or .terraform.lock.hcl the provider that versions.tf names,
# because a release has raised it since. Without the locks in the repository, the settings of the last deployment have them.
outdated() {
	local name image
	while read -r name image; do
		case $name in '' | '#'*) continue ;; esac
		[[ $(pinned "$name") == "$image@"* ]] || return 0
	done <terraform/build/images
	[ "$(sed -n 's/^ *constraints *= *//p' terraform/.terraform.lock.hcl)" != "$(sed -n 's/^ *version *= *//p' terraform/versions.tf)" ]
}

# in_service prints the releases in the record of the traffic, the newest last. More than one is a mixture made by hand.
in_service() {
	local record
	record=$(gc storage cat "gs://$state/releases/serving") || return
	grep -oE '[0-9]{8}-[0-9]{6}' <<<"$record" | sort -u || true
}

# unknown ends a deployment that cannot read the record: its release may be older than what serves.
unknown() { fail "What is in service could not be read, and the traffic stays where it is. Go on with --smoke=$release."; }

# closed reports whether an earlier release has the traffic and refuses all calls, as when a maintenance ends. Its workers would bring up no
# agent of a test. A release from before the maintenance gets no traffic untested.
closed() {
	local names name text
	names=$(in_service) || unknown
	for name in $names; do
		[[ $name < $release ]] || continue
		text=$(gc storage cat "gs://$state/releases/$name/deployment") || unknown
		! grep -qx 'maintenance on' <<<"$text" || return 0
	done
	return 1
}

# served says which releases have the traffic, after a build that failed.
served() {
	local names
	names=$(in_service) || { echo "What is in service could not be read."; return; }
	names=$(paste -sd ' ' - <<<"$names")
	echo "In service: ${names:-no release that was tested, so that the newest revisions have the traffic}."
}

# ongoing prints the releases that the second build deploys now. It may be of another operator, or of a script that died.
ongoing() {
	gc builds list --ongoing --region="${BUILD_REGION:-global}" --format='value(substitutions._RELEASE)' \
		--filter="substitutions._ENVIRONMENT=$environment AND substitutions._IMAGE:*"
}

# deployed prints a number of the settings and of what the second build runs. An operator may work on while the tests run.
deployed() {
	local files=(terraform infra/firestore/indexes.json shared/plan/plans.json)
	{ cat terraform/terraform.tfvars; git rev-parse "${files[@]/#/HEAD:}"; git diff HEAD -- "${files[@]}"; } 2>&1 | cksum || true
}

# clients_version prints the version of the clients: the time of the commit, or the present time for sources that no commit has. The
# files of a deployment are no sources of them, and a working copy that deploys has them.
clients_version() {
	local at='' kept
	kept=(terraform.tfvars backend.tf .terraform.lock.hcl build/images.lock restored.json)
	[ -n "$(git status --porcelain -- . "${kept[@]/#/:(exclude)terraform/}" 2>&1)" ] || at=$(TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y%m%d.%H%M%S)
	at=${at:-$(date -u +%Y%m%d.%H%M%S)}
	echo "1.${at%.*}.$((10#${at#*.}))"
}

# The settings of the last deployment are in the state bucket. A working copy without settings takes them.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
settings=gs://$state/settings
# A list has former generations, too. It is empty without settings, and fails if they cannot be read.
generation=$(gc storage objects list "$settings/terraform.tfvars" --format='csv[no-heading](generation,noncurrent_time)' | sed -n 's/,$//p')
generation=${generation:-0}
if [ "$generation" != 0 ]; then
	files=(terraform.tfvars backend.tf .terraform.lock.hcl build/images.lock)
	# A first deployment that ended between its uploads has kept only the settings.
	stored=$(gc storage ls "$settings/")
	kept=()
	for file in "${files[@]}"; do
		[[ $'\n'$stored$'\n' != *$'\n'"$settings/${file##*/}"$'\n'* ]] || kept+=("$settings/${file##*/}")
	done
	gc storage cp "${kept[@]}" "$work/"
	for file in "${files[@]}"; do
		[ -e "terraform/$file" ] || [ ! -e "$work/${file##*/}" ] ||
			{ echo "terraform/$file: taken from $settings"; cp "$work/${file##*/}" "terraform/$file"; }
	done
fi
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
if [ -z "$only" ] && [ "$generation" != 0 ] && ! cmp -s "$work/terraform.tfvars" terraform/terraform.tfvars; then
	number=$(cat "$work/terraform.tfvars" terraform/terraform.tfvars | cksum | cut -d' ' -f1)
	if [ "$accepted" != "$number" ]; then
		diff -U1 -L "last deployment" -L terraform/terraform.tfvars "$work/terraform.tfvars" terraform/terraform.tfvars >&2 || true
		fail "" "These settings are not those of the last deployment. If all of the difference is yours, deploy with --settings=$number." \
			"If not, delete terraform/terraform.tfvars, and the next run takes those of the last deployment."
	fi
fi
case $(setting identity_issuer) in
	https://securetoken.google.com/*) gc services enable identitytoolkit.googleapis.com ;;
esac
if [ -z "$skip$only" ]; then
	echo "quotas"
	terraform/quotas.sh "$project" "$region" || fail "Raise these quotas, or deploy with --skip-quotas."
fi
if [ ! -e terraform/.terraform.lock.hcl ] || [ ! -e terraform/build/images.lock ]; then
	echo "Versions are not pinned yet: terraform/lock.sh asks the registries for what is current. Commit what it writes."
	terraform/lock.sh
elif [ -z "$only" ] && outdated; then
	echo "This release names other versions than the last deployment had: terraform/lock.sh pins them."
	terraform/lock.sh
fi

if [ -z "$only" ]; then
	began=$(deployed)
	release=$(date -u +%Y%m%d-%H%M%S)
	if [ -z "$image" ]; then
		submit cloudbuild.yaml builder "$builds/source" . \
			"_REGION=$region,_RELEASE=$release,_CLIENTS=$(clients_version),_GO=$(pinned _GO),_CLOUD_SDK=$(pinned _CLOUD_SDK)" \
			${BUILD_MACHINE:+"--machine-type=$BUILD_MACHINE"}
		image=$(gc storage cat "gs://$builds/releases/$release/image")
	fi
	# The first build runs libraries of others. What it says becomes an argument of the second one.
	[[ $image =~ ^$region-docker\.pkg\.dev/$project/$environment/controlplane@sha256:[0-9a-f]{64}$ ]] ||
		fail "this is no image of the registry $environment by digest: $image"
	# Terraform's lock ends before the build applies the objects of the cells. Of two builds that do so, the older one could end last.
	while :; do
		other=$(ongoing)
		[ -n "$other" ] || break
		echo "Waiting for the deployment of release $other, which runs."
		sleep 60
	done
	[ "$(deployed)" = "$began" ] ||
		fail "The settings, or the files of Terraform, have changed since this deployment began. Look at them, check out the commit of the image," \
			"and deploy it with --image=$image."
	# Of two deployments with different settings, the second one fails here: the object has another generation, or other settings than
	# those which this one would take back.
	if cmp -s "$work/terraform.tfvars" terraform/terraform.tfvars; then
		gc storage cp "$settings/terraform.tfvars" "$work/"
		cmp -s "$work/terraform.tfvars" terraform/terraform.tfvars ||
			fail "The settings of the last deployment have changed since this one began. Run it again: it shows the difference."
	else
		gc storage cp terraform/terraform.tfvars "$settings/terraform.tfvars" --if-generation-match="$generation"
	fi
	gc storage cp terraform/backend.tf terraform/.terraform.lock.hcl terraform/build/images.lock "$settings/"
	printf '%s\n' ${allow[@]+"${allow[@]}"} >"$work/allowed"
	# Of two deployments that began in the same second, and so have the same name, the second one ends here.
	gc storage cp "$work/allowed" "gs://$state/releases/$release/allowed" --if-generation-match=0
	submit terraform/build/deploy.yaml deployer "$state/source" . \
		"_REGION=$region,_RELEASE=$release,_IMAGE=$image,_TERRAFORM=$(pinned _TERRAFORM),_CLOUD_SDK=$(pinned _CLOUD_SDK)" ||
		fail "Release $release was not deployed. $(served) If the build did not end its step traffic, because it was canceled or that" \
			"step failed, services may serve another one: direct the traffic to it again with --serve=RELEASE."
fi

base_url='' api_address='' api_certificate='' candidate_url='' maintenance=''
while read -r key value; do
	case $key in base_url | api_address | api_certificate | candidate_url | maintenance) printf -v "$key" %s "$value" ;; esac
done < <(gc storage cat "gs://$state/releases/$release/deployment")
[ -n "$base_url" ] || fail "release $release was not deployed"
printf '\n== left to do\n'
gc storage cat "gs://$state/releases/$release/next"

# Of a release that was deployed for a maintenance there is nothing to test, and what refuses calls gets the traffic. Another release is
# tested even if the settings have a maintenance since.
if [ -n "$api_certificate" ] && [ -z "$maintenance" ] && [ "$only" != serve ]; then
	status=$(gc certificate-manager certificates describe "$api_certificate" --format='value(managed.state)')
	if [ "$status" != ACTIVE ]; then
		printf '\nRelease %s is deployed. It was not tested: the certificate of %s is %s until the records above exist.\n' \
			"$release" "$base_url" "${status:-not issued}"
		printf 'Test it then:\n\n  terraform/deploy.sh --smoke=%s %s %s %s\n' "$release" "$project" "$region" "$environment"
		exit 0
	fi
fi
address=${api_address:+,_ADDRESS=$api_address}
# smoke runs the test.
smoke() {
	submit terraform/build/smoke.yaml smoke "$builds/smoke" . "_RELEASE=$release,_URL=$candidate_url,_GO=$(pinned _GO)$address" \
		--ignore-file=terraform/build/smoke.ignore
}
before='' after='' newest=''
if [ -z "$maintenance" ] && [ "$only" != serve ]; then
	if closed; then after=1; else before=1; fi
fi
[ -z "$before" ] || smoke || fail "Release $release failed its test. The traffic stays where it was. $(served)"
[ -n "$only" ] || newest=$(in_service) || unknown
newest=${newest##*$'\n'}
[ -n "$only" ] || [[ ! $newest > $release ]] ||
	fail "Release $newest is newer than $release, and in service since the test of $release. Nothing was changed. If $release must replace" \
		"it, direct the traffic with --serve=$release."
submit terraform/build/serve.yaml deployer "$state/source" . \
	"_RELEASE=$release,_REGION=$region,_URL=$base_url,_CLOUD_SDK=$(pinned _CLOUD_SDK)$address" ||
	fail "The traffic was not directed whole, or the API is not answered by release $release. $(served) Repeat it with --serve=RELEASE."
[ -z "$after" ] || smoke ||
	fail "Release $release failed its test. It has the traffic, because what served before refuses all calls. $(served)"
printf '\nRelease %s is in service: %s\n' "$release" "$base_url"
