package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pausePoll is how often Pause looks whether what it has stopped has stopped.
const pausePoll = 2 * time.Millisecond

// Pause stops all processes of this machine that match, and those that they start, and returns when no thread of them
// runs. It fails if ctx ends before. The caller must resume them, in any case but an error. It needs Linux.
func Pause(ctx context.Context, match func(pid int) bool) (resume func(), err error) {
	stopped := map[int]bool{}
	resume = func() {
		for pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may be gone
		}
	}
	tick := time.NewTicker(pausePoll)
	defer tick.Stop()
	for {
		moving, err := pauseRound(match, stopped)
		if err == nil && !moving {
			return resume, nil
		}
		if err == nil {
			select {
			case <-tick.C:
				continue
			case <-ctx.Done():
				err = fmt.Errorf("wait until processes have stopped: %w", ctx.Err())
			}
		}
		resume()
		return nil, err
	}
}

// pauseRound stops the processes that match and are not stopped yet, and reports whether any of them may still run, or
// may have started another one.
func pauseRound(match func(pid int) bool, stopped map[int]bool) (moving bool, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false, fmt.Errorf("list the processes of this machine: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !match(pid) {
			continue
		}
		if !stopped[pid] {
			if err := syscall.Kill(pid, syscall.SIGSTOP); errors.Is(err, syscall.ESRCH) {
				continue
			} else if err != nil {
				return false, fmt.Errorf("stop process %d: %w", pid, err)
			}
			stopped[pid], moving = true, true
			continue
		}
		moving = moving || threadsRun(pid)
	}
	return moving, nil
}

// threadsRun reports whether a thread of a process may run.
func threadsRun(pid int) bool {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		if err != nil || rest == "" || !strings.ContainsRune("TtZXx", rune(rest[0])) {
			return true
		}
	}
	return false
}

// InGroups matches the processes of process groups.
func InGroups(leaders map[int]bool) func(pid int) bool {
	return func(pid int) bool {
		group, err := syscall.Getpgid(pid)
		return err == nil && leaders[group]
	}
}

// InControlGroup matches the processes in control groups with a part of a path, such as that of a pod.
func InControlGroup(part string) func(pid int) bool {
	return func(pid int) bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
		return err == nil && strings.Contains(string(text), part)
	}
}

// Group is the number of the program's process group.
func (p *Process) Group() int { return p.cmd.Process.Pid }
