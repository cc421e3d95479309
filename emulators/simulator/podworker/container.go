package podworker

import (
	"context"
	"os"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/emulators/simulator/kubelet"
	"agents.example/controlplane/emulators/simulator/process"
)

// role is what a container is for.
type role int

const (
	regular     role = iota
	sidecar          // an init container that keeps running
	initializer      // an init container that ends
)

const (
	// configRetry is how long a container waits whose variables cannot be resolved.
	configRetry = 250 * time.Millisecond
	// exitCodeStart is the exit code of a program that cannot be started.
	exitCodeStart = 128
	// keptLogs are the logs of the current and the previous run.
	keptLogs = 2
)

// container is one container of a pod. The worker's lock guards it.
type container struct {
	worker *worker
	role   role
	spec   *corev1.Container
	status corev1.ContainerStatus

	process   *process.Process // nil unless it runs
	program   program          // of the process
	probes    *probes          // of the process
	startedAt time.Time
	stopping  bool
	deadline  time.Time // SIGKILL follows then, if stopping
	killed    *exit     // by a fault: what to report instead of the true exit

	exitedAt  time.Time
	failures  int32     // exits in a row, none of which was long after the start
	startAt   time.Time // not started before
	pullSince time.Time // the first failure to pull the image
	logs      []runLog  // of the last runs, the youngest last
}

type exit struct {
	code   int32
	reason string
}

// runLog is the log of one run of a container.
type runLog struct {
	containerID, path string
	done              <-chan struct{}
}

func newContainer(w *worker, spec *corev1.Container, r role, statuses []corev1.ContainerStatus, now time.Time,
) *container {
	c := &container{worker: w, role: r, spec: spec, status: kubelet.Adopt(statuses, spec, now)}
	if r == regular {
		c.status = kubelet.AwaitInit(c.status)
	}
	return c
}

func (c *container) exited() bool {
	select {
	case <-c.process.Done():
		return true
	default:
		return false
	}
}

// reap records the exit of the process.
func (c *container) reap() {
	if c.process == nil || !c.exited() {
		return
	}
	code, reason := int32(c.process.ExitCode()), "Error"
	if code == 0 {
		reason = "Completed"
	}
	if c.killed != nil {
		code, reason = c.killed.code, c.killed.reason
	}
	c.probes.stop()
	c.process, c.probes, c.killed, c.stopping = nil, nil, nil, false
	now := c.worker.now
	c.status = kubelet.Exit(c.status, code, reason, now)
	if now.Sub(c.startedAt) > kubelet.SteadyTime {
		c.failures = 0
	}
	c.exitedAt = now
	c.startAt = now.Add(kubelet.ExitedTime + kubelet.Backoff(c.failures))
	c.failures++
}

// forgive makes a container start again immediately, because a fault is gone or another one.
func (c *container) forgive() {
	c.failures, c.startAt, c.pullSince = 0, time.Time{}, time.Time{}
}

// succeeded reports whether an init container has done its work.
func (c *container) succeeded() bool {
	return c.status.State.Terminated != nil && c.status.State.Terminated.ExitCode == 0
}

// final reports whether the container ended and is not restarted.
func (c *container) final() bool {
	last := c.status.State.Terminated
	switch policy := c.worker.pod.Spec.RestartPolicy; {
	case last == nil || c.role == sidecar:
		return false
	case policy == corev1.RestartPolicyNever:
		return true
	default:
		return last.ExitCode == 0 && (policy == corev1.RestartPolicyOnFailure || c.role == initializer)
	}
}

// keep starts the container or supervises it.
func (c *container) keep(ctx context.Context) {
	now := c.worker.now
	switch {
	case c.process != nil:
		c.supervise()
	case c.final():
	case c.role == regular && c.worker.fault.PullFails():
		c.awaitImage()
	case now.Before(c.exitedAt.Add(kubelet.ExitedTime)) && now.Before(c.startAt):
		c.worker.after(c.exitedAt.Add(kubelet.ExitedTime).Sub(now))
	case now.Before(c.startAt):
		if c.status.State.Terminated != nil {
			c.status = kubelet.AwaitRestart(c.worker.pod, c.status, c.startAt.Sub(now).Round(time.Millisecond))
		}
		c.worker.after(c.startAt.Sub(now))
	default:
		c.start(ctx)
	}
}

// supervise updates the status of a container that runs, and ends it for a fault or a failed probe.
func (c *container) supervise() {
	w := c.worker
	if c.role == regular {
		if w.fault.PullFails() {
			c.kill(exit{exitCodeKilled, "Error"})
			return
		}
		ran := w.now.Sub(c.startedAt)
		if code, reason, after, ok := w.fault.Crash(); ok && ran >= after && (c.hasLogged() || ran >= silentTime) {
			c.kill(exit{code, reason})
			return
		} else if ok {
			w.after(max(after-ran, logPoll))
		}
	}
	c.observe(true)
	if c.stopping || c.probes.failed() {
		c.stop(w.now.Add(c.grace()))
	}
}

const (
	// silentTime is how long a program that is to crash may take to write to its log, as one does that really crashes.
	// Some programs never do.
	silentTime = 5 * time.Second
	logPoll    = 50 * time.Millisecond
)

// hasLogged reports whether the program that runs has written to its log.
func (c *container) hasLogged() bool {
	log, err := os.Stat(c.logs[len(c.logs)-1].path)
	return err == nil && log.Size() > 0
}

// exitCodeKilled is 128 + SIGKILL.
const exitCodeKilled = 137

// kill ends the process immediately; reap reports the exit as e.
func (c *container) kill(e exit) {
	if c.killed == nil {
		c.killed = &e
		c.status.Ready = false
		c.process.Signal(syscall.SIGKILL)
	}
}

// observe updates whether a container that runs is started and ready. live says whether it is also probed for liveness.
func (c *container) observe(live bool) {
	if c.process == nil {
		return
	}
	started, ready := c.probes.results(live)
	if c.role == regular {
		unready, remaining := c.worker.fault.Unready(c.worker.now.Sub(c.startedAt))
		if ready = ready && !unready; remaining > 0 {
			c.worker.after(remaining)
		}
	}
	c.status.Started, c.status.Ready = &started, ready
}

// grace is how long the container may take to end when it is restarted.
func (c *container) grace() time.Duration {
	if s := c.worker.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// stop asks the process to end, kills it after the deadline, and reports whether it still runs. The first deadline of a
// restart counts.
func (c *container) stop(deadline time.Time) bool {
	if c.process == nil {
		return false
	}
	if !c.stopping {
		c.stopping, c.deadline = true, deadline
		c.process.Signal(syscall.SIGTERM)
	}
	if deadline.Before(c.deadline) {
		c.deadline = deadline
	}
	if remaining := c.deadline.Sub(c.worker.now); remaining > 0 {
		c.worker.after(remaining)
		return true
	}
	c.process.Signal(syscall.SIGKILL)
	c.worker.after(reapTime)
	return true
}
