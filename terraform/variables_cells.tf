# Settings of agents and of the clusters that run them.

variable "agent_domain" {
  type        = string
  description = "Parent domain of the agents' hostnames. Terraform creates its DNS zone; delegate the domain to it."

  validation {
    condition     = can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,}$", var.agent_domain))
    error_message = "agent_domain must be a domain name such as agents.example.net."
  }

  validation {
    condition     = !contains([for host in local.pages : try(regex(local.site, host), host)], try(regex(local.site, var.agent_domain), ""))
    error_message = "agent_domain must be below another registered domain than domain, app_url and identity_authorized_parties, as agents.example.net is to api.example.com. Agents' pages are customers': below the same one, they could set the web app's cookies."
  }
}

# What browsers take for one site is decided by the Public Suffix List, by which functions compare the domains when they start. The pattern
# knows the suffixes of one label, and those such as co.uk.
locals {
  site = "[^.]+\\.(?:(?:ac|co|com|edu|gob|gov|go|ne|net|nom|or|org)\\.[a-z]{2}|[^.]+)$"
  pages = concat([var.domain], [
    for url in concat([var.app_url], var.identity_authorized_parties) : try(regex("^https?://([^/:]+)", lower(url))[0], "")
  ])
}

variable "agent_image" {
  type        = string
  default     = ""
  description = "Container image of agents, by digest. A cell can override it. Empty: the sample agent of the control plane's image."

  validation {
    condition     = var.agent_image == "" || can(regex("@sha256:[0-9a-f]{64}$", var.agent_image))
    error_message = "agent_image must end in @sha256: and 64 hexadecimal digits."
  }
}

variable "agent_storage_class" {
  type        = string
  default     = ""
  description = "Storage class of agents' volumes. Empty: standard-rwo, the default of Autopilot clusters. The class must have allowVolumeExpansion, as standard-rwo has: otherwise an agent whose plan becomes larger ends in error (volume_cannot_grow). A cell whose default is another one refuses new volumes until it is named here."
}

variable "gate_address" {
  type        = string
  default     = "34.118.224.53"
  description = "Address of the gate's Service in every cell: one of the cluster's range of Services that GKE gives to no Service by itself. Agents that may reach a list of names have it as their name server, so it never changes."
  nullable    = false

  validation {
    condition     = try(cidrsubnet("${var.gate_address}/20", 0, 0) == "34.118.224.0/20", false)
    error_message = "gate_address must be in 34.118.224.0/20, GKE's range of Services, such as 34.118.224.53."
  }
}

variable "agent_resolvers" {
  type        = list(string)
  default     = []
  description = "Ranges (CIDR) of name servers that agents may ask, in addition to those of an Autopilot cluster: a Service range of your own."

  validation {
    condition     = alltrue([for range in var.agent_resolvers : try(cidrsubnet(range, 0, 0) == range, false)])
    error_message = "agent_resolvers must be ranges in CIDR notation, such as 10.8.0.10/32."
  }
}

variable "cells_project" {
  type        = string
  default     = ""
  description = "ID of the project of the cells: clusters, network, backups and agents' load balancers. Production should have a separate one; see README.md. Empty: project_id. It cannot change later."

  validation {
    condition     = var.cells_project == "" || can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.cells_project)) && var.cells_project != var.project_id
    error_message = "cells_project must be the id of another project than project_id, or empty."
  }
}

variable "cells_project_number" {
  type        = string
  default     = ""
  description = "Number of the project of the cells. Required with cells_project."

  validation {
    condition     = var.cells_project == "" ? var.cells_project_number == "" : can(regex("^[0-9]{6,}$", var.cells_project_number))
    error_message = "cells_project_number must be the number of cells_project, and empty without one."
  }
}

variable "cells" {
  type = map(object({
    # number determines the cell's IP ranges. Never change or reuse it.
    number = number
    region = string
    # closed cells keep their agents and accept no new ones.
    closed = optional(bool, false)
    # image overrides agent_image.
    image = optional(string)
    # deletion_protection of the cell's cluster. Unset: that of the deployment. README.md says how a cell is removed.
    deletion_protection = optional(bool)
  }))
  default     = { "us-central1-1" = { number = 1, region = "us-central1" } }
  description = "Clusters that run agents, by cell name."

  validation {
    condition     = length(var.cells) > 0 && alltrue([for name, _ in var.cells : can(regex("^[a-z][a-z0-9-]{0,23}[a-z0-9]$", name))])
    error_message = "cells must have at least one entry. A name has at most 25 lowercase letters, digits and hyphens."
  }

  validation {
    condition = (
      length(distinct([for c in var.cells : c.number])) == length(var.cells)
      && alltrue([for c in var.cells : c.number >= 1 && c.number <= 63 && floor(c.number) == c.number])
    )
    error_message = "cells must have distinct numbers from 1 to 63: IP ranges are derived from them."
  }

  validation {
    condition     = alltrue([for c in var.cells : c.image == null || can(regex("@sha256:[0-9a-f]{64}$", c.image))])
    error_message = "image of a cell must end in @sha256: and 64 hexadecimal digits."
  }
}

variable "warm_agents" {
  type        = number
  default     = 1
  description = "Agents for which every cell keeps room ready, for each runtime class: README.md has the price. 0 keeps none: a new agent may then wait for a node."

  validation {
    condition     = var.warm_agents >= 0 && floor(var.warm_agents) == var.warm_agents
    error_message = "warm_agents must be a whole number of at least 0."
  }
}

variable "warm_plan" {
  type        = string
  default     = "starter"
  description = "Plan whose agents fit the room that is kept ready. Smaller agents fit it, too."

  validation {
    condition     = contains(jsondecode(file("${path.module}/../shared/plan/plans.json"))[*].id, var.warm_plan)
    error_message = "warm_plan must be the id of a plan in shared/plan/plans.json."
  }
}

variable "maintenance_window" {
  type = object({
    start_time = string
    end_time   = string
    recurrence = string
  })
  default     = { start_time = "2026-01-03T02:00:00Z", end_time = "2026-01-03T08:00:00Z", recurrence = "FREQ=WEEKLY;BYDAY=SA,SU" }
  description = "When GKE may upgrade the cells: a first window, and how it repeats (RFC 5545). GKE requires at least 48 hours in 32 days."
}

variable "maintenance_exclusions" {
  type = map(object({
    start_time = string
    end_time   = string
    # NO_UPGRADES, NO_MINOR_UPGRADES or NO_MINOR_OR_NODE_UPGRADES
    scope = string
  }))
  default     = {}
  description = "Periods by name in which GKE must not upgrade the cells, even in the maintenance window."
}

variable "backup_for_gke" {
  type        = bool
  default     = false
  description = "Whether Backup for GKE copies the volumes of agents whose plan has daily_backups, in addition to daily snapshots. It costs $9 a month for each agent."
}

variable "backup_schedule" {
  type        = string
  default     = "0 9 * * *"
  description = "When each day Backup for GKE copies agents' volumes (cron, UTC)."

  validation {
    condition     = can(regex("^[0-5]?[0-9] ([01]?[0-9]|2[0-3]) \\* \\* \\*$", var.backup_schedule))
    error_message = "backup_schedule must be a minute and an hour, such as 0 9 * * *: the plans promise a backup a day."
  }
}

variable "backup_retention_days" {
  type        = number
  default     = 7
  description = "Days for which Backup for GKE keeps the copies of agents' volumes."

  validation {
    condition     = var.backup_retention_days >= 7 && var.backup_retention_days <= 360 && floor(var.backup_retention_days) == var.backup_retention_days
    error_message = "backup_retention_days must be a whole number from 7, which the plans promise, to 360."
  }
}
