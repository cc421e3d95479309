package client

// version is that of the package. A release replaces it, in the published module and in agentctl.
var version = "0.0.0"

// Version returns the version of this package; 0.0.0 outside of a release.
func Version() string { return version }
