package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"agents.example/controlplane/shared/clientrelease"
)

// tool is the command line tool for a platform. It has no library of C, and names no directory of this machine.
func (m maker) tool(ctx context.Context, p clientrelease.Platform) (content []byte, err error) {
	dir, err := os.MkdirTemp("", "client-tool-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "agentctl")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -buildid= -X "+clientrelease.GoModule+".version="+m.version, "-o", file,
		"./functions/cmd/agentctl")
	build.Dir = m.root
	build.Env = append(build.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS="+p.OS, "GOARCH="+p.Arch)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile agentctl for %s/%s: %w\n%s", p.OS, p.Arch, err, out)
	}
	return os.ReadFile(file)
}
