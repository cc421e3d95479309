# Settings of agentctl, the command line tool.

variable "cli_client_id" {
  type        = string
  default     = ""
  description = "OAuth client of the command line tool at the identity provider. README.md says what to register there. Empty: the tool accepts only API keys."

  validation {
    condition     = var.cli_client_id == trimspace(var.cli_client_id)
    error_message = "cli_client_id must not begin or end with a space."
  }
}

variable "cli_scopes" {
  type        = string
  default     = "openid profile email offline_access"
  description = "Scopes that the command line tool asks the identity provider for, separated by spaces. Without offline_access, its users sign in again whenever a token expires."

  validation {
    condition     = contains(split(" ", var.cli_scopes), "openid")
    error_message = "cli_scopes must contain openid."
  }
}
