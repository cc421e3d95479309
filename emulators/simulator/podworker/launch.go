package podworker

import (
	"context"
	"fmt"
	"path/filepath"

	"agents.example/controlplane/emulators/simulator/containerlog"
	"agents.example/controlplane/emulators/simulator/kubelet"
	"agents.example/controlplane/emulators/simulator/process"
)

// awaitImage reports that the image cannot be pulled.
func (c *container) awaitImage() {
	if c.pullSince.IsZero() {
		c.pullSince = c.worker.now
	}
	since := c.worker.now.Sub(c.pullSince)
	if c.status = kubelet.AwaitImage(c.status, since); since < kubelet.PullTime {
		c.worker.after(kubelet.PullTime - since)
	}
}

func (c *container) start(ctx context.Context) {
	w := c.worker
	p, err := w.program(ctx, c.spec)
	if err != nil {
		if ctx.Err() == nil {
			c.status = kubelet.Await(c.status, "CreateContainerConfigError", err.Error())
		}
		c.startAt = w.now.Add(configRetry)
		w.after(configRetry)
		return
	}
	c.status = kubelet.Run(w.pod, c.status, w.now)
	c.startedAt = w.now
	if err := c.launch(p); err != nil {
		c.status = kubelet.Exit(c.status, exitCodeStart, "StartError", w.now)
		c.status.State.Terminated.Message = fmt.Sprintf("failed to start container %q: %v", c.spec.Name, err)
		c.exitedAt = w.now
		c.startAt = w.now.Add(kubelet.ExitedTime + kubelet.Backoff(c.failures))
		c.failures++
		w.after(kubelet.ExitedTime)
		return
	}
	c.supervise()
}

// launch starts the program with a new log.
func (c *container) launch(p program) error {
	w := c.worker
	path := filepath.Join(w.dir, "logs", c.spec.Name, fmt.Sprintf("%d.log", c.status.RestartCount))
	log, err := containerlog.Create(path)
	if err != nil {
		return err
	}
	stdout, stderr := log.Stream("stdout"), log.Stream("stderr")
	run, err := process.Start(process.Command{
		Path: p.path, Args: p.args, Env: p.env, Dir: p.dir, Stdout: stdout, Stderr: stderr,
	})
	if err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return err
	}
	c.process, c.program = run, p
	c.probes = startProbes(c)
	c.keepLog(runLog{containerID: c.status.ContainerID, path: path, done: run.Done()})
	wake, name := w.runtime.options.Wake, w.name()
	go func() {
		<-run.Done()
		wake(name)
	}()
	return nil
}

// keepLog removes the logs of earlier runs but one.
func (c *container) keepLog(log runLog) {
	for c.logs = append(c.logs, log); len(c.logs) > keptLogs; c.logs = c.logs[1:] {
		containerlog.Remove(c.logs[0].path)
	}
}
