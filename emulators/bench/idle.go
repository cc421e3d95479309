package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agents.example/controlplane/emulators/gobuild"
	"agents.example/controlplane/emulators/process"
)

const (
	localProgram = "agents.example/controlplane/emulators/local"
	idleMemory   = 250 << 10 // KiB
	idleCPU      = 2         // percent of a core
	idleFor      = time.Minute
)

// measureIdle measures P14: what the local cloud with one agent takes while it is idle, in all of its processes.
func measureIdle(ctx context.Context, l *environment) (_ Report, err error) {
	dir, err := gobuild.Programs(ctx, io.Discard, "the local cloud", localProgram)
	if err != nil {
		return Report{}, err
	}
	log := filepath.Join(l.dir, "local.log")
	cloud, err := process.Start(ctx, process.Options{
		Name: "the local cloud", Path: filepath.Join(dir, "local"), LogFile: log,
		Args: []string{"-ready", filepath.Join(l.dir, "ready.json")},
		Ready: func(context.Context) error {
			printed, err := os.ReadFile(log)
			if err == nil && !strings.Contains(string(printed), agentRuns) {
				err = errors.New("no agent runs yet")
			}
			return err
		},
	})
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, cloud.Close()) }()
	if err := wait(ctx, idleFor/2); err != nil { // until the start has settled
		return Report{}, err
	}
	before, _, err := usageOfTree(cloud.Pid())
	if err != nil {
		return Report{}, err
	}
	if err := wait(ctx, idleFor); err != nil {
		return Report{}, err
	}
	after, memory, err := usageOfTree(cloud.Pid())
	if err != nil {
		return Report{}, err
	}
	return Report{Rows: []Row{
		{
			ID: "P14", What: "CPU of the idle local cloud", Ours: 100 * float64(after-before) / float64(idleFor),
			Limit: idleCPU, Unit: "% of a core", Most: 1, Timed: true,
		},
		{
			ID: "P14", What: "memory of the idle local cloud", Ours: memory, Limit: idleMemory, Unit: "KiB", Most: 1,
			Timed: true, Note: "all processes, those of the agent's pod among them",
		},
	}}, nil
}

// usageOfTree returns the CPU time and the memory in KiB of a process and of those that it started.
func usageOfTree(root int) (cpu time.Duration, memory float64, err error) {
	pids, err := processTree(root)
	if err != nil {
		return 0, 0, err
	}
	for _, pid := range pids {
		used, err := childCPU(pid)
		if err != nil {
			return 0, 0, err
		}
		resident, err := residentKiB(pid)
		if err != nil {
			return 0, 0, err
		}
		cpu, memory = cpu+used, memory+resident
	}
	return cpu, memory, nil
}

// processTree returns a process and all that it started, directly or not.
func processTree(root int) ([]int, error) {
	lists, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(root), "task", "*", "children"))
	if err != nil || len(lists) == 0 {
		return nil, fmt.Errorf("find the processes of %d: it does not run, or the system is not Linux", root)
	}
	all := []int{root}
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			return nil, fmt.Errorf("find the processes of %d: %w", root, err)
		}
		for _, child := range strings.Fields(string(children)) {
			pid, err := strconv.Atoi(child)
			if err != nil {
				return nil, fmt.Errorf("find the processes of %d: %w", root, err)
			}
			below, err := processTree(pid)
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
		}
	}
	return all, nil
}
