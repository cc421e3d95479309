# What an operator decides about agents and the clusters they are placed on.

variable "agent_domain" {
  type        = string
  description = "The domain below which agents have their hostnames. Its zone is made here and must be delegated to."

  validation {
    condition     = can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,}$", var.agent_domain)) && var.agent_domain != var.domain
    error_message = "agent_domain must be a domain name such as agents.example.com, and not the API's own domain: agents' pages must not share its cookies."
  }
}

variable "agent_image" {
  type        = string
  description = "The image of agents, by digest. A cell may have another."

  validation {
    condition     = can(regex("@sha256:[0-9a-f]{64}$", var.agent_image))
    error_message = "agent_image must end in @sha256: and 64 hexadecimal digits."
  }
}

variable "agent_storage_class" {
  type        = string
  default     = ""
  description = "The class of agents' volumes. Empty: the cluster's default."
}

variable "cells" {
  type = map(object({
    # number decides on the cell's addresses: it is given once and never changed.
    number = number
    region = string
    # closed cells keep their agents and take no new ones.
    closed = optional(bool, false)
    # image overrides agent_image.
    image = optional(string)
  }))
  default     = { "us-central1-1" = { number = 1, region = "us-central1" } }
  description = "The clusters that agents are placed on."

  validation {
    condition     = length(var.cells) > 0 && alltrue([for name, _ in var.cells : can(regex("^[a-z][a-z0-9-]{0,23}[a-z0-9]$", name))])
    error_message = "cells must have at least one cell, named in at most 25 lower-case letters, digits and hyphens."
  }

  validation {
    condition = (
      length(distinct([for c in var.cells : c.number])) == length(var.cells)
      && alltrue([for c in var.cells : c.number >= 1 && c.number <= 63 && floor(c.number) == c.number])
    )
    error_message = "cells must have numbers from 1 to 63, each its own: addresses of clusters follow from them."
  }

  validation {
    condition     = alltrue([for c in var.cells : c.image == null || can(regex("@sha256:[0-9a-f]{64}$", c.image))])
    error_message = "a cell's image must be named by digest."
  }
}

variable "dns_controller_image" {
  type        = string
  default     = ""
  description = "The image of ExternalDNS, by digest. Only clouds of several cells need it: it tells DNS which cell an agent is in."

  validation {
    condition     = length(var.cells) == 1 || can(regex("@sha256:[0-9a-f]{64}$", var.dns_controller_image))
    error_message = "dns_controller_image must be set, by digest, when there is more than one cell."
  }
}
