#!/usr/bin/env bash
# Creates what must exist before the first deployment: APIs, the state bucket, the image registry, the deployer's service account, and a
# settings file. Running it again changes nothing that exists.
#
#   terraform/bootstrap.sh PROJECT_ID [REGION] [ENVIRONMENT]
set -euo pipefail
cd "$(dirname "$0")"

[ $# -ge 1 ] || { echo "usage: $0 PROJECT_ID [REGION] [ENVIRONMENT]" >&2; exit 2; }
project=$1 region=${2:-us-central1} environment=${3:-prod}
bucket=$project-$environment-terraform
deployer=$environment-deployer@$project.iam.gserviceaccount.com
smoke=$environment-smoke-api-key

say() { printf '  %s\n' "$*"; }
# gc runs gcloud in the project; has reports whether a resource exists.
gc() { gcloud --project="$project" --quiet "$@"; }
has() { gc "$@" >/dev/null 2>&1; }

number=$(gc projects describe "$project" --format='value(projectNumber)') ||
	{ echo "project $project does not exist, or $(gcloud config get-value account) has no access to it" >&2; exit 1; }

say "APIs"
gc services enable \
	artifactregistry.googleapis.com billingbudgets.googleapis.com certificatemanager.googleapis.com cloudbuild.googleapis.com \
	cloudresourcemanager.googleapis.com containerfilesystem.googleapis.com cloudscheduler.googleapis.com cloudtrace.googleapis.com compute.googleapis.com \
	container.googleapis.com dns.googleapis.com firestore.googleapis.com gkebackup.googleapis.com iam.googleapis.com iamcredentials.googleapis.com \
	logging.googleapis.com monitoring.googleapis.com pubsub.googleapis.com run.googleapis.com secretmanager.googleapis.com

say "Pub/Sub service agent"
gc beta services identity create --service=pubsub.googleapis.com >/dev/null

say "state bucket: $bucket"
has storage buckets describe "gs://$bucket" ||
	gc storage buckets create "gs://$bucket" --location="$region" --uniform-bucket-level-access --public-access-prevention
gc storage buckets update "gs://$bucket" --versioning >/dev/null

say "image registry: $environment"
has artifacts repositories describe "$environment" --location="$region" ||
	gc artifacts repositories create "$environment" --location="$region" --repository-format=docker --description="Images of the control plane"

say "deployer: $deployer"
has iam service-accounts describe "$deployer" ||
	gc iam service-accounts create "$environment-deployer" --display-name="Deploys the control plane"
for role in artifactregistry.writer certificatemanager.owner cloudscheduler.admin compute.admin container.admin datastore.owner dns.admin \
	gkebackup.admin iam.roleAdmin iam.serviceAccountAdmin iam.serviceAccountUser logging.configWriter logging.logWriter monitoring.editor pubsub.admin \
	resourcemanager.projectIamAdmin run.admin secretmanager.admin serviceusage.serviceUsageConsumer; do
	gc projects add-iam-policy-binding "$project" --member="serviceAccount:$deployer" --role="roles/$role" --condition=None >/dev/null
done
gc storage buckets add-iam-policy-binding "gs://$bucket" --member="serviceAccount:$deployer" --role=roles/storage.admin >/dev/null

say "API key of the smoke test: $smoke"
if ! has secrets describe "$smoke"; then
	gc secrets create "$smoke" --replication-policy=automatic
	printf none | gc secrets versions add "$smoke" --data-file=-
fi

say "settings: terraform/backend.tf, terraform/terraform.tfvars"
[ -e backend.tf ] || cat >backend.tf <<BACKEND
terraform {
  backend "gcs" {
    bucket = "$bucket"
    prefix = "$environment"
  }
}
BACKEND
[ -e terraform.tfvars ] || cat >terraform.tfvars <<SETTINGS
project_id     = "$project"
project_number = "$number"
region         = "$region"
environment    = "$environment"

# Issuer of session tokens, exactly as in their iss claim.
identity_issuer = ""

# Parent domain of agents' hostnames.
agent_domain = ""

# Image of agents, by digest. Without one, agents run the sample agent.
# agent_image  = ""

# Domain of the API. Without one, the API is at the address of a Cloud Run service.
# domain       = ""
# alert_emails = []
SETTINGS

cat <<NEXT

Fill in terraform/terraform.tfvars. Then:

  gcloud builds submit --project=$project --region=$region --gcs-source-staging-dir=gs://$bucket/source \\
    --service-account=projects/$project/serviceAccounts/$deployer \\
    --substitutions=_REGION=$region,_ENVIRONMENT=$environment
NEXT
