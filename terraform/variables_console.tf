# Settings of the console, the web app at /console.

variable "console_client_id" {
  type        = string
  default     = ""
  description = "OAuth client of the console at the identity provider. README.md says what to register there. Empty: the console offers only to paste a token or an API key."

  validation {
    condition     = var.console_client_id == trimspace(var.console_client_id)
    error_message = "console_client_id must not begin or end with a space."
  }
}

variable "console_scopes" {
  type        = string
  default     = "openid profile email offline_access"
  description = "Scopes that the console asks the identity provider for, separated by spaces. Without offline_access, users of many providers sign in again when their token expires."

  validation {
    condition     = contains(split(" ", var.console_scopes), "openid")
    error_message = "console_scopes must contain openid."
  }
}

variable "support_url" {
  type        = string
  default     = ""
  description = "Where the console sends people who need support, such as https://support.example.com or mailto:support@example.com. Empty: the console names no address."

  validation {
    condition     = var.support_url == "" || can(regex("^(https://[^/@?\\s]+[^?\\s]*|mailto:[^@?\\s<>,]+@[^@?\\s<>,]+)$", var.support_url))
    error_message = "support_url must be the address of a page with https://, or of one mailbox with mailto:, and have no query."
  }
}
