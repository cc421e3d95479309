//go:build unix

package dataplane

import (
	"context"
	"io"

	"agents.example/controlplane/emulators/gobuild"
)

// Image is the local name of the control plane's image. Pods run its binaries as processes.
const Image = "agents.localhost/platform@sha256:" + "0000000000000000000000000000000000000000000000000000000000000000"

// commands is the path of the binaries' packages.
const commands = "agents.example/controlplane/functions/cmd/"

// Build builds the binaries that run in agents' pods, and returns their directory in the user's cache.
func Build(ctx context.Context) (dir string, err error) {
	return BuildPackages(ctx, commands+"front", commands+"sampleagent")
}

// BuildImage builds the programs of the control plane's image that pods run, the router and the gate among them, and
// returns their directory in the user's cache. They are linked statically.
func BuildImage(ctx context.Context) (dir string, err error) {
	return BuildImagePackages(ctx, commands+"front", commands+"sampleagent", commands+"router", commands+"gate")
}

// BuildImagePackages is like BuildPackages for images of a real node, and for what is measured: the programs are built
// as those of the control plane's image are.
func BuildImagePackages(ctx context.Context, packages ...string) (dir string, err error) {
	return gobuild.StaticPrograms(ctx, io.Discard, "the programs of images", packages...)
}

// BuildPackages builds programs of this module into a directory of the user's cache, which can be an image of
// cluster.Options.
func BuildPackages(ctx context.Context, packages ...string) (dir string, err error) {
	return gobuild.Programs(ctx, io.Discard, "the programs of pods", packages...)
}
