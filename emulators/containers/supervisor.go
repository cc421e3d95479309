package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// supervisor runs the parts of the node, which end together.
type supervisor struct {
	logs   string // directory
	failed chan error

	mu       sync.Mutex
	children map[int]string
}

func newSupervisor(logs string) *supervisor {
	return &supervisor{logs: logs, failed: make(chan error, 1), children: map[int]string{}}
}

// run runs a part in this process.
func (s *supervisor) run(name string, part func() error) {
	go func() { s.fail(fmt.Errorf("%s: %w", name, endError(part()))) }()
}

// endError returns why a part ended.
func endError(err error) error {
	if err == nil {
		return errors.New("ended")
	}
	return err
}

func (s *supervisor) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// start starts a program in further namespaces. Its output goes to a file of its name.
func (s *supervisor) start(name, path string, args []string, further uintptr) error {
	log, err := os.Create(filepath.Join(s.logs, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the child has it
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := os.StartProcess(path, append([]string{name}, args...), &os.ProcAttr{
		Files: []*os.File{nil, log, log}, Env: os.Environ(), Sys: &syscall.SysProcAttr{Cloneflags: further},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	s.children[p.Pid] = name
	return p.Release()
}

func (s *supervisor) pid(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid, other := range s.children {
		if other == name {
			return pid
		}
	}
	return 0
}

// wait reaps all processes of the node, and returns when a part ended or ctx did.
func (s *supervisor) wait(ctx context.Context) error {
	go s.reap()
	select {
	case err := <-s.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			s.fail(fmt.Errorf("wait for processes: %w", err))
			return
		}
		s.mu.Lock()
		name, ours := s.children[pid]
		s.mu.Unlock()
		if ours {
			s.fail(fmt.Errorf("%s ended with status %s; see %s", name, strconv.Itoa(status.ExitStatus()),
				filepath.Join(s.logs, name+".log")))
		}
	}
}
