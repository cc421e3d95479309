package cloud

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"agents.example/controlplane/emulators/cloudrun"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/process"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
)

// Processes runs the services of the deployment in a process each.
type Processes struct {
	binaries dataplane.Binaries
	env      []string
	// cells returns the cells with the access of one service; nil if env has those of all functions.
	cells    func(service string) (string, error)
	ports    map[string]int     // complete before the first process starts
	services map[string]service // as above

	mu      sync.Mutex
	running map[string]*process.Process
}

// allRoutes names the process that serves all routes. The router sends it the paths that belong to no function. It uses
// the binary that links what all routes need.
const allRoutes = "all-routes"

// service is a process, and the patterns that the router sends to it.
type service struct {
	name     string
	role     function.Role
	target   string // the only function that it serves; empty for all of its binary
	patterns []string
	env      []string // only of this process
	timeout  time.Duration
}

// services returns what runs in a process each: every function of the catalogue, or every role, and the process for all
// other paths.
func (c *Cloud) services() []service {
	all := []service{{name: allRoutes, role: function.RoleAccounts, patterns: []string{"/"}}}
	add := func(name string, role function.Role, timeout time.Duration, patterns ...string) {
		s := service{name: c.serviceOf(name, role), role: role, timeout: timeout, patterns: patterns}
		if !c.options.Grouped {
			s.target = name
		}
		if i := slices.IndexFunc(all, func(other service) bool { return other.name == s.name }); i >= 0 {
			all[i].patterns = append(all[i].patterns, patterns...)
			all[i].timeout = max(all[i].timeout, timeout)
			return
		}
		all = append(all, s)
	}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		patterns := []string{r.Method + " " + r.Path}
		if short, ok := strings.CutPrefix(r.Path, function.Prefix); ok && strings.HasPrefix(short, "/agents") {
			patterns = append(patterns, r.Method+" "+short)
		}
		timeout := cloudrun.RouteTimeout(r)
		add(r.Name, r.Role, timeout, patterns...)
		if r.Role != function.RoleExec {
			all[0].timeout = max(all[0].timeout, timeout)
		}
	}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		add(w.Name, function.RoleWorker, cloudrun.WorkerTimeout(w), "POST "+w.Path())
	}
	return all
}

// serviceOf returns the name of the service that runs a function in a separate process. The process for other paths has
// the binary of accounts, and its access.
func (c *Cloud) serviceOf(name string, role function.Role) string {
	if c.options.Grouped {
		return string(role)
	}
	return name
}

// concurrentStarts is how many processes start concurrently.
const concurrentStarts = 4

// serveSeparately starts the services and routes requests to them, as the load balancer does.
func (c *Cloud) serveSeparately(ctx context.Context) error {
	p := &Processes{
		binaries: c.binaries, running: map[string]*process.Process{}, ports: map[string]int{},
		services: map[string]service{},
	}
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
	router, all := http.NewServeMux(), c.services()
	ports, err := process.FreePorts(len(all))
	if err != nil {
		return err
	}
	for i, s := range all {
		if c.options.Grouped {
			s.env = cloudrun.Environment(s.role)
		}
		p.ports[s.name], p.services[s.name] = ports[i], s
		proxy := cloudrun.EndAfter(s.timeout, c.newProxy(s, ports[i]))
		for _, pattern := range s.patterns {
			router.Handle(pattern, proxy)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrentStarts)
	for _, s := range p.services {
		group.Go(func() error { return p.start(ctx, s) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return c.listen(&http.Server{Handler: c.options.Wrap(router), ReadHeaderTimeout: 10 * time.Second})
}

// newProxy returns the proxy to the process of a service at a port of this machine. A service of a role gets further
// processes, as Cloud Run adds instances.
func (c *Cloud) newProxy(s service, port int) http.Handler {
	if !c.options.Grouped {
		return cloudrun.NewProxy(port)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: cloudrun.Concurrency(s.role), IdleConnTimeout: time.Minute}
	c.closeLater(func() error { transport.CloseIdleConnections(); return nil })
	instance := func(port int) http.Handler {
		proxy := cloudrun.NewProxy(port)
		proxy.Transport = transport
		return proxy
	}
	door := cloudrun.NewService(cloudrun.ServiceOptions{
		First: instance(port), Concurrency: cloudrun.Concurrency(s.role), Patience: cloudrun.QueueTime,
		MaxInstances: cloudrun.MaxInstances,
		Start: func(ctx context.Context) (http.Handler, error) {
			ports, err := process.FreePorts(1)
			if err != nil {
				return nil, err
			}
			name := fmt.Sprintf("%s-%d", s.name, ports[0])
			return instance(ports[0]), c.Functions.startAs(ctx, name, s, ports[0])
		},
	})
	c.closeLater(door.Close)
	return door
}

// buildBinaries builds the programs that run in separate processes unless they are given.
func (c *Cloud) buildBinaries(ctx context.Context) (err error) {
	if !c.options.Separate {
		return nil
	}
	c.binaries = dataplane.Binaries{Dir: c.options.Binaries, Logs: filepath.Join(c.options.Dir, "functions")}
	if c.binaries.Dir != "" {
		return nil
	}
	c.binaries.Dir, err = BuildFunctions(ctx)
	return err
}

// BuildFunctions builds the programs of separate processes, and returns their directory in the user's cache.
func BuildFunctions(ctx context.Context) (dir string, err error) {
	const commands = "agents.example/controlplane/functions/cmd/"
	return dataplane.BuildPackages(ctx, commands+string(function.RoleAPI), commands+string(function.RoleAccounts),
		commands+string(function.RoleExec),
		commands+string(function.RoleWorker), commands+"router", commands+"notifier")
}

// start starts the process of a service on its port.
func (p *Processes) start(ctx context.Context, s service) error {
	return p.startAs(ctx, s.name, s, p.ports[s.name])
}

// startAs starts a process of a service. name is that of the process.
func (p *Processes) startAs(ctx context.Context, name string, s service, port int) error {
	role, target := s.role, s.target
	env := append([]string{"FUNCTION_TARGET=" + target, "PORT=" + strconv.Itoa(port)}, p.env...)
	env = append(env, s.env...)
	// As deployed, only processes that authenticate callers have the pepper.
	selection := functions.Selection{Target: target, Roles: []function.Role{role}}
	if _, authenticates := selection.Authenticating(); !authenticates {
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, pepperVariable+"=") })
	}
	if p.cells != nil {
		cells, err := p.cells(s.name)
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

// Addr returns the address of a service's process.
func (p *Processes) Addr(service string) string { return "127.0.0.1:" + strconv.Itoa(p.ports[service]) }

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

// Restart starts a process again after Kill.
func (p *Processes) Restart(ctx context.Context, name string) error {
	return p.start(ctx, p.services[name])
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
