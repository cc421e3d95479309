#!/usr/bin/env bash
# Creates what must exist before the first deployment: APIs, buckets, the image registry, an account for each build, and a settings file.
# It reads the project's quotas first and creates nothing if one is too small, unless it is told to skip them. Running it again changes
# nothing that exists.
#
# With --cells-project, agents' clusters get a project without the control plane.
#
#   terraform/bootstrap.sh [--skip-quotas] [--cells-project=ID] PROJECT_ID [REGION] [ENVIRONMENT]
set -euo pipefail
cd "$(dirname "$0")"

usage() { echo "usage: $0 [--skip-quotas] [--cells-project=ID] PROJECT_ID [REGION] [ENVIRONMENT]" >&2; exit 2; }
skip='' cells=''
while [[ ${1:-} == -* ]]; do
	case $1 in
		--skip-quotas) skip=1 ;;
		--cells-project=?*) cells=${1#*=} ;;
		*) usage ;;
	esac
	shift
done
[ $# -ge 1 ] || usage
project=$1 region=${2:-us-central1} environment=${3:-prod}
[[ $environment =~ ^[a-z][a-z0-9]{1,7}$ ]] ||
	{ echo "ENVIRONMENT must have 2 to 8 lowercase letters and digits and begin with a letter: $environment" >&2; exit 2; }
state=$project-$environment-terraform
builds=$project-$environment-builds
smoke_key=$environment-smoke-api-key
[ -e terraform.tfvars ] || ! gcloud --project="$project" --quiet storage cp "gs://$state/settings/terraform.tfvars" . 2>/dev/null ||
	echo "terraform/terraform.tfvars: those of the last deployment"
# Settings of another deployment would give this one's deployer the project of that one's cells.
if [ -e terraform.tfvars ]; then
	# shellcheck source=settings.sh
	. ./settings.sh
	for pair in "project_id $project" "region $region" "environment $environment"; do
		[ "$(setting "${pair% *}")" = "${pair#* }" ] ||
			{ echo "terraform/terraform.tfvars is not of ${pair#* }: see ${pair% *}. Nothing was created." >&2; exit 1; }
	done
	kept=$(setting cells_project)
	[ "${cells:-$kept}" = "$kept" ] || {
		echo "terraform/terraform.tfvars has cells_project = \"$kept\", and not $cells. Nothing was created. Before the first deployment," \
			"delete the file and run this again; afterward, the project of the cells cannot change." >&2
		exit 1
	}
	cells=$kept
fi

say() { printf '  %s\n' "$*"; }
# gc runs gcloud in the project; has reports whether a resource exists.
gc() { gcloud --project="$project" --quiet "$@"; }
has() { gc "$@" >/dev/null 2>&1; }
# grant repeats a grant, because IAM knows a new account only after some seconds.
grant() {
	local try
	for try in 1 2 3 4 5 6; do
		gc "$@" >/dev/null && return
		[ "$try" -lt 6 ] || return 1
		sleep 10
	done
}
email() { echo "$environment-$1@$project.iam.gserviceaccount.com"; }
account() {
	say "account: $(email "$1")"
	has iam service-accounts describe "$(email "$1")" || gc iam service-accounts create "$environment-$1" --display-name="$2"
}
# on_project, on_cells, on_bucket and on_registry grant a role to an account.
on_project() { grant projects add-iam-policy-binding "$project" --member="serviceAccount:$(email "$1")" --role="$2" --condition=None; }
on_cells() { grant projects add-iam-policy-binding "$cells" --member="serviceAccount:$(email "$1")" --role="$2" --condition=None; }
on_bucket() { grant storage buckets add-iam-policy-binding "gs://$2" --member="serviceAccount:$(email "$1")" --role="$3"; }
on_registry() {
	grant artifacts repositories add-iam-policy-binding "$environment" --location="$region" \
		--member="serviceAccount:$(email "$1")" --role="$2"
}
# budgets_role creates the role of budgets in a project. One that was deleted exists for some weeks and cannot be granted.
budgets_role() {
	local name=${environment}_budgets deleted
	deleted=$(gcloud --project="$1" --quiet iam roles describe "$name" --format='value(deleted)' 2>/dev/null) || {
		gcloud --project="$1" --quiet iam roles create "$name" --title="$environment budgets" \
			--permissions=billing.resourcebudgets.read,billing.resourcebudgets.write,resourcemanager.projects.get >/dev/null
		return
	}
	[ "$deleted" != True ] || gcloud --project="$1" --quiet iam roles undelete "$name" >/dev/null
}
bucket() {
	say "bucket: $1"
	has storage buckets describe "gs://$1" ||
		gc storage buckets create "gs://$1" --location="$region" --uniform-bucket-level-access --public-access-prevention
}

number=$(gc projects describe "$project" --format='value(projectNumber)') ||
	{ echo "project $project does not exist, or $(gcloud config get-value account) has no access to it" >&2; exit 1; }

cells_number=
[ -z "$cells" ] || cells_number=$(gc projects describe "$cells" --format='value(projectNumber)') ||
	{ echo "project $cells does not exist, or $(gcloud config get-value account) has no access to it" >&2; exit 1; }

say "APIs"
gc services enable \
	artifactregistry.googleapis.com billingbudgets.googleapis.com certificatemanager.googleapis.com cloudbuild.googleapis.com \
	cloudquotas.googleapis.com cloudresourcemanager.googleapis.com cloudscheduler.googleapis.com cloudtrace.googleapis.com \
	compute.googleapis.com container.googleapis.com
gc services enable \
	containerfilesystem.googleapis.com dns.googleapis.com firestore.googleapis.com gkebackup.googleapis.com iam.googleapis.com \
	iamcredentials.googleapis.com logging.googleapis.com monitoring.googleapis.com orgpolicy.googleapis.com pubsub.googleapis.com run.googleapis.com \
	secretmanager.googleapis.com serviceusage.googleapis.com storage.googleapis.com

[ -z "$cells" ] || gcloud --project="$cells" --quiet services enable \
	certificatemanager.googleapis.com cloudquotas.googleapis.com cloudresourcemanager.googleapis.com compute.googleapis.com \
	container.googleapis.com containerfilesystem.googleapis.com gkebackup.googleapis.com iam.googleapis.com \
	iamcredentials.googleapis.com logging.googleapis.com monitoring.googleapis.com serviceusage.googleapis.com

say "quotas"
# What this environment has in use already counts as available.
free=(--free)
! has storage buckets describe "gs://$state" || free=()
CELLS_PROJECT=$cells ./quotas.sh ${free[@]+"${free[@]}"} "$project" "$region" || [ -n "$skip" ] || {
	echo "Raise these quotas and run this again, or run it with --skip-quotas. Nothing was created." >&2
	exit 1
}

# An organization's policy may refuse what a deployment needs. README.md says what each is about.
say "policies of the organization"
for constraint in iam.allowedPolicyMemberDomains run.managed.requireInvokerIam run.allowedIngress gcp.resourceLocations; do
	rules=$(gc org-policies describe "$constraint" --effective --format='value(spec.rules)') || rules=unknown
	[ -z "$rules" ] || say "LOOK at $constraint: $rules"
done

say "Pub/Sub service agent"
gc beta services identity create --service=pubsub.googleapis.com >/dev/null

# The state bucket also has the source of the deployment. The builder, which runs tests and their libraries, has no access to it.
bucket "$state"
# Settings that could not be read above may be there: a template would take their place, and the project of the cells may be another one.
kept=''
[ -e terraform.tfvars ] ||
	kept=$(gc storage objects list "gs://$state/settings/terraform.tfvars" --format='csv[no-heading](name,noncurrent_time)' | sed -n 's/,$//p')
[ -z "$kept" ] || { echo "gs://$state/settings has the settings of the last deployment, and they could not be read. Run this again." >&2; exit 1; }
gc storage buckets update "gs://$state" --versioning --lifecycle-file=build/lifecycle-state.json >/dev/null
# Without the revisions that serve, the next deployment would direct the traffic to its own before it tests them.
has storage objects describe "gs://$state/releases/serving" ||
	printf '{}\n' | gc storage cp - "gs://$state/releases/serving" --if-generation-match=0
bucket "$builds"
gc storage buckets update "gs://$builds" --lifecycle-file=build/lifecycle-builds.json >/dev/null

# No policy cleans up the registry: agents run the images of their last change, and restarts would not find a deleted one.
say "image registry: $environment"
has artifacts repositories describe "$environment" --location="$region" ||
	gc artifacts repositories create "$environment" --location="$region" --repository-format=docker --description="Images of the control plane"

# The builder may read the source of its builds, add a release to the bucket, and push to the registry. It cannot replace a release.
account builder "Tests and builds the control plane"
on_project builder roles/logging.logWriter
on_bucket builder "$builds" roles/storage.objectViewer
on_bucket builder "$builds" roles/storage.objectCreator
on_registry builder roles/artifactregistry.writer

# The deployer is in effect the owner of the project: it grants roles, edits custom roles, acts as every service account and reads every
# secret. So nothing but Terraform, kubectl and apply-cells.sh runs as this account. A condition on the roles that it may grant would hold
# nothing back: it edits the custom roles among them, and may give itself any permission through one.
account deployer "Deploys the control plane"
for role in certificatemanager.owner cloudscheduler.admin compute.admin container.admin datastore.owner dns.admin gkebackup.admin \
	iam.roleAdmin iam.serviceAccountAdmin iam.serviceAccountUser logging.configWriter logging.logWriter monitoring.editor pubsub.admin \
	resourcemanager.projectIamAdmin run.admin secretmanager.admin serviceusage.serviceUsageConsumer; do
	on_project deployer "roles/$role"
done
on_bucket deployer "$state" roles/storage.admin
on_registry deployer roles/artifactregistry.reader
# A budget of one project needs rights on this project only, and none on the billing account.
budgets_role "$project"
on_project deployer "projects/$project/roles/${environment}_budgets"

# It is in effect the owner of the project of the cells, too, where it can read no secret and no record.
if [ -n "$cells" ]; then
	say "project of the cells: $cells"
	on_project deployer roles/monitoring.metricsScopesAdmin
	for role in certificatemanager.owner compute.admin container.admin gkebackup.admin iam.roleAdmin iam.serviceAccountAdmin \
		iam.serviceAccountUser logging.configWriter monitoring.editor monitoring.metricsScopesAdmin resourcemanager.projectIamAdmin \
		serviceusage.serviceUsageConsumer; do
		on_cells deployer "roles/$role"
	done
	budgets_role "$cells"
	on_cells deployer "projects/$cells/roles/${environment}_budgets"
fi

say "API key of the smoke test: $smoke_key"
has secrets describe "$smoke_key" || gc secrets create "$smoke_key" --replication-policy=automatic
# A run that ended here has left no version, and the smoke test does not start without one.
versions=$(gc secrets versions list "$smoke_key" --limit=1 --format='value(name)')
[ -n "$versions" ] || printf none | gc secrets versions add "$smoke_key" --data-file=-
account smoke "Tests deployments from outside"
on_project smoke roles/logging.logWriter
on_bucket smoke "$builds" roles/storage.objectViewer
grant secrets add-iam-policy-binding "$smoke_key" --member="serviceAccount:$(email smoke)" --role=roles/secretmanager.secretAccessor

say "settings: terraform/backend.tf, terraform/terraform.tfvars"
[ -e backend.tf ] || cat >backend.tf <<BACKEND
terraform {
  backend "gcs" {
    bucket = "$state"
    prefix = "$environment"
  }
}
BACKEND
[ -e terraform.tfvars ] || cat >terraform.tfvars <<SETTINGS
project_id     = "$project"
project_number = "$number"
region         = "$region"
environment    = "$environment"

# Clusters of agents. Their names and numbers cannot change later.
cells = { "$region-1" = { number = 1, region = "$region" } }

# Project of the agents' clusters. It cannot change later.
cells_project        = "$cells"
cells_project_number = "$cells_number"

# Issuer of session tokens, exactly as in their iss claim.
identity_issuer = ""

# OAuth client of the console at that issuer; terraform/README.md says what to register. Without one, people paste keys into the console.
# console_client_id = ""

# Where people reach support, for the console: an address such as mailto:support@example.com.
# support_url = ""

# Parent domain of agents' hostnames, below another registered domain than the API and the web app.
agent_domain = ""

# Image of agents, by digest. Without one, agents run the sample agent.
# agent_image  = ""

# Domain of the API. Without one, the API is at the address of a Cloud Run service.
# domain       = ""
# alert_emails = []

# Billing account of the budget.
# billing_account = ""
# monthly_budget  = 500
SETTINGS

cat <<NEXT

Fill in terraform/terraform.tfvars. Then:

  terraform/deploy.sh $project $region $environment
NEXT
