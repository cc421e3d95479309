// Command sampleagent is the agent of deployments whose operator has configured no image.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/internal/environment"
	"agents.example/controlplane/shared/dataplane/sampleagent"
)

// echoPause makes the stream of an echo look like a model's.
const echoPause = 30 * time.Millisecond

func main() {
	slog.SetDefault(environment.PodLogger(os.Stdout))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// The dashboard shows the names of all variables, so they cannot be fields of a configuration.
	if err := run(ctx, envconfig.OsLookuper(), os.Environ()); err != nil { //nolint:forbidigo // see above
		slog.Error("sample agent failed", "error", err.Error())
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, env envconfig.Lookuper, variables []string) error {
	c, err := environment.Read[environment.SampleAgent](ctx, env)
	if err != nil {
		return err
	}
	var names []string
	for _, v := range variables {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	a, err := sampleagent.New(sampleagent.Options{
		DataDir: c.DataDir, OpenAIURL: c.OpenAIURL, OpenAIKey: c.OpenAIKey.Reveal(), Model: c.OpenAIModel,
		Variables: names, EchoPause: echoPause,
	})
	if err != nil {
		return err
	}
	defer a.Close()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(c.Host, strconv.Itoa(c.Port)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	slog.Info("serving", "address", l.Addr().String(), "data", c.DataDir, "model_provider", c.OpenAIKey != "")
	return a.Serve(ctx, l)
}
