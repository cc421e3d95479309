package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// rounds are pairs of measurements, of ours and of what it is compared with. The two of a round are measured one after
// the other, so that the load of the machine affects both alike.
type rounds struct{ ours, limit []float64 }

func (r *rounds) add(ours, limit float64) {
	r.ours, r.limit = append(r.ours, ours), append(r.limit, limit)
}

// row returns the comparison: the median of the limit, the median of the rounds' ratios, and their spread. The caller
// names it.
func (r *rounds) row() (Row, error) {
	if len(r.ours) == 0 {
		return Row{}, errors.New("no round could be measured")
	}
	ratios := make([]float64, len(r.ours))
	for i := range ratios {
		ratios[i] = r.ours[i] / r.limit[i]
	}
	limit := median(r.limit)
	return Row{
		Ours: limit * median(ratios), Limit: limit, Low: slices.Min(ratios), High: slices.Max(ratios), Timed: true,
	}, nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// processCPU returns the CPU time that this process has used.
func processCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("measure CPU time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// during returns the CPU time that a process uses while do runs, or this process if the pid is 0.
func during(pid int, do func() error) (time.Duration, error) {
	used := func() (time.Duration, error) { return childCPU(pid) }
	if pid == 0 {
		used = processCPU
	}
	began, err := used()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	ended, err := used()
	return ended - began, err
}

// childCPU returns the CPU time that a process has used, to the nanosecond.
func childCPU(pid int) (time.Duration, error) {
	tasks, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "schedstat"))
	if err != nil || len(tasks) == 0 {
		return 0, fmt.Errorf("measure the CPU time of process %d: it has no tasks", pid)
	}
	var total time.Duration
	for _, file := range tasks {
		b, err := os.ReadFile(file)
		if err != nil {
			return 0, fmt.Errorf("measure the CPU time of process %d: %w", pid, err)
		}
		first, _, _ := bytes.Cut(b, []byte(" "))
		ran, err := strconv.ParseInt(string(first), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("measure the CPU time of process %d: %w", pid, err)
		}
		total += time.Duration(ran)
	}
	return total, nil
}
