package podworker

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// firstRepeat is the time after which a startup or readiness probe that fails first is repeated; it doubles.
const firstRepeat = 10 * time.Millisecond

// probes are the probes of one run of a container.
type probes struct {
	container *corev1.Container // with the pod's port
	address   string
	wake      func()
	running   sync.WaitGroup
	cancel    context.CancelFunc
	ctx       context.Context //nolint:containedctx // of the goroutines, which end with the container

	startup, readiness, liveness *result // nil without the probe, and before it begins
}

// startProbes starts the startup probe, or the other ones if there is none.
func startProbes(c *container) *probes {
	w := c.worker
	name, wake := w.name(), w.runtime.options.Wake
	p := &probes{
		container: w.port.probed(c.spec), address: w.address.String(), wake: func() { wake(name) },
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if spec := p.container.StartupProbe; spec != nil {
		p.startup = p.begin(spec, true)
	}
	return p
}

// probed returns the container with the pod's port in its probes.
func (p podPort) probed(c *corev1.Container) *corev1.Container {
	c = c.DeepCopy()
	for _, spec := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		var port *intstr.IntOrString
		switch {
		case spec == nil:
			continue
		case spec.HTTPGet != nil:
			port = &spec.HTTPGet.Port
		case spec.TCPSocket != nil:
			port = &spec.TCPSocket.Port
		default:
			continue
		}
		*port = intstr.FromInt32(int32(p.of(portNumber(*port, c))))
	}
	return c
}

// results returns whether the container is started and ready. It begins the probes that a startup probe delays.
func (p *probes) results(live bool) (started, ready bool) {
	if p.startup != nil && p.startup.get() != succeeded {
		return false, false
	}
	if spec := p.container.ReadinessProbe; spec != nil && p.readiness == nil {
		p.readiness = p.begin(spec, true)
	}
	if spec := p.container.LivenessProbe; spec != nil && p.liveness == nil && live {
		p.liveness = p.begin(spec, false)
	}
	return true, p.readiness == nil || p.readiness.get() == succeeded
}

// failed reports whether the container must be restarted.
func (p *probes) failed() bool {
	return p.startup != nil && p.startup.get() == failed || p.liveness != nil && p.liveness.get() == failed
}

// stop ends all probes.
func (p *probes) stop() {
	p.cancel()
	p.running.Wait()
}

// begin starts to probe. eager probes are repeated quickly until their first success.
func (p *probes) begin(spec *corev1.Probe, eager bool) *result {
	r := &result{spec: spec}
	p.running.Go(func() { p.run(r, eager) })
	return r
}

func (p *probes) run(r *result, eager bool) {
	period := seconds(r.spec.PeriodSeconds, 10)
	wait := seconds(r.spec.InitialDelaySeconds, 0)
	repeat := period
	if eager {
		repeat = firstRepeat
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-timer.C:
		}
		ok := p.once(r.spec)
		if p.ctx.Err() != nil {
			return
		}
		if ok {
			repeat = period
		}
		wait = min(repeat, period)
		if ok || repeat >= period {
			if r.record(ok) {
				p.wake()
			}
		}
		repeat *= 2
		timer.Reset(wait)
	}
}

// once runs one probe.
func (p *probes) once(spec *corev1.Probe) bool {
	ctx, cancel := context.WithTimeout(p.ctx, seconds(spec.TimeoutSeconds, 1))
	defer cancel()
	switch {
	case spec.HTTPGet != nil:
		return probeHTTP(ctx, spec.HTTPGet, p.address)
	case spec.TCPSocket != nil:
		return probeTCP(ctx, spec.TCPSocket, p.address)
	}
	return true
}

func seconds(n, byDefault int32) time.Duration {
	if n == 0 {
		n = byDefault
	}
	return time.Duration(n) * time.Second
}

// outcome is what several probes in a row said.
type outcome int

const (
	undecided outcome = iota
	succeeded
	failed
)

// result counts the results of one probe.
type result struct {
	spec *corev1.Probe

	mu      sync.Mutex
	last    bool
	count   int32 // of results in a row that equal last
	outcome outcome
}

func (r *result) get() outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcome
}

// record counts a result and reports whether the outcome changed.
func (r *result) record(ok bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ok != r.last {
		r.last, r.count = ok, 0
	}
	r.count++
	threshold, next := max(r.spec.FailureThreshold, 1), failed
	if ok {
		threshold, next = max(r.spec.SuccessThreshold, 1), succeeded
	}
	if r.count < threshold || r.outcome == next {
		return false
	}
	r.outcome = next
	return true
}
