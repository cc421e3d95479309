// Package cgroups makes the control groups of a node below those of this process, in version 1 or 2 of the interface,
// and removes them. The node's kubelet and runtimes make all further ones.
package cgroups

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	root = "/sys/fs/cgroup"
	// prefix and the ID of a process make the name of that process's group.
	prefix = "agents-node-"
	// leaf is the group of the node's own programs in version 2, where only leaves have processes.
	leaf = "node"
	// removeTime is how long processes may take to end before their group can be removed.
	removeTime = 5 * time.Second
	removePoll = 20 * time.Millisecond
)

// needed are the controllers that a kubelet needs.
func needed() []string { return []string{"cpu", "cpuset", "memory", "pids"} }

// Group is a group in every hierarchy.
type Group struct {
	// Hierarchies are the directories of the group by the controllers of its hierarchy, such as "cpu,cpuacct"; "" is
	// version 2.
	Hierarchies map[string]string
}

// Make makes the group of this process and removes those of processes that are gone.
func Make() (*Group, error) {
	parents, err := parents()
	if err != nil {
		return nil, err
	}
	g := &Group{Hierarchies: map[string]string{}}
	for controllers, parent := range parents {
		if err := removeStale(parent); err != nil {
			return nil, err
		}
		dir := filepath.Join(parent, prefix+strconv.Itoa(os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("make a control group: %w", err), g.Remove())
		}
		g.Hierarchies[controllers] = dir
	}
	return g, nil
}

// parents returns the directories in which groups can be made.
func parents() (map[string]string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find the control group of this process: %w", err)
	}
	dirs, found := map[string]string{}, []string{}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] == "" {
			continue // version 2, which has no controllers where version 1 has them
		}
		dir := filepath.Join(root, strings.TrimPrefix(parts[1], "name="), parts[2])
		if _, err := os.Stat(dir); err == nil {
			dirs[parts[1]] = dir
			found = append(found, strings.Split(parts[1], ",")...)
		}
	}
	if len(dirs) == 0 {
		text, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
		if err != nil {
			return nil, fmt.Errorf("find the control groups of this system: %w", err)
		}
		dirs[""], found = root, strings.Fields(string(text))
	}
	for _, controller := range needed() {
		if !slices.Contains(found, controller) {
			return nil, fmt.Errorf("this system does not let its control groups use the controller %q", controller)
		}
	}
	return dirs, nil
}

func removeStale(parent string) error {
	groups, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range groups {
		pid := strings.TrimPrefix(filepath.Base(dir), prefix)
		if _, err := os.Readlink("/proc/" + pid + "/exe"); err == nil { // a zombie has none
			continue
		}
		_ = removeTree(dir) // its processes may still end; the next start tries again
	}
	return nil
}

// Enter moves a process into the group.
func (g *Group) Enter(pid int) error {
	for controllers, dir := range g.Hierarchies {
		if controllers == "cpuset" { // a new group has neither processors nor memory, and takes no process
			for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
				if err := inherit(dir, name); err != nil {
					return err
				}
			}
		}
		if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

func inherit(dir, name string) error {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
	if err != nil {
		return err
	}
	return write(dir, name, string(text))
}

func write(dir, name, text string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0)
}

// Mount mounts the hierarchies of the group at the usual place. This process must be in the group, in a cgroup
// namespace and a mount namespace that were made for the node, so that the group looks like the whole system.
func (g *Group) Mount() error {
	if _, unified := g.Hierarchies[""]; unified {
		return mountUnified()
	}
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("hide the host's control groups: %w", err)
	}
	for controllers := range g.Hierarchies {
		name, data := strings.TrimPrefix(controllers, "name="), controllers
		if name != controllers {
			data = "none," + controllers
		}
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount("cgroup", dir, "cgroup", 0, data); err != nil {
			return fmt.Errorf("mount the control groups of %s: %w", name, err)
		}
		for _, alias := range strings.Split(name, ",") {
			if err := os.Symlink(name, filepath.Join(root, alias)); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	return nil
}

func mountUnified() error {
	if err := syscall.Mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
		return fmt.Errorf("mount the control groups: %w", err)
	}
	dir := filepath.Join(root, leaf)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := write(dir, "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	controllers := "+" + strings.Join(needed(), " +")
	if err := write(root, "cgroup.subtree_control", controllers); err != nil {
		return fmt.Errorf("use the controllers %s: %w", controllers, err)
	}
	return nil
}

// Remove removes the group and all below it, whose processes end.
func (g *Group) Remove() error {
	var errs []error
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	for _, dir := range g.Hierarchies {
		errs = append(errs, await(ctx, func() error { return removeTree(dir) }))
	}
	return errors.Join(errs...)
}

// await tries until that succeeds or ctx ends.
func await(ctx context.Context, try func() error) error {
	tick := time.NewTicker(removePoll)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// removeTree removes a group and those in it. Their files need not be removed.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, removeTree(filepath.Join(dir, e.Name())))
		}
	}
	if err == nil {
		err = syscall.Rmdir(dir)
	}
	if err != nil {
		return fmt.Errorf("remove control group %s: %w", dir, err)
	}
	return nil
}
