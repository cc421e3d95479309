package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"

	"agents.example/controlplane/emulators/containers/cgroups"
	"agents.example/controlplane/emulators/containers/policy"
)

// check says what this system lacks to run a node. It tries what a node does in namespaces that are gone afterwards,
// because kernels lack parts in too many ways to ask for each.
func check(ctx context.Context, file string) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("a real node needs root")
	}
	group, err := cgroups.Make()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Remove()) }()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "try", "-config", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: namespaces | syscall.CLONE_NEWCGROUP, Pdeathsig: syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil {
		return fmt.Errorf("make namespaces: %w", err)
	}
	if err != nil {
		return fmt.Errorf("%s (%w)", strings.TrimPrefix(strings.TrimSpace(string(out)), "node: "), err)
	}
	return nil
}

// try does what a node does, in new namespaces.
func try(ctx context.Context, c config) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate mounts from the host's: %w", err)
	}
	dir, err := os.MkdirTemp(c.Dir, "try-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing was written there
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	merged := filepath.Join(dir, "merged")
	err = syscall.Mount("overlay", merged, "overlay", 0,
		fmt.Sprintf("lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", dir, dir, dir))
	if err != nil {
		return fmt.Errorf("mount an overlay in %s: %w", c.Dir, err)
	}
	defer syscall.Unmount(merged, 0) //nolint:errcheck // it is gone with the namespace
	attributes := netlink.NewLinkAttrs()
	attributes.Name = nodeInterface
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: worldInterface}); err != nil {
		return fmt.Errorf("make a pair of network interfaces: %w", err)
	}
	if err := leadServices([]way{toAPIServer()}); err != nil {
		return err
	}
	return policy.Check(ctx, netip.MustParsePrefix(podRange))
}
