# What deploy.sh and its builds set.

variable "image" {
  type        = string
  description = "Container image with the control plane's binaries, by digest. The first build of a deployment builds it."

  validation {
    condition     = can(regex("@sha256:[0-9a-f]{64}$", var.image))
    error_message = "image must end in @sha256: and 64 hexadecimal digits: a tag may mean something else tomorrow."
  }
}

variable "release" {
  type        = string
  default     = ""
  description = "Name of the release, which revisions of services are named after. A deployment sets it. Empty: Cloud Run names them."

  validation {
    condition     = can(regex("^([0-9]{8}-[0-9]{6}-[0-9])?$", var.release))
    error_message = "release must be a time and an attempt, such as 20260102-030405-1, or empty."
  }
}

variable "serving" {
  type        = map(string)
  default     = {}
  description = "Revisions that keep the traffic of services until those of this release are tested, by the name of the service. A deployment sets it."
}
