# Only Google's provider: whatever can't be said with it is either made before the first apply (bootstrap.sh) or lives inside a cluster and
# is rendered here and applied after it (cell.tf). There is no backend here: bootstrap.sh writes backend.tf, which names the state's bucket.
terraform {
  required_version = ">= 1.11" # write-only arguments, so that no secret is in the state

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 7.0"
    }
  }
}

provider "google" {
  project = var.project_id
  region  = var.region
}
