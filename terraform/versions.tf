# Google's provider is the only one, and lock.sh pins it. bootstrap.sh creates what must exist before the first apply, and writes backend.tf, which names the
# state bucket. Objects inside clusters are rendered in cell.tf and applied after Terraform.
terraform {
  required_version = ">= 1.11" # write-only arguments, so that the pepper is not in the state

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 8.0"
    }
  }
}

provider "google" {
  project = var.project_id
  region  = var.region
}
