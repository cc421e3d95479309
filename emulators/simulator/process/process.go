// Package process runs a program in a separate process group and passes its output on by lines of a container log. It
// does not restart programs.
package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// drainTime bounds the wait for output after the program's exit: a descendant in another process group could keep the
// pipes open forever. On a busy machine the output itself takes a while.
const drainTime = 5 * time.Second

// signalBase is added to a signal's number to make an exit code, as container runtimes do.
const signalBase = 128

// Command is a program and what it starts with; Stdout and Stderr are closed after its last output.
type Command struct {
	Path           string
	Args           []string // without the program's name
	Env            []string // complete, as KEY=value
	Dir            string
	Stdin          io.Reader // nil for an empty input
	Stdout, Stderr io.WriteCloser
	// Terminal gives the program a terminal, whose output is Stdout. Sizes are those that it gets.
	Terminal bool
	Sizes    <-chan Size
}

// Process is a running program, the leader of a process group. Its methods may be called from any goroutine.
type Process struct {
	cmd    *exec.Cmd
	copies sync.WaitGroup
	done   chan struct{}
	code   int // written before done is closed
}

// Start starts the program. The kernel kills it when this process dies, where the operating system can do that.
func Start(c Command) (*Process, error) {
	p := &Process{
		cmd:  &exec.Cmd{Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: c.Env, Dir: c.Dir},
		done: make(chan struct{}),
	}
	p.cmd.SysProcAttr = processGroup()
	started := make(chan error, 1)
	go p.run(c, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run stays on one thread until the program exits: Linux kills a child when the thread that started it exits.
func (p *Process) run(c Command, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := p.start
	if c.Terminal {
		start = p.startTerminal
	}
	drain, err := start(c)
	started <- err
	if err != nil {
		return
	}
	p.code = exitCode(p.cmd.Wait(), p.cmd.ProcessState)
	p.Signal(syscall.SIGKILL) // ends the descendants, as the end of a container's first process does
	drain()
	close(p.done)
}

// start starts the program. The returned function waits for the rest of its output.
func (p *Process) start(c Command) (drain func(), err error) {
	var readers, writers []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			_ = f.Close()
		}
	}
	defer func() { closeAll(writers) }() // the child has its own
	for range 2 {
		read, write, err := os.Pipe()
		if err != nil {
			closeAll(readers)
			return nil, fmt.Errorf("create a pipe: %w", err)
		}
		readers, writers = append(readers, read), append(writers, write)
	}
	p.cmd.Stdout, p.cmd.Stderr = writers[0], writers[1]
	var input *os.File
	if c.Stdin != nil {
		read, write, err := os.Pipe()
		if err != nil {
			closeAll(readers)
			return nil, fmt.Errorf("create a pipe: %w", err)
		}
		writers, input = append(writers, read), write
		p.cmd.Stdin = read
	}
	if err := p.cmd.Start(); err != nil {
		_ = input.Close() // nothing happens if there is none
		closeAll(readers)
		return nil, err
	}
	if input != nil {
		go feed(input, c.Stdin)
	}
	for i, to := range []io.WriteCloser{c.Stdout, c.Stderr} {
		p.copies.Go(func() {
			_, _ = io.Copy(to, readers[i])
			_ = to.Close()
		})
	}
	return func() {
		for _, r := range readers {
			_ = r.SetReadDeadline(time.Now().Add(drainTime))
		}
		p.copies.Wait()
		closeAll(readers)
	}, nil
}

// feed passes the input on until it ends or the program reads no more. It may outlive the program: only the owner of
// the input can end it.
func feed(to *os.File, input io.Reader) {
	_, _ = io.Copy(to, input)
	_ = to.Close()
}

// exitCode returns the code that a container runtime reports: 128 and the signal's number for a killed program.
func exitCode(err error, state *os.ProcessState) int {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return signalBase
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return signalBase + int(status.Signal())
	}
	return state.ExitCode()
}

// Done is closed when the program has exited and all its output is passed on.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode returns the exit code; call it only after Done is closed.
func (p *Process) ExitCode() int { return p.code }

// Signal signals the program's process group. It ignores that the group may be gone.
func (p *Process) Signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }
