package podworker

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/simulator/process"
)

// Command is a program to run in a container, with its arguments.
type Command struct {
	Args           []string
	Stdin          io.Reader // nil for none
	Stdout, Stderr io.Writer // nil discards
	// Terminal gives the program a terminal, whose output is Stdout. Sizes are those that it gets.
	Terminal bool
	Sizes    <-chan process.Size
}

// Exec runs a command in a container that runs, with the environment and the directory of its program, and returns the
// exit code. The command is looked up in the image, then on the machine. It is killed when the container's program
// exits, when ctx ends, and when its output cannot be passed on.
func (r *Runtime) Exec(ctx context.Context, pod types.NamespacedName, container string, c Command) (int, error) {
	w, err := r.enter(pod)
	if err != nil {
		return 0, err
	}
	defer r.commands.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run, done, err := w.exec(container, c, cancel)
	if err != nil {
		return 0, err
	}
	defer w.forget(run)
	select {
	case <-run.Done():
	case <-done:
		run.Signal(syscall.SIGKILL)
	case <-ctx.Done():
		run.Signal(syscall.SIGKILL)
	}
	<-run.Done()
	return run.ExitCode(), nil
}

// enter returns the worker of a pod, and counts a command.
func (r *Runtime) enter(pod types.NamespacedName) (*worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[pod]
	if w == nil || r.closed {
		return nil, fmt.Errorf("pod %s is simulated: no process runs that could answer", pod)
	}
	r.commands.Add(1)
	return w, nil
}

// exec starts a command in a container, and returns the end of the container's program, too. No command starts in a pod
// that is paused.
func (w *worker) exec(name string, c Command, cancel func()) (*process.Process, <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.containers()
	i := slices.IndexFunc(all, func(c *container) bool { return c.spec.Name == name })
	if i < 0 || all[i].process == nil {
		return nil, nil, fmt.Errorf("container %s of pod %s does not run", name, w.name())
	}
	p := all[i].program
	path, err := p.lookUp(c.Args[0])
	if err != nil {
		return nil, nil, err
	}
	args := slices.Clone(c.Args[1:])
	for i := range args {
		args[i] = p.mounts.local(args[i])
	}
	run, err := process.Start(process.Command{
		Path: path, Args: args, Env: p.env, Dir: p.dir, Stdin: c.Stdin,
		Stdout: output{c.Stdout, cancel}, Stderr: output{c.Stderr, cancel}, Terminal: c.Terminal, Sizes: c.Sizes,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	w.commands[run] = struct{}{}
	return run, all[i].process.Done(), nil
}

// forget forgets a command that has ended.
func (w *worker) forget(run *process.Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.commands, run)
}

// lookUp returns the path of a command: a program of the image or, if it has none of this name, of the machine.
func (p program) lookUp(name string) (string, error) {
	inImage := filepath.Join(filepath.Dir(p.path), filepath.Base(name))
	if info, err := os.Stat(inImage); err == nil && info.Mode().IsRegular() {
		return inImage, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the image has no program %s, and neither has the machine: %w", filepath.Base(name), err)
	}
	return path, nil
}

// output passes a command's output on, and cancels it when that fails.
type output struct {
	to     io.Writer
	cancel func()
}

// Write implements io.Writer.
func (o output) Write(text []byte) (int, error) {
	if o.to == nil {
		return len(text), nil
	}
	n, err := o.to.Write(text)
	if err != nil {
		o.cancel()
	}
	return n, err
}

// Close does nothing: the owner of the writer closes it.
func (output) Close() error { return nil }

// Dial connects to a port of a pod, as the pod declares it.
func (r *Runtime) Dial(ctx context.Context, pod types.NamespacedName, port int) (net.Conn, error) {
	r.mu.Lock()
	w := r.workers[pod]
	r.mu.Unlock()
	if w == nil {
		return nil, fmt.Errorf("pod %s is simulated: no process runs that could answer", pod)
	}
	address := net.JoinHostPort(w.address.String(), strconv.Itoa(w.port.of(port)))
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}
