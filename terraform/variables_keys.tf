# The keys of the control plane. README.md, "Rotate", has the steps in which one value replaces another.

variable "key_versions" {
  type = object({
    pepper   = optional(number, 1)
    webhooks = optional(number, 1)
  })
  default     = {}
  description = "The present version of each key that Terraform generates: the pepper of API keys, and the key of webhooks' secrets. Raise one by one only, and name it in next_keys one deployment before."

  validation {
    condition     = alltrue([for number in values(var.key_versions) : number >= 1 && floor(number) == number])
    error_message = "key_versions must be whole numbers of at least 1."
  }
}

variable "next_keys" {
  type        = set(string)
  default     = []
  description = "Keys of which functions accept the version after the present one, too, before one of them uses it: pepper, webhooks."

  validation {
    condition     = alltrue([for key in var.next_keys : contains(keys(var.key_versions), key)])
    error_message = "next_keys must contain only keys of key_versions."
  }
  validation {
    condition     = length(setintersection(var.next_keys, var.previous_keys)) == 0
    error_message = "A key has either a next or a previous version that functions accept: finish one change first."
  }
}

variable "previous_keys" {
  type        = set(string)
  default     = []
  description = "Keys of which functions accept the version before the present one, too: pepper, webhooks."

  validation {
    condition     = alltrue([for key in var.previous_keys : try(var.key_versions[key] >= 2, false)])
    error_message = "previous_keys must contain only keys of key_versions whose version is at least 2."
  }
}

variable "handoff_public_keys" {
  type        = string
  default     = ""
  description = "JSON Web Key Set of the public keys that verify dashboard links, statements about audit logs and receipts of deletions. The private P-256 key is the optional secret HANDOFF_SIGNING_KEY, a JSON Web Key. Keep a replaced key in the set for as long as clients verify receipts that it signed. Empty: no links, statements and receipts."

  validation {
    condition     = var.handoff_public_keys == "" || can(jsondecode(var.handoff_public_keys).keys)
    error_message = "handoff_public_keys must be a JSON Web Key Set, such as {\"keys\": [{\"kty\": \"EC\", ...}]}."
  }
}
