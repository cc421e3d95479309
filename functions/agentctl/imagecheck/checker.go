package imagecheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

const (
	// killed is the exit code of a program that ended by SIGKILL.
	killed = 128 + 9
	// poll is how often a container that starts is asked.
	poll = 500 * time.Millisecond
	// warnMemory is the part of the memory limit from which on an idle image is warned of.
	warnMemory = 0.8
	// logTail is how many lines of a container's log a report has.
	logTail = 20
)

// checker runs one image twice: as agents do, and with a file system that it can write.
type checker struct {
	engine  engine
	options Options
	image   string
	name    string
	data    string // stands for the agent's volume
}

func (c checker) free() string { return c.name + "-free" }

// clean removes the containers and the volume.
func (c checker) clean(ctx context.Context) error {
	_, err := c.engine.run(ctx, "rm", "--force", "--volumes", c.name, c.free())
	return errors.Join(err, os.RemoveAll(c.data))
}

func (c checker) run(ctx context.Context, r *Report, progress func(string)) error {
	// As the group of an agent's volume may write.
	if err := os.Chmod(c.data, os.ModeSetgid|0o777); err != nil { //nolint:gosec // its container has another user
		return err
	}
	progress("Starting the image as agents run it, and with a file system that it can write")
	if err := c.start(ctx, c.name, "--read-only", "--volume", c.data+":/data"); err != nil {
		return err
	}
	if err := c.start(ctx, c.free()); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, c.options.Start)
	defer cancel()
	serves, err := c.serves(waiting, r)
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	if err := c.writes(ctx, r); err != nil || !serves {
		return err
	}
	if err := c.memory(ctx, r); err != nil {
		return err
	}
	progress("Stopping the image with SIGTERM")
	return c.ends(ctx, r)
}

// start starts a container with the rights and limits of an agent's.
func (c checker) start(ctx context.Context, name string, more ...string) error {
	port := strconv.Itoa(c.options.Port)
	args := []string{
		"run", "--detach", "--name", name, "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--group-add", "65532", "--tmpfs", "/tmp:size=256m,mode=1777",
		"--memory", strconv.Itoa(c.options.MemoryMiB) + "m", "--memory-swap", strconv.Itoa(c.options.MemoryMiB) + "m",
		"--cpus", strconv.FormatFloat(c.options.CPUs, 'f', -1, 64),
		"--publish", "127.0.0.1::" + port,
	}
	for _, variable := range append(agentEnv(c.options), c.options.Env...) {
		args = append(args, "--env", variable)
	}
	_, err := c.engine.run(ctx, append(append(args, more...), c.image)...)
	return err
}

// agentEnv is what the platform tells every agent.
func agentEnv(o Options) []string {
	return []string{
		dataplane.EnvPort + "=" + strconv.Itoa(o.Port),
		dataplane.EnvHome + "=/data",
		dataplane.EnvAgentID + "=00000000-0000-4000-8000-000000000000",
		dataplane.EnvAgentName + "=check",
		dataplane.EnvAgentHostname + "=check.example",
		dataplane.EnvAgentURL + "=https://check.example/",
		dataplane.EnvAgentPlan + "=check",
		dataplane.EnvAgentMemory + "=" + strconv.Itoa(o.MemoryMiB<<20),
	}
}

// serves waits until the container serves or ends.
func (c checker) serves(ctx context.Context, r *Report) (bool, error) {
	began, last := time.Now(), "no answer"
	again := time.NewTicker(poll)
	defer again.Stop()
	for {
		s, err := c.engine.state(ctx, c.name)
		if err != nil && ctx.Err() == nil {
			return false, err
		}
		if err == nil && !s.State.Running {
			return false, c.exited(ctx, r, s)
		}
		status, err := c.ask(ctx)
		want := c.options.HealthPath == "" || status == http.StatusOK
		if err == nil && want {
			r.add(
				"port",
				Passed,
				"",
				"serves on $PORT after %s, status %d",
				time.Since(began).Round(100*time.Millisecond),
				status,
			)
			return true, nil
		}
		if err == nil {
			last = fmt.Sprintf("status %d", status)
		}
		select {
		case <-ctx.Done():
			log, logErr := c.log(context.WithoutCancel(ctx))
			r.add(
				"port",
				Failed,
				"Listen on the port in $PORT, on all addresses. An agent's container may also listen on "+
					"127.0.0.1 only, which this check cannot see.",
				"%s on port %d within %s\n%s",
				last,
				c.options.Port,
				time.Since(began).Round(time.Second),
				log,
			)
			return false, logErr
		case <-again.C:
		}
	}
}

// exited reports a container that ended without being told to.
func (c checker) exited(ctx context.Context, r *Report, s state) error {
	log, err := c.log(ctx)
	if s.State.OOMKilled || s.State.ExitCode == killed { // podman does not always know why
		r.add("memory", Failed, "Choose a larger plan, or let the image need less memory.",
			"it needed more than %d MiB and was killed\n%s", c.options.MemoryMiB, log)
		return err
	}
	r.add(
		"start",
		Failed,
		"It must run with a read-only file system, /data and /tmp apart, without capabilities, as its "+
			"user. Its last lines are above; variables are given with --env.",
		"it exited with code %d\n%s",
		s.State.ExitCode,
		log,
	)
	return err
}

func (c checker) log(ctx context.Context) (string, error) {
	var lines bytes.Buffer
	command := exec.CommandContext(ctx, string(c.engine), "logs", "--tail", strconv.Itoa(logTail), c.name)
	command.Stdout, command.Stderr = &lines, &lines // as the container wrote them
	err := command.Run()
	return strings.TrimSpace(lines.String()), err
}

// ask sends a request to the container.
func (c checker) ask(ctx context.Context) (status int, err error) {
	out, err := c.engine.run(ctx, "port", c.name, strconv.Itoa(c.options.Port))
	if err != nil {
		return 0, err
	}
	address, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodGet,
		"http://"+address+"/"+strings.TrimPrefix(c.options.HealthPath, "/"),
		nil,
	)
	if err != nil {
		return 0, err
	}
	client := http.Client{
		Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// writes reports what the image writes if it can.
func (c checker) writes(ctx context.Context, r *Report) error {
	out, err := c.engine.run(context.WithoutCancel(ctx), "diff", c.free())
	if err != nil {
		return err
	}
	paths := writtenPaths(out)
	found := "only to /data and /tmp"
	if len(paths) > 0 {
		found = strings.Join(paths, ", ")
	}
	r.add(
		"writes",
		pick(len(paths) > 0, Warned),
		"Agents have a read-only file system: what is written there fails. Write to "+
			"/data, which is kept, or to /tmp. HOME is /data.",
		"%s",
		found,
	)
	return nil
}

// maxPaths bounds the paths of a report.
const maxPaths = 10

// writtenPaths reads what docker diff prints: the deepest paths outside of what agents may write. Engines write to /etc
// themselves.
func writtenPaths(diff string) []string {
	var all []string
	for line := range strings.Lines(diff) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		mine := strings.HasPrefix(path, "/")
		for _, dir := range []string{"/data", "/dev", "/etc", "/proc", "/run", "/sys", "/tmp"} {
			mine = mine && path != dir && !strings.HasPrefix(path, dir+"/")
		}
		if mine {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	var deepest []string
	for i, path := range all {
		if i+1 == len(all) || !strings.HasPrefix(all[i+1], path+"/") {
			deepest = append(deepest, path)
		}
	}
	if more := len(deepest) - maxPaths; more > 0 {
		deepest = append(deepest[:maxPaths], fmt.Sprintf("and %d more", more))
	}
	return deepest
}

// memory reports what the idle container uses.
func (c checker) memory(ctx context.Context, r *Report) error {
	out, err := c.engine.run(ctx, "stats", "--no-stream", "--format", "{{.MemUsage}} {{.MemPerc}}", c.name)
	if err != nil {
		return err
	}
	fields := strings.Fields(out)
	percent, err := strconv.ParseFloat(strings.TrimSuffix(fields[max(len(fields)-1, 0)], "%"), 64)
	if err != nil {
		return fmt.Errorf("%s stats prints %q", c.engine, out)
	}
	r.add(
		"memory",
		pick(percent >= warnMemory*100, Warned),
		"It is killed at the limit when it has work: choose a larger plan.",
		"%s of %d MiB when idle (%.0f %%)",
		fields[0],
		c.options.MemoryMiB,
		percent,
	)
	return nil
}

// ends reports whether the container ends when it is told to.
func (c checker) ends(ctx context.Context, r *Report) error {
	began := time.Now()
	seconds := int(c.options.Grace.Seconds())
	if _, err := c.engine.run(ctx, "stop", "--time", strconv.Itoa(seconds), c.name); err != nil {
		return err
	}
	took := time.Since(began).Round(100 * time.Millisecond)
	s, err := c.engine.state(ctx, c.name)
	if err != nil {
		return err
	}
	if s.State.ExitCode == killed {
		r.add(
			"signals",
			Warned,
			"Handle SIGTERM, and let the program be the container's first process: use exec in scripts.",
			"it did not end within %d s after SIGTERM, and was killed",
			seconds,
		)
		return nil
	}
	r.add("signals", Passed, "", "ended %s after SIGTERM with exit code %d", took, s.State.ExitCode)
	return nil
}
