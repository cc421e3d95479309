// Package imagecheck runs an image as agents run it, with docker or podman on this machine, and says what the image
// would not survive. It sends nothing to the control plane.
package imagecheck

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Options are how agents would run the image.
type Options struct {
	// Image is a reference, or a file that docker save wrote.
	Image string
	// Engine is docker or podman; empty takes the one that is installed.
	Engine string
	// Port is the $PORT on which the image must serve, and HealthPath what it must answer with status 200 once it
	// serves; if empty, any answer counts.
	Port       int
	HealthPath string
	// MemoryMiB and CPUs are the limits of the plan.
	MemoryMiB int
	CPUs      float64
	// Start is how long the image may take until it serves.
	Start time.Duration
	// Grace is how long the image may take to end after SIGTERM.
	Grace time.Duration
	// Env are further variables, as KEY=VALUE.
	Env []string
}

// Result is how a check ended.
type Result string

// The results.
const (
	Passed Result = "passed"
	Warned Result = "warning"
	Failed Result = "failed"
)

// Check is one thing that agents demand of an image.
type Check struct {
	// Name is what was checked, such as user.
	Name   string `json:"name"`
	Result Result `json:"result"`
	// Found says what was seen, and Advice what to change.
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// Report has all checks, in the order in which they were made. Later ones are missing if the image did not start.
type Report struct {
	Image  string  `json:"image"`
	Checks []Check `json:"checks"`
}

// OK reports whether agents can run the image.
func (r Report) OK() bool {
	for _, c := range r.Checks {
		if c.Result == Failed {
			return false
		}
	}
	return true
}

func (r *Report) add(name string, result Result, advice, found string, args ...any) {
	c := Check{Name: name, Result: result, Found: fmt.Sprintf(found, args...)}
	if result != Passed {
		c.Advice = advice
	}
	r.Checks = append(r.Checks, c)
}

// pick returns bad if a condition holds, and otherwise Passed.
func pick(condition bool, bad Result) Result {
	if condition {
		return bad
	}
	return Passed
}

// Run checks an image until ctx ends. Steps are reported to progress.
func Run(ctx context.Context, o Options, progress func(string)) (_ Report, err error) {
	e, err := findEngine(ctx, o.Engine)
	if err != nil {
		return Report{}, err
	}
	reference, err := e.get(ctx, o.Image, progress)
	if err != nil {
		return Report{}, err
	}
	r := Report{Image: o.Image}
	facts, err := e.inspect(ctx, reference)
	if err != nil {
		return r, err
	}
	r.static(facts)
	data, err := os.MkdirTemp("", "image-check-")
	if err != nil {
		return r, err
	}
	c := checker{
		engine:  e,
		options: o,
		image:   reference,
		name:    "image-check-" + strings.ToLower(rand.Text()[:8]),
		data:    data,
	}
	defer func() { err = errors.Join(err, c.clean(context.WithoutCancel(ctx))) }()
	return r, c.run(ctx, &r, progress)
}

// static checks what needs no container.
func (r *Report) static(f facts) {
	const platform = "linux/amd64"
	got := f.OS + "/" + f.Architecture
	r.add("platform", pick(got != platform, Failed), "Build it with --platform "+platform+".", "%s", got)
	user, _, _ := strings.Cut(f.Config.User, ":")
	numeric := user != "" && strings.Trim(user, "0123456789") == ""
	switch {
	case !numeric:
		r.add(
			"user",
			Failed,
			"Agents do not run as root, and a name may be root's: write USER 65532:65532 in the Dockerfile.",
			"user %q is no number",
			f.Config.User,
		)
	default:
		r.add("user", pick(strings.Trim(user, "0") == "", Failed),
			"Agents do not run as root: write USER 65532:65532 in the Dockerfile.", "user %s", user)
	}
}
