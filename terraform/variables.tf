# What an operator decides about the control plane. What is decided about clusters is in variables_cells.tf.

variable "project_id" {
  type        = string
  description = "The Google Cloud project that everything is in."

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id must be a project's id, such as my-project-1, not its name or number."
  }
}

variable "project_number" {
  type        = string
  description = "The project's number. It is part of the services' addresses and of Google's own service accounts."

  validation {
    condition     = can(regex("^[0-9]{6,}$", var.project_number))
    error_message = "project_number must be a project's number: gcloud projects describe PROJECT --format='value(projectNumber)'."
  }
}

variable "region" {
  type        = string
  default     = "us-central1"
  description = "The region of the functions, their queue and their schedule."

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region must be a region such as us-central1, not a zone or a multi-region."
  }
}

variable "environment" {
  type        = string
  default     = "prod"
  description = "The prefix of all names, so that several environments fit one project. It can't change later."

  validation {
    condition     = can(regex("^[a-z][a-z0-9]{1,7}$", var.environment)) && var.environment != "agent"
    error_message = "environment must be 2 to 8 lower-case letters and digits, begin with a letter, and not be agent, as agents' own secrets begin."
  }
}

variable "image" {
  type        = string
  description = "The image with the control plane's binaries, by digest. The build makes it; see cloudbuild.yaml."

  validation {
    condition     = can(regex("@sha256:[0-9a-f]{64}$", var.image))
    error_message = "image must end in @sha256: and 64 hexadecimal digits: a tag may mean something else tomorrow."
  }
}

variable "topology" {
  type        = string
  default     = "route"
  description = "What is a service of its own: every function (route), every role (group), or all routes and all workers (single)."

  validation {
    condition     = contains(["route", "group", "single"], var.topology)
    error_message = "topology must be route, group or single."
  }
}

variable "domain" {
  type        = string
  default     = ""
  description = "The API's own domain, served by a load balancer. Empty: the address of the service of all routes."

  validation {
    condition     = var.domain == "" || can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,}$", var.domain))
    error_message = "domain must be a domain name such as api.example.com, without scheme or path."
  }
}

variable "identity_issuer" {
  type        = string
  description = "The issuer of session tokens, exactly as in their claim iss."

  validation {
    condition     = startswith(var.identity_issuer, "https://")
    error_message = "identity_issuer must be an https URL."
  }
}

variable "identity_authorized_parties" {
  type        = list(string)
  default     = []
  description = "The origins whose session tokens are taken, by their claim azp. Empty takes all."
}

variable "app_url" {
  type        = string
  default     = ""
  description = "The page of the web app that users come back to from Stripe's pages; required with STRIPE_API_KEY among provided_secrets. Without that the operator sets plans."

  validation {
    condition     = var.app_url != "" || !contains(var.provided_secrets, "STRIPE_API_KEY")
    error_message = "app_url must be set where payments are taken through Stripe."
  }
}

variable "database" {
  type        = string
  default     = ""
  description = "The Firestore database with the records, after one was restored under another name. Empty: agents- and the environment."
}

variable "firestore_location" {
  type        = string
  default     = ""
  description = "Where the records are: a region, or a multi-region such as nam5. Empty: region. It can't change later."
}

variable "secret_regions" {
  type        = list(string)
  default     = []
  description = "The regions that agents' secrets are kept in. Empty: Google chooses."
}

variable "provided_secrets" {
  type        = set(string)
  default     = []
  description = "The optional secrets that a value has been added to, by the variables that they arrive in; see optional_secrets in secrets.tf."

  validation {
    condition     = alltrue([for name in var.provided_secrets : contains(keys(local.optional_secrets), name)])
    error_message = "provided_secrets must name variables of optional_secrets in secrets.tf."
  }
}

variable "rate_limit_factor" {
  type        = number
  default     = 1
  description = "What the documented rate limits are multiplied by, in the functions and at the edge."

  validation {
    condition     = var.rate_limit_factor >= 1 && floor(var.rate_limit_factor) == var.rate_limit_factor
    error_message = "rate_limit_factor must be a whole number from 1."
  }
}

variable "trace_ratio" {
  type        = number
  default     = 0.05
  description = "The part of requests that is traced through all functions, from 0 to 1."

  validation {
    condition     = var.trace_ratio >= 0 && var.trace_ratio <= 1
    error_message = "trace_ratio must be from 0 to 1."
  }
}

variable "debug" {
  type        = bool
  default     = false
  description = "Whether functions log more."
}

variable "scaling" {
  type = map(object({
    min_instances = optional(number, 0)
    max_instances = optional(number)
  }))
  default     = {}
  description = "Instances by service, as the output services names them. max_instances: 20 for routes, 50 for workers."
}

variable "deletion_protection" {
  type        = bool
  default     = true
  description = "Whether the records, secrets and clusters refuse to be destroyed."
}

variable "alert_emails" {
  type        = list(string)
  default     = []
  description = "Who is told when an alert fires."
}

variable "billing_account" {
  type        = string
  default     = ""
  description = "The billing account whose costs of this project are watched. Empty: nobody is told of costs."
}

variable "monthly_budget" {
  type        = number
  default     = 500
  description = "The month's costs, in the billing account's currency, of which half, nine tenths and all are told. It stops nothing."
}

variable "handoff_public_keys" {
  type        = string
  default     = ""
  description = "JSON Web Key Set of the public keys of links to dashboards. The private P-256 key, a JSON Web Key too, is the optional secret HANDOFF_SIGNING_KEY. Empty: there are no such links."

  validation {
    condition     = var.handoff_public_keys == "" || can(jsondecode(var.handoff_public_keys).keys)
    error_message = "handoff_public_keys must be a JSON Web Key Set, such as {\"keys\": [{\"kty\": \"EC\", ...}]}."
  }
}
