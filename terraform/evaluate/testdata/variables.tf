# A small module for the tests of package evaluate.

variable "environment" {
  type    = string
  default = "prod"

  validation {
    condition     = can(regex("^[a-z]+$", var.environment))
    error_message = "environment must have lowercase letters only."
  }
}

variable "project" {
  type = string
}

variable "rooms" {
  type = map(object({
    size  = number
    doors = optional(list(string), ["front"])
    color = optional(string)
    owner = optional(object({ name = optional(string, "landlord") }), {})
  }))
  default = { kitchen = { size = 12 } }
}

variable "spares" {
  type    = number
  default = 2
}
