//go:build unix

// Package process runs a program as a child that cannot outlive this process.
//
// It starts the program in a separate process group, sends its output to a file, waits until it is ready and ends the
// whole group. On Linux the kernel kills the child when this process dies; on other Unix systems a small shell that
// watches a pipe does. A program that ends with its input is left to do so. The package does not know what the program
// does.
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

// ErrGiveUp ends the wait immediately if an error of Options.Ready wraps it: the child runs, but will never be ready.
var ErrGiveUp = errors.New("the program will not become ready")

// Options configure Start.
type Options struct {
	// Name names the program in errors.
	Name string
	// Path is the executable, looked up in PATH if it has no slash. Args are its arguments, without the program's name.
	Path string
	Args []string
	// Env is added to this process's environment, as KEY=value.
	Env []string
	// Dir is the child's working directory; empty is this process's.
	Dir string
	// Files are open in the child, too, with the numbers from 3 on. There are at most five.
	Files []*os.File
	// LogFile receives the child's standard output and error. Start creates its directory and empties the file.
	// Required: errors quote its last lines.
	LogFile string
	// Ready is called every 50 ms until it returns nil. Without Ready, the child is ready immediately.
	Ready func(ctx context.Context) error
	// Grace is the time between SIGTERM and SIGKILL in Close; 0 means 5 s.
	Grace time.Duration
	// EndsWithInput says that the program ends by itself when its standard input does, and has to clean up then. When
	// this process dies, the program is not killed, but sees the end of its input.
	EndsWithInput bool
	// bind ties the child's life to this process; nil is the best way of the operating system. Tests use both ways.
	bind func(*exec.Cmd) (release func(), err error)
}

// Process is a running child. Its methods may be called from any goroutine.
type Process struct {
	options Options
	cmd     *exec.Cmd
	done    chan struct{}
	waitErr error // written before done is closed
	closing sync.Once
	stopped chan struct{} // closed when Close begins: the exit that follows is expected
}

// Start starts the program and waits until it is ready. ctx bounds the wait, not the child's life. If the child exits
// or ctx ends first, Start ends the child and returns an error with the last lines of the log.
func Start(ctx context.Context, options Options) (*Process, error) {
	if options.LogFile == "" {
		return nil, fmt.Errorf("start %s: Options.LogFile is empty", options.Name)
	}
	if options.Grace <= 0 {
		options.Grace = defaultGrace
	}
	if options.bind == nil {
		options.bind = bindToParent
		if options.EndsWithInput {
			options.bind = bindByInput
		}
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

// Done is closed when the child has exited, for any reason.
func (p *Process) Done() <-chan struct{} { return p.done }

// Close ends the child and its process group: SIGTERM, then SIGKILL after the grace period. It returns when all
// processes are gone, and may be called again. It returns an error if the child had exited before Close.
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

// launch starts the child from a goroutine that is locked to its thread: Linux kills the child when the thread that
// started it exits, and Go may end idle threads at any time.
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
		// Ends descendants that ignored SIGTERM, or whose parent crashed.
		p.signal(syscall.SIGKILL)
		guard()
		close(p.done)
	}()
	return <-started
}

// bindByInput makes the child's standard input a pipe whose other end only this process holds.
func bindByInput(cmd *exec.Cmd) (release func(), err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create the child's input: %w", err)
	}
	cmd.Stdin = read
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() { _ = read.Close(); _ = write.Close() }, nil
}

// start runs in the goroutine that is locked to its thread. The returned function releases what guards the child.
func (p *Process) start(log *os.File) (func(), error) {
	p.cmd = exec.Command(p.options.Path, p.options.Args...) //nolint:noctx // the child outlives Start's context
	p.cmd.Env = append(os.Environ(), p.options.Env...)      // passed on, not read
	p.cmd.Dir = p.options.Dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.ExtraFiles = p.options.Files
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

// exitError describes how the child exited. Call it only after done is closed.
func (p *Process) exitError() error {
	state := "exited with status 0"
	if p.waitErr != nil {
		state = p.waitErr.Error()
	}
	return fmt.Errorf("%s exited unexpectedly: %s%s", p.options.Name, state, p.logTail())
}

// signal signals the whole group. It ignores that the group may be gone.
func (p *Process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }
