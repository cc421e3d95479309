package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/gobuild"
)

const (
	firstStart         = 180   // seconds until an agent runs
	firstStartCPU      = 300   // seconds
	firstStartDisk     = 1.6e9 // bytes
	firstStartPackages = 1065
	warmStart          = 4   // seconds
	suiteCPU           = 240 // seconds
	fastSuite          = 40  // seconds
)

// agentRuns is in the line that the local cloud prints when its agent runs.
const agentRuns = "The agent is running"

// measureFirstStart measures P14: what the first command of a new user costs, from empty caches until an agent has run.
func measureFirstStart(ctx context.Context, l *environment) (_ Report, err error) {
	home, err := os.MkdirTemp(l.dir, "home-")
	if err != nil {
		return Report{}, err
	}
	first, err := l.runGo(ctx, home, agentRuns, "run", "./emulators", "-once")
	if err != nil {
		return Report{}, err
	}
	disk, err := diskUsage(home)
	if err != nil {
		return Report{}, err
	}
	warm, err := l.runGo(ctx, home, agentRuns, "run", "./emulators", "-once")
	if err != nil {
		return Report{}, err
	}
	return Report{Rows: []Row{
		{
			ID: "P14", What: "first start, from empty caches until an agent runs", Ours: first.seen.Seconds(),
			Limit: firstStart, Unit: "s", Most: 1, Timed: true, Note: "on two cores that do nothing else",
		},
		{
			ID: "P14", What: "first start, from empty caches", Ours: first.cpu.Seconds(), Limit: firstStartCPU,
			Unit: "s of CPU", Most: 1, Timed: true, Note: fmt.Sprintf("took %s", first.total.Round(time.Second)),
		},
		{
			ID: "P14", What: "caches after the first start", Ours: disk / 1e9, Limit: firstStartDisk / 1e9, Unit: "GB",
			Most: 1, Timed: true,
		},
		{
			ID: "P14", What: "next start, until an agent runs", Ours: warm.seen.Seconds(), Limit: warmStart, Unit: "s",
			Most: 1, Timed: true,
		},
	}}, nil
}

// countPackages counts the packages of P14, which the first command compiles. They are what its time depends on.
func countPackages(ctx context.Context, _ *environment) (Report, error) {
	args := append([]string{"list", "-deps"}, gobuild.Flags()...)
	out, err := exec.CommandContext(ctx, "go", append(args, localProgram)...).Output()
	if err != nil {
		return Report{}, fmt.Errorf("list the packages of the local cloud: %w", err)
	}
	return Report{Rows: []Row{{
		ID: "P14", What: "packages of the local cloud", Ours: float64(len(strings.Fields(string(out)))),
		Limit: firstStartPackages, Unit: "packages", Most: 1,
	}}}, nil
}

// measureTests measures P15: what the tests cost once they are compiled. Linking them is part of it, because the go
// command links a test each time.
func measureTests(ctx context.Context, l *environment) (_ Report, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return Report{}, err
	}
	if _, err := l.runGo(ctx, home, "", "test", "-run", "^$", "./..."); err != nil {
		return Report{}, err
	}
	fast, err := l.runGo(ctx, home, "", "test", "-short", "-count=1", "./...")
	if err != nil {
		return Report{}, err
	}
	whole, err := l.runGo(ctx, home, "", "test", "-count=1", "./...")
	if err != nil {
		return Report{}, err
	}
	return Report{Rows: []Row{
		{
			ID: "P15", What: "fast tests", Ours: fast.total.Seconds(), Limit: fastSuite, Unit: "s", Most: 1,
			Timed: true, Note: fmt.Sprintf("%.0f s of CPU", fast.cpu.Seconds()),
		},
		{
			ID: "P15", What: "default tier of tests", Ours: whole.cpu.Seconds(), Limit: suiteCPU, Unit: "s of CPU",
			Most: 1, Timed: true, Note: fmt.Sprintf("took %s", whole.total.Round(time.Second)),
		},
	}}, nil
}

// cost is what a command costs, with the processes that it started and waited for.
type cost struct {
	cpu, total time.Duration
	// seen is how long it took until the command printed a text.
	seen time.Duration
}

// runGo runs the go command in this module with a home directory, where it keeps its caches. It measures when the
// command prints a text.
func (l *environment) runGo(ctx context.Context, home, text string, args ...string) (_ cost, err error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return cost{}, fmt.Errorf("find the module: %w", err)
	}
	log, err := os.Create(filepath.Join(l.dir, "go-"+args[0]+".log"))
	if err != nil {
		return cost{}, err
	}
	defer log.Close() //nolint:errcheck // a log
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = strings.TrimSpace(string(root))
	// A module cache that its user may write can be removed with its directory.
	cmd.Env = append(os.Environ(), "HOME="+home, "GOFLAGS=-modcacherw", "GOCACHE=", "GOMODCACHE=", "GOPATH=",
		"XDG_CACHE_HOME=")
	output, err := cmd.StdoutPipe()
	if err != nil {
		return cost{}, err
	}
	cmd.Stderr = log
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return cost{}, err
	}
	var c cost
	lines := bufio.NewScanner(io.TeeReader(output, log))
	for lines.Scan() {
		if c.seen == 0 && strings.Contains(lines.Text(), text) {
			c.seen = time.Since(began)
		}
	}
	if err := cmd.Wait(); err != nil {
		return cost{}, fmt.Errorf("go %s: %w: see %s", strings.Join(args, " "), err, log.Name())
	}
	if c.seen == 0 {
		return cost{}, fmt.Errorf("go %s never printed %q: see %s", strings.Join(args, " "), text, log.Name())
	}
	c.cpu, c.total = cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), time.Since(began)
	return c, nil
}

// diskUsage returns the bytes of all files in a directory.
func diskUsage(dir string) (total float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		total += float64(info.Size())
		return nil
	})
	return total, err
}

const (
	clusterStarts = 5
	clusterStart  = 200 // milliseconds
)

// measureClusterStart measures P14: the CPU time until an embedded cluster without agents is ready.
func measureClusterStart(ctx context.Context, l *environment) (Report, error) {
	var r rounds
	for i := range clusterStarts {
		var c *cluster.Cluster
		used, err := during(0, func() (err error) {
			c, err = cluster.Start(ctx, cluster.Options{Dir: filepath.Join(l.dir, "kubernetes-"+strconv.Itoa(i))})
			return err
		})
		if c != nil {
			err = errors.Join(err, c.Close())
		}
		if err != nil {
			return Report{}, err
		}
		r.add(milliseconds(used), clusterStart)
	}
	row, err := r.row()
	row.ID, row.What, row.Unit, row.Most = "P14", "start of an embedded cluster", "ms of CPU", 1
	return Report{Rows: []Row{row}}, err
}
