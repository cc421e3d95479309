package process

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/creack/pty"
)

// Size is that of a terminal.
type Size struct{ Columns, Rows uint16 }

// startTerminal starts the program with a terminal, which is its input and both of its outputs. The returned function
// waits for the rest of the output.
func (p *Process) startTerminal(c Command) (drain func(), err error) {
	screen, terminal, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	defer terminal.Close() //nolint:errcheck // the program has its own
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = terminal, terminal, terminal
	p.cmd.SysProcAttr = session()
	if err := p.cmd.Start(); err != nil {
		_ = screen.Close()
		return nil, err
	}
	if c.Stdin != nil {
		go func() { _, _ = io.Copy(screen, c.Stdin) }()
	}
	go p.resize(screen, c.Sizes)
	p.copies.Go(func() {
		_, _ = io.Copy(c.Stdout, screen) // fails when no program has the terminal
		_ = c.Stdout.Close()
	})
	return func() {
		late := time.AfterFunc(drainTime, func() { _ = screen.Close() })
		p.copies.Wait()
		late.Stop()
		_ = screen.Close()
	}, nil
}

// session makes a program the leader of a session whose terminal is its input. The session's group is also a process
// group.
func session() *syscall.SysProcAttr {
	attributes := processGroup()
	attributes.Setpgid, attributes.Setsid, attributes.Setctty = false, true, true
	return attributes
}

// resize sets the sizes of a terminal until the program ends.
func (p *Process) resize(screen *os.File, sizes <-chan Size) {
	for {
		select {
		case <-p.done:
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			_ = pty.Setsize(screen, &pty.Winsize{Cols: size.Columns, Rows: size.Rows})
		}
	}
}
