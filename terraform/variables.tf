# Settings of the control plane. Settings of the clusters are in variables_cells.tf, those of the console in variables_console.tf, and what a
# deployment sets in variables_release.tf.

variable "project_id" {
  type        = string
  description = "ID of the Google Cloud project to deploy to."

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id must be a project's id, such as my-project-1, not its name or number."
  }
}

variable "project_number" {
  type        = string
  description = "Number of the project. Service addresses and the names of Google's service accounts contain it."

  validation {
    condition     = can(regex("^[0-9]{6,}$", var.project_number))
    error_message = "project_number must be a project's number: gcloud projects describe PROJECT --format='value(projectNumber)'."
  }
}

variable "region" {
  type        = string
  default     = "us-central1"
  description = "Region of the functions, the load balancer backends and the schedules."

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region must be a region such as us-central1, not a zone or a multi-region."
  }
}

variable "environment" {
  type        = string
  default     = "prod"
  description = "Prefix of all resource names, so that several environments fit in one project. It cannot change later."

  validation {
    condition     = can(regex("^[a-z][a-z0-9]{1,7}$", var.environment))
    error_message = "environment must have 2 to 8 lowercase letters and digits and begin with a letter."
  }
}

variable "topology" {
  type        = string
  default     = "group"
  description = "What gets a separate Cloud Run service: every role (group), every function (route), or all routes and all workers (single)."

  validation {
    condition     = contains(["route", "group", "single"], var.topology)
    error_message = "topology must be route, group or single."
  }
}

variable "domain" {
  type        = string
  default     = ""
  description = "Domain of the API, served by a load balancer. Empty: the API is at the address of the service that has all routes."

  validation {
    condition     = var.domain == "" || can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,}$", var.domain))
    error_message = "domain must be a domain name such as api.example.com, without scheme or path."
  }
}

variable "edge_secret_version" {
  type        = number
  default     = 1
  description = "Number of the load balancer's secret. Raise it by one to replace the secret: requests with the previous one stay accepted until the next replacement, and those with the next one are accepted already."

  validation {
    condition     = var.edge_secret_version >= 1 && floor(var.edge_secret_version) == var.edge_secret_version
    error_message = "edge_secret_version must be a whole number of at least 1."
  }
}

variable "cloud_armor" {
  type        = bool
  default     = null
  description = "Whether Cloud Armor refuses addresses that flood the API's domain or agents. A new project may have no quota for it. Null: only with a domain."
}

variable "identity_issuer" {
  type        = string
  description = "Issuer of session tokens, exactly as in their iss claim."

  validation {
    condition     = startswith(var.identity_issuer, "https://")
    error_message = "identity_issuer must be an https URL."
  }
}

variable "identity_authorized_parties" {
  type        = list(string)
  default     = []
  description = "Origins whose session tokens are accepted, compared with the azp claim. Empty accepts all."
}

variable "app_url" {
  type        = string
  default     = ""
  description = "URL of the web app page to which Stripe returns users, such as https://<domain>/console for the console. Required if provided_secrets has STRIPE_API_KEY. Without Stripe, the operator sets plans."

  validation {
    condition     = var.app_url != "" || !contains(var.provided_secrets, "STRIPE_API_KEY")
    error_message = "app_url is required if provided_secrets has STRIPE_API_KEY."
  }
}

variable "database" {
  type        = string
  default     = ""
  description = "Name of the Firestore database, if it was restored under another name. Empty: agents-ENVIRONMENT."
}

variable "firestore_location" {
  type        = string
  default     = ""
  description = "Location of the Firestore database: a region, or a multi-region such as nam5. Empty: the value of region. It cannot change later."
}

variable "secret_regions" {
  type        = list(string)
  default     = []
  description = "Regions to which secrets are replicated, those of the control plane included. Empty: automatic replication. It cannot change later: Google replaces a secret for that, and the keys in it would be lost."
}

variable "provided_secrets" {
  type        = set(string)
  default     = []
  description = "Optional secrets that have a version, by environment variable; see optional_secrets in secrets.tf. Cloud Run starts no service that reads a secret without one."

  validation {
    condition     = contains(var.provided_secrets, "HANDOFF_SIGNING_KEY") == (var.handoff_public_keys != "")
    error_message = "Set handoff_public_keys, and HANDOFF_SIGNING_KEY in provided_secrets, together: once the secret has a version. See README.md, \"Rotate\"."
  }
  validation {
    condition     = contains(var.provided_secrets, "STRIPE_API_KEY") == contains(var.provided_secrets, "STRIPE_WEBHOOK_SECRET")
    error_message = "provided_secrets must contain both STRIPE_API_KEY and STRIPE_WEBHOOK_SECRET or neither: functions with the key alone do not start, and with the other alone nothing can be bought."
  }
  validation {
    condition     = alltrue([for name in var.provided_secrets : contains(keys(local.optional_secrets), name)])
    error_message = "provided_secrets must contain only keys of optional_secrets in secrets.tf."
  }
}

variable "rate_limit_factor" {
  type        = number
  default     = 1
  description = "Factor that multiplies the documented rate limits, and the flood limit of the load balancers."

  validation {
    condition     = var.rate_limit_factor >= 1 && floor(var.rate_limit_factor) == var.rate_limit_factor
    error_message = "rate_limit_factor must be a whole number of at least 1."
  }
}

variable "secret_manager_writes_per_minute" {
  type        = number
  default     = 600
  description = "The project's quota of write requests in Secret Manager a minute. Its quota of read requests must be at least as large. The requests of clients take less than half of it, and all write one document: README.md has what that means above about 2,000."

  validation {
    condition     = var.secret_manager_writes_per_minute >= 600 && floor(var.secret_manager_writes_per_minute) == var.secret_manager_writes_per_minute
    error_message = "secret_manager_writes_per_minute must be a whole number of at least 600, Google's quota of a new project."
  }
}

variable "max_free_agents" {
  type        = number
  default     = 100
  description = "How many agents organizations on plans without a price may have in the whole deployment. README.md has what one costs. Above, a creation is refused with 402, and the number may be exceeded by the creations of ten seconds. 0: no limit."

  validation {
    condition     = var.max_free_agents >= 0 && floor(var.max_free_agents) == var.max_free_agents
    error_message = "max_free_agents must be a whole number of at least 0."
  }
}

variable "trace_ratio" {
  type        = number
  default     = 0.05
  description = "Share of requests that are traced, from 0 to 1."

  validation {
    condition     = var.trace_ratio >= 0 && var.trace_ratio <= 1
    error_message = "trace_ratio must be from 0 to 1."
  }
}

variable "debug" {
  type        = bool
  default     = false
  description = "Whether functions log at debug level."
}

variable "maintenance" {
  type        = bool
  default     = false
  description = "Whether functions refuse all calls with 503 and write nothing, as for a restore; see README.md. Agents keep running, and Pub/Sub keeps nudges for seven days."
}

variable "scaling" {
  type = map(object({
    min_instances = optional(number)
    max_instances = optional(number)
  }))
  default     = {}
  description = "Minimum and maximum instances by service; the output services lists the names. Default of max_instances: 10; 3 for a service that only handles dead letters, 2 for one that only runs schedules."
}

variable "warm_instances" {
  type        = number
  default     = 1
  description = "Instances that always run of the services that create agents and bring them up, so that no agent waits for a cold start. README.md has the price."
}

variable "deletion_protection" {
  type        = bool
  default     = true
  description = "Whether the database, secrets and clusters are protected from deletion."
}

variable "alert_emails" {
  type        = list(string)
  default     = []
  description = "Email addresses that receive alerts. The budget notifies the first five in the order of the alphabet."
}

variable "billing_account" {
  type        = string
  default     = ""
  description = "ID of the billing account for the budget. Empty: no budget is created."
}

variable "monthly_budget" {
  type        = number
  default     = 500
  description = "Monthly budget of each project in the currency of the billing account. Notifications are sent at 50, 90 and 100 percent. A budget stops nothing."
}
