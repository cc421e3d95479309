// Command front runs next to an agent's container in its pod: it checks credentials and forwards requests.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/internal/environment"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/front"
	"agents.example/controlplane/shared/dataplane/seed"
)

func main() {
	slog.SetDefault(environment.PodLogger(os.Stderr))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := command(os.Args[1:])(ctx, envconfig.OsLookuper()); err != nil {
		slog.Error("front failed", "error", err.Error())
		os.Exit(exitCode(err))
	}
}

// command is what the program does: by default, it is the front of an agent.
func command(args []string) func(context.Context, envconfig.Lookuper) error {
	if len(args) == 0 {
		return run
	}
	switch args[0] {
	case dataplane.SeedArg:
		return writeFiles
	case dataplane.WaitArg:
		return wait
	case dataplane.ExportArg:
		return exportVolume
	case dataplane.ImportArg:
		return importVolume
	case dataplane.TrustArg:
		return writeTrust
	default:
		return refuse
	}
}

// refuse ends a container of a later release, whose argument this program does not know. As a front it would serve
// without an end where the pod waits for a step that ends.
func refuse(context.Context, envconfig.Lookuper) error { return errors.New("unknown argument") }

// writeFiles writes the agent's files to its volume, before the other containers of the pod start.
func writeFiles(ctx context.Context, env envconfig.Lookuper) error {
	c, err := environment.Read[environment.Seed](ctx, env)
	if err != nil {
		return err
	}
	return seed.Write(c.SeedDir, c.DataDir)
}

// run serves until ctx ends.
func run(ctx context.Context, env envconfig.Lookuper) error {
	c, err := environment.Read[environment.Front](ctx, env)
	if err != nil {
		return err
	}
	f, err := front.New(options(c))
	if err != nil {
		return err
	}
	defer f.Close()
	if c.Metrics {
		metrics, err := serveMetrics(ctx, c.Host)
		if err != nil {
			return err
		}
		defer metrics.Close() //nolint:errcheck // the process ends
	}
	l, err := listen(ctx, c.Host, dataplane.FrontPort)
	if err != nil {
		return err
	}
	slog.Info("serving", "address", l.Addr().String(), "hostname", c.Hostname, "agent_port", c.Port)
	return f.Serve(ctx, l)
}

func options(c environment.Front) front.Options {
	return front.Options{
		Hostname: c.Hostname, Port: c.Port, APIPort: c.APIPort, HealthPath: c.HealthPath, KeysURL: c.KeysURL,
		Source: c.Host, PublicPaths: c.PublicPaths, AgentID: c.AgentID,
		SleepAfter: time.Duration(c.SleepAfter) * time.Second, BusyPath: c.BusyPath, DataDir: c.DataDir,
		ForwardCredentials: c.Auth == dataplane.AuthImage,
		Credentials: front.Credentials{
			Username: c.Username, Password: c.Password.Reveal(), APIKey: c.APIKey.Reveal(),
		},
	}
}

func listen(ctx context.Context, host string, port int) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

const metricsTimeout = 5 * time.Second

// serveMetrics serves the memory of the sandbox until it is closed.
func serveMetrics(ctx context.Context, host string) (*http.Server, error) {
	l, err := listen(ctx, host, dataplane.FrontMetricsPort)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", front.MemoryMetrics("/proc/meminfo"))
	s := &http.Server{Handler: mux, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, MaxHeaderBytes: 8 << 10}
	go func() { _ = s.Serve(l) }() // ends with ErrServerClosed
	return s, nil
}
