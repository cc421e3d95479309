package main

import (
	"fmt"
	"os"
	"syscall"

	"agents.example/controlplane/emulators/containers/cgroups"
)

// mountAll gives the node its own view of files. Nothing of it is seen outside, and it is gone with the node.
func mountAll(group *cgroups.Group) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate the node's mounts from the host's: %w", err)
	}
	// containerd, the kubelet and libcni write below /run, /var/lib and /var/log, whatever their configuration says.
	for _, m := range []struct{ kind, target, data string }{
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"tmpfs", "/run", "mode=755"},
		{"tmpfs", "/var/log", "mode=755"},
		{"tmpfs", "/var/lib", "mode=755"},
	} {
		if err := syscall.Mount(m.kind, m.target, m.kind, 0, m.data); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.target, err)
		}
	}
	if err := group.Mount(); err != nil {
		return err
	}
	for _, dir := range []string{"/run/containerd", "/run/netns", "/run/lock"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	// Containers must see what the kubelet mounts for them.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts within the node: %w", err)
	}
	return nil
}
