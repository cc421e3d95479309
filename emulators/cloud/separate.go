package cloud

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/process"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
)

// Processes runs every function of the catalogue in a separate process.
type Processes struct {
	binaries dataplane.Binaries
	env      []string
	// cells returns the cells with the access of one function; nil if env has those of all functions.
	cells func(function string) (string, error)
	ports map[string]int // complete before the first process starts

	mu      sync.Mutex
	running map[string]*process.Process
}

// allRoutes names the process that serves all routes. The router sends it the paths that belong to no function. It uses
// the binary that links what all routes need.
const allRoutes = "all-routes"

// routedFunction is a function and the patterns that the router sends to it.
type routedFunction struct {
	name     string
	role     function.Role
	patterns []string
}

// routedFunctions returns every function of the catalogue, and the process for all other paths.
func routedFunctions() []routedFunction {
	all := []routedFunction{{allRoutes, function.RoleAccounts, []string{"/"}}}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		p := routedFunction{r.Name, r.Role, []string{r.Method + " " + r.Path}}
		if short, ok := strings.CutPrefix(r.Path, function.Prefix); ok && strings.HasPrefix(short, "/agents") {
			p.patterns = append(p.patterns, r.Method+" "+short)
		}
		all = append(all, p)
	}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		all = append(all, routedFunction{w.Name, function.RoleWorker, []string{"POST " + w.Path()}})
	}
	return all
}

// concurrentStarts is how many processes start concurrently.
const concurrentStarts = 4

// serveSeparately builds the binaries, starts one process for each function and routes requests to them, as the load
// balancer does.
func (c *Cloud) serveSeparately(ctx context.Context) error {
	p := &Processes{binaries: c.binaries, running: map[string]*process.Process{}, ports: map[string]int{}}
	for k, v := range c.env {
		p.env = append(p.env, k+"="+v)
	}
	if shared, err := c.cells(allFunctions); err != nil {
		return err
	} else if c.env[cellsVariable] == shared { // Environment did not change it
		p.cells = c.cells
	}
	c.Functions = p
	c.closeLater(p.close)
	router, all := http.NewServeMux(), routedFunctions()
	ports, err := process.FreePorts(len(all))
	if err != nil {
		return err
	}
	for i, f := range all {
		port := ports[i]
		p.ports[f.name] = port
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(port)})
		for _, pattern := range f.patterns {
			router.Handle(pattern, proxy)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrentStarts)
	for _, f := range all {
		group.Go(func() error { return p.start(ctx, f.name, f.role) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return c.listen(router)
}

// buildBinaries builds the programs that run in separate processes, from the module in the working directory.
func (c *Cloud) buildBinaries(ctx context.Context) (err error) {
	if !c.options.Separate {
		return nil
	}
	c.binaries = dataplane.Binaries{Dir: c.options.Binaries, Logs: filepath.Join(c.options.Dir, "functions")}
	if c.binaries.Dir != "" {
		return nil
	}
	const commands = "agents.example/controlplane/functions/cmd/"
	c.binaries.Dir, err = dataplane.BuildPackages(ctx, commands+string(function.RoleAPI),
		commands+string(function.RoleAccounts), commands+string(function.RoleWorker), commands+"router",
		commands+"notifier")
	return err
}

// start starts the process of one function on its port.
func (p *Processes) start(ctx context.Context, name string, role function.Role) error {
	port, target := p.ports[name], name
	if name == allRoutes {
		target = ""
	}
	env := append([]string{"FUNCTION_TARGET=" + target, "PORT=" + strconv.Itoa(port)}, p.env...)
	// As deployed, only processes that authenticate callers have the pepper.
	selection := functions.Selection{Target: target, Roles: []function.Role{role}}
	if _, authenticates := selection.Authenticating(); !authenticates {
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, pepperVariable+"=") })
	}
	if p.cells != nil {
		cells, err := p.cells(name)
		if err != nil {
			return err
		}
		env = append(env, cellsVariable+"="+cells) // the last value counts
	}
	started, err := process.Start(ctx, process.Options{
		Name: name, Path: filepath.Join(p.binaries.Dir, string(role)),
		LogFile: filepath.Join(p.binaries.Logs, name+".log"), Env: env,
		Ready: process.Listening("127.0.0.1:" + strconv.Itoa(port)),
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[name] = started
	return nil
}

// Kill kills the process of a function with SIGKILL, as a crash does, and waits until it has exited.
func (p *Processes) Kill(name string) error {
	p.mu.Lock()
	running := p.running[name]
	delete(p.running, name)
	p.mu.Unlock()
	if running == nil {
		return fmt.Errorf("function %s has no process", name)
	}
	if err := syscall.Kill(running.Pid(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	<-running.Done()
	_ = running.Close() // reports the kill
	return nil
}

// Restart starts the process of a worker again after Kill.
func (p *Processes) Restart(ctx context.Context, name string) error {
	return p.start(ctx, name, function.RoleWorker)
}

func (p *Processes) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var group errgroup.Group
	for name, running := range p.running {
		group.Go(func() error {
			if err := running.Close(); err != nil {
				return fmt.Errorf("stop %s: %w", name, err)
			}
			return nil
		})
	}
	p.running = map[string]*process.Process{}
	return group.Wait()
}
