//go:build unix

// Package process runs a program as a child that cannot outlive this process.
//
// It knows how to start a program in a process group of its own, send its output to a file, wait until it is ready,
// and end the whole group. It does not know what the program is. Works on Linux and other Unix systems; the kernel
// ends the child on Linux, a small shell watching a pipe elsewhere.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	defaultGrace = 5 * time.Second
	readyPoll    = 50 * time.Millisecond
)

// ErrGiveUp ends the wait at once when the error of Options.Ready wraps it: the child runs, but will never be ready.
var ErrGiveUp = errors.New("the program will not become ready")

// Options says what to start and when it counts as started.
type Options struct {
	// Name stands for the program in errors.
	Name string
	// Path is the executable, looked up in PATH when it has no slash; Args are its arguments without the program's
	// name.
	Path string
	Args []string
	// Env is added to this process's environment, as KEY=value.
	Env []string
	// Dir is the child's working directory; empty is this process's.
	Dir string
	// LogFile takes the child's standard output and error. It is created with its directory, and emptied when it
	// exists. Required: the last lines explain an early exit.
	LogFile string
	// Ready is called every 50 ms until it answers nil; nil Ready counts as ready at once.
	Ready func(ctx context.Context) error
	// Grace is how long Close waits between SIGTERM and SIGKILL; 0 means 5 s.
	Grace time.Duration
	// bind ties the child to this process; nil is the operating system's best way. Tests choose the other.
	bind func(*exec.Cmd) (release func(), err error)
}

// Process is a running child. Its methods may be called from any goroutine.
type Process struct {
	options Options
	cmd     *exec.Cmd
	done    chan struct{}
	waitErr error // written before done is closed
	closing sync.Once
	stopped chan struct{} // closed when Close has begun: the exit that follows is no failure
}

// Start starts the program and waits until it is ready. ctx bounds the wait for readiness only, not the child's life.
// When the child exits first, or ctx ends first, nothing is left running and the error carries the last lines of the
// log.
func Start(ctx context.Context, options Options) (*Process, error) {
	if options.LogFile == "" {
		return nil, fmt.Errorf("start %s: no log file given", options.Name)
	}
	if options.Grace <= 0 {
		options.Grace = defaultGrace
	}
	if options.bind == nil {
		options.bind = bindToParent
	}
	p := &Process{options: options, done: make(chan struct{}), stopped: make(chan struct{})}
	if err := p.launch(); err != nil {
		return nil, fmt.Errorf("start %s: %w", options.Name, err)
	}
	if err := p.awaitReady(ctx); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// Pid is the child's process id, which is also the id of its process group.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the child has exited, whoever ended it.
func (p *Process) Done() <-chan struct{} { return p.done }

// Close ends the child and everything in its process group: SIGTERM, and SIGKILL after the grace period. It returns
// when all is gone. It is safe to call again. The error is that of a child which had ended by itself before.
func (p *Process) Close() error {
	p.closing.Do(func() {
		select {
		case <-p.done:
			return
		default:
			close(p.stopped)
		}
		p.signal(syscall.SIGTERM)
		grace := time.NewTimer(p.options.Grace)
		defer grace.Stop()
		select {
		case <-p.done:
		case <-grace.C:
			p.signal(syscall.SIGKILL)
		}
	})
	<-p.done
	select {
	case <-p.stopped:
		return nil
	default:
		return p.exitError()
	}
}

// launch starts the child from a goroutine that keeps its thread: Linux ends the child when the thread that started
// it ends, and Go ends idle threads whenever it likes.
func (p *Process) launch() error {
	if err := os.MkdirAll(filepath.Dir(p.options.LogFile), 0o755); err != nil {
		return fmt.Errorf("make the log's directory: %w", err)
	}
	log, err := os.Create(p.options.LogFile)
	if err != nil {
		return fmt.Errorf("create the log: %w", err)
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = log.Close() }()
		guard, err := p.start(log)
		started <- err
		if err != nil {
			return
		}
		p.waitErr = p.cmd.Wait()
		// Children of the child that ignored SIGTERM, or whose parent crashed.
		p.signal(syscall.SIGKILL)
		guard()
		close(p.done)
	}()
	return <-started
}

// start runs in the goroutine that keeps its thread. The answered function frees what guards the child.
func (p *Process) start(log *os.File) (func(), error) {
	p.cmd = exec.Command(p.options.Path, p.options.Args...) //nolint:noctx // the child outlives the context it is started with
	p.cmd.Env = append(os.Environ(), p.options.Env...)      // handed on, not read
	p.cmd.Dir = p.options.Dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	guard, err := p.options.bind(p.cmd)
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		guard()
		return nil, err
	}
	return guard, nil
}

func (p *Process) awaitReady(ctx context.Context) error {
	if p.options.Ready == nil {
		return nil
	}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		err := p.options.Ready(ctx)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrGiveUp) {
			return fmt.Errorf("start %s: %w%s", p.options.Name, err, p.logTail())
		}
		select {
		case <-p.done:
			return p.exitError()
		case <-ctx.Done():
			return fmt.Errorf("start %s: not ready in time: %w (%w)%s", p.options.Name, err, context.Cause(ctx),
				p.logTail())
		case <-tick.C:
		}
	}
}

// exitError says how the child ended; call it after done only.
func (p *Process) exitError() error {
	state := "exited with status 0"
	if p.waitErr != nil {
		state = p.waitErr.Error()
	}
	return fmt.Errorf("%s ended by itself: %s%s", p.options.Name, state, p.logTail())
}

// signal reaches the whole group. A group that is gone already is no error.
func (p *Process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }
