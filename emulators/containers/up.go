package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"agents.example/controlplane/emulators/containers/cgroups"
	"agents.example/controlplane/emulators/containers/images"
	"agents.example/controlplane/emulators/containers/tunnel"
)

// namespaces are those that separate the node from the host. The cgroup namespace comes later: it begins at the group
// that its first process is in.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC |
	syscall.CLONE_NEWUTS

// groupVariable passes the control groups from up to its child.
const groupVariable = "NODE_GROUP"

// up serves the host's side of the node, and runs the node until ctx or standard input ends. Then it removes what is
// left of the node, however that ended.
func up(ctx context.Context, c config, file string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		cancel()
	}()
	if err := os.MkdirAll(c.Dir, 0o711); err != nil {
		return err
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	for name, address := range c.hostSockets() {
		l, err := tunnel.Listen(ctx, c.socket(name))
		if err != nil {
			return err
		}
		serving.Go(func() { _ = tunnel.Forward(ctx, l, tunnel.To("tcp", address)) })
	}
	registry, err := c.serveImages(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, registry.Close()) }()
	group, err := cgroups.Make()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Remove()) }()
	return runInit(ctx, group, file)
}

// hostSockets returns the addresses of the host by the socket that leads to them.
func (c config) hostSockets() map[string]string {
	all := map[string]string{"api": c.API}
	for at, host := range c.Hosts {
		all[hostSocket(at.String())] = host
	}
	return all
}

func hostSocket(at string) string { return "host-" + strings.ReplaceAll(at, ":", "-") }

// runInit runs PID 1 of the node until ctx ends. The kernel kills it when this process dies, and everything in the node
// with it.
func runInit(ctx context.Context, group *cgroups.Group, file string) error {
	text, err := json.Marshal(group)
	if err != nil {
		return err
	}
	// The kernel kills the child when the thread that started it ends: the first one; see init.
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "enter", "-config", file)
	cmd.Env = append(os.Environ(), groupVariable+"="+string(text))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); ctx.Err() == nil { // not told to end
		return fmt.Errorf("the node ended: %w", endError(err))
	}
	return nil
}

// init keeps main on the first thread. Only that one is killed with its parent, in enter and after its exec.
func init() { runtime.LockOSThread() } //nolint:gochecknoinits // main may begin on another thread

// enter enters the node's control groups, makes them the root of all that the node sees, and becomes init.
func enter(file string) error {
	group, err := passedGroup()
	if err != nil {
		return err
	}
	// The host's /proc names other processes: "0" is the process that writes.
	if err := group.Enter(0); err != nil {
		return err
	}
	if err := syscall.Unshare(syscall.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make a cgroup namespace: %w", err)
	}
	return syscall.Exec("/proc/self/exe", []string{"node", "init", "-config", file}, os.Environ())
}

func passedGroup() (*cgroups.Group, error) {
	var g cgroups.Group
	if err := json.Unmarshal([]byte(os.Getenv(groupVariable)), &g); err != nil {
		return nil, fmt.Errorf("read the node's control groups: %w", err)
	}
	return &g, nil
}

// pauseImage is the name of the image that holds the namespaces of every pod.
const pauseImage = "pause"

// serveImages serves the images that pods run, and prints their references.
func (c config) serveImages(ctx context.Context) (*images.Registry, error) {
	l, err := tunnel.Listen(ctx, c.socket("registry"))
	if err != nil {
		return nil, err
	}
	all := map[string]images.Source{pauseImage: {Program: c.program(pauseImage)}}
	maps.Copy(all, c.Images)
	r, err := images.Serve(ctx, l, images.Options{
		Dir: filepath.Join(c.Dir, "images"), Insecure: c.Insecure, Roots: c.Roots, Images: all,
	})
	if err != nil {
		return nil, err
	}
	for _, warning := range r.Warnings {
		fmt.Println("warning " + warning)
	}
	for name, reference := range r.References {
		fmt.Println("image " + name + "=" + reference)
	}
	err = os.MkdirAll(c.file(""), 0o755)
	if err == nil {
		err = os.WriteFile(c.file(pauseImage), []byte(r.References[pauseImage]), 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}
