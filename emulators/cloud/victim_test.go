package cloud_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"agents.example/controlplane/emulators/process"
	"agents.example/controlplane/emulators/proxy"
)

// killPoint is a place at which a process is killed: before it makes its change with this number, counted from 1, or
// after that and before it learns of it. The zero value is none.
type killPoint struct {
	change int
	after  bool
}

// String is such as "after 3".
func (k killPoint) String() string {
	if k.after {
		return fmt.Sprint("after ", k.change)
	}
	return fmt.Sprint("before ", k.change)
}

// victim is a function's process, whose changes to outside services pass a tap. The tap kills the process with SIGKILL
// at a chosen change, and starts it again.
type victim struct {
	t       *testing.T
	options process.Options
	proxy   *httputil.ReverseProxy
	url     string
	// beforeRestart runs while the process is dead. It may be nil.
	beforeRestart func(ctx context.Context) error
	restarts      sync.WaitGroup

	mu      sync.Mutex
	process *process.Process
	up      chan struct{} // closed while the process serves
	at      killPoint
	killed  bool
	// asked and answered are the changes since arm, in order.
	asked, answered []string
}

// startVictim starts a binary that serves a function, or all of its role if it is empty.
func startVictim(t *testing.T, d deployment, binary, function string) *victim {
	t.Helper()
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{t: t, url: "http://127.0.0.1:" + strconv.Itoa(port), up: make(chan struct{})}
	target, err := url.Parse(v.url)
	if err != nil {
		t.Fatal(err)
	}
	v.proxy = httputil.NewSingleHostReverseProxy(target)
	v.proxy.Transport = &http.Transport{}
	v.proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
		w.WriteHeader(http.StatusBadGateway) // what Pub/Sub sees of a process that was killed
	}
	env := v.intercept(d)
	env["PORT"], env["FUNCTION_TARGET"] = strconv.Itoa(port), function
	v.options = process.Options{
		Name: function, Path: filepath.Join(d.binaries, binary), LogFile: filepath.Join(t.TempDir(), "log"),
		Ready: process.Listening(target.Host),
	}
	for name, value := range env {
		v.options.Env = append(v.options.Env, name+"="+value)
	}
	if err := v.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.close)
	return v
}

// intercept starts proxies in front of the services and returns the environment that leads to them.
func (v *victim) intercept(d deployment) map[string]string {
	v.t.Helper()
	env := maps.Clone(d.Environment())
	for _, name := range []string{"FIRESTORE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "SECRET_MANAGER_ENDPOINT"} {
		p, err := proxy.StartGRPC(env[name], v)
		if err != nil {
			v.t.Fatal(err)
		}
		v.t.Cleanup(func() { _ = p.Close() })
		env[name] = p.Addr
	}
	p, err := proxy.StartKubernetes(cellsOf(v.t, env)[0]["kubeconfig"], v)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = p.Close() })
	file := filepath.Join(v.t.TempDir(), "kubeconfig")
	if err := p.WriteKubeconfig(file); err != nil {
		v.t.Fatal(err)
	}
	setKubeconfig(v.t, env, file)
	return env
}

// setKubeconfig makes functions with the environment use another kubeconfig.
func setKubeconfig(t *testing.T, env map[string]string, file string) {
	t.Helper()
	cells := cellsOf(t, env)
	for _, cell := range cells {
		cell["kubeconfig"] = file
	}
	env["CELLS"] = text(t, cells)
}

// cellsOf returns the cells of an environment.
func cellsOf(t *testing.T, env map[string]string) (cells []map[string]string) {
	t.Helper()
	if err := json.Unmarshal([]byte(env["CELLS"]), &cells); err != nil {
		t.Fatal(err)
	}
	return cells
}

// text encodes a value.
func text(t *testing.T, value any) string {
	t.Helper()
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (v *victim) start(ctx context.Context) error {
	started, err := process.Start(ctx, v.options)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.process = started
	close(v.up)
	return nil
}

func (v *victim) close() {
	v.restarts.Wait()
	v.proxy.Transport.(*http.Transport).CloseIdleConnections()
	if v.process == nil {
		return
	}
	if err := v.process.Close(); err != nil {
		v.t.Error(err)
	}
}

// arm makes the tap count from 1 and kill the process at a point.
func (v *victim) arm(at killPoint) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.at, v.killed, v.asked, v.answered = at, false, nil, nil
}

// disarm returns the changes since arm, and whether the process was killed.
func (v *victim) disarm() (changes []string, killed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	killed = v.killed
	v.at, v.killed = killPoint{}, false
	return v.asked, killed
}

// wasKilled reports whether the process was killed since arm.
func (v *victim) wasKilled() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.killed
}

// Before implements proxy.Tap.
func (v *victim) Before(call string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = append(v.asked, call)
	return !v.hit(killPoint{change: len(v.asked)})
}

// After implements proxy.Tap.
func (v *victim) After(call string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answered = append(v.answered, call)
	return !v.hit(killPoint{change: len(v.answered), after: true})
}

// hit kills the process if it is at the point. It runs with the lock, so no other change passes the tap in between.
func (v *victim) hit(at killPoint) bool {
	if v.at != at || v.killed || v.process == nil {
		return false
	}
	v.killed = true
	dead := v.process
	v.process, v.up = nil, make(chan struct{})
	if err := syscall.Kill(dead.Pid(), syscall.SIGKILL); err != nil {
		v.t.Error(err)
	}
	<-dead.Done()
	_ = dead.Close() // reports the kill
	v.restarts.Go(v.restart)
	return true
}

func (v *victim) restart() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if v.beforeRestart != nil {
		if err := v.beforeRestart(ctx); err != nil {
			v.t.Error(err)
		}
	}
	if err := v.start(ctx); err != nil {
		v.t.Error(err)
	}
}

// await waits until the process serves.
func (v *victim) await(ctx context.Context) error {
	v.mu.Lock()
	up := v.up
	v.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the process did not start in %s", patience))
	defer cancel()
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
