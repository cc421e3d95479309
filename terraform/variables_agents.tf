# What the agents' image does. An image that runs on Cloud Run needs no setting.

variable "agent_port" {
  type        = number
  default     = 3000
  description = "Port on which the agents' image listens. It is told in $PORT."

  validation {
    condition     = var.agent_port >= 1024 && var.agent_port <= 65535 && !contains([8080, 9091], var.agent_port)
    error_message = "agent_port must be from 1024 to 65535. The front of every agent listens on 8080 and 9091."
  }
}

variable "agent_api_port" {
  type        = number
  default     = 0
  description = "Port on which the agents' image serves /v1. 0: agent_port."

  validation {
    condition     = var.agent_api_port == 0 || var.agent_api_port >= 1024 && var.agent_api_port <= 65535 && !contains([8080, 9091], var.agent_api_port)
    error_message = "agent_api_port must be 0, or from 1024 to 65535. The front of every agent listens on 8080 and 9091."
  }
}

variable "agent_health_path" {
  type        = string
  default     = ""
  description = "Path that the agents' image answers with status 200 once it serves. Empty: an image that accepts connections serves."

  validation {
    condition     = var.agent_health_path == "" || startswith(var.agent_health_path, "/")
    error_message = "agent_health_path must begin with a slash."
  }
}

variable "agent_auth" {
  type        = string
  default     = "front"
  description = "Who checks the credentials of requests to agents: front, or image for an image that checks them itself and finds them in its environment."

  validation {
    condition     = contains(["front", "image"], var.agent_auth)
    error_message = "agent_auth must be front or image."
  }
}

variable "agent_registries" {
  type        = list(string)
  default     = []
  description = "What references of custom images may begin with, such as us-docker.pkg.dev/team/. Nodes must be allowed to pull from there. Empty: no agent may have a custom image."

  validation {
    condition     = alltrue([for registry in var.agent_registries : can(regex("^[-a-z0-9]+([.][-a-z0-9]+)+(:[0-9]+)?/([-._a-z0-9]+/)*$", registry))])
    error_message = "agent_registries must begin with a host and end in a slash, such as us-docker.pkg.dev/team/. Without the slash, other names could begin in the same way."
  }
}
