"""The version of this package."""

VERSION = "0.0.0"
