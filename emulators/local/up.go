package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/command"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/images"
	"agents.example/controlplane/emulators/node"
	"agents.example/controlplane/shared/client"
)

// settings are the flags of the command.
type settings struct {
	addr       string
	kubeconfig string
	ready      string
	cluster    cluster.Kind
	emulators  gcloud.Choice
	once       bool
	limits     bool
	delivery   bool
	payments   bool
	node       *cloud.NodeOptions // nil if nodes are simulated
	catalog    catalog
	noDemo     bool
	env        map[string]string // of the demo's agent
}

func parse(args []string, help io.Writer) (settings, error) {
	s := settings{env: map[string]string{}, catalog: catalog{
		recipes: map[string]images.Source{}, images: map[string]node.Image{}, programs: map[string]string{},
	}}
	var entries []string
	flags := flag.NewFlagSet("emulators", flag.ContinueOnError)
	flags.SetOutput(help)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&s.addr, "addr", "", "serve the API at this `address` (default: a free port on 127.0.0.1)")
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "use the cluster of this kubeconfig `file` instead of a local one")
	flags.TextVar(&s.cluster, "cluster", cluster.Embedded,
		"`which` Kubernetes API server to run: embedded (part of this program) or real (etcd, API server,\n"+
			"controllers and scheduler, compiled from source)")
	flags.TextVar(&s.emulators, "emulators", gcloud.Embedded,
		"`which` Firestore and Pub/Sub emulators to use: embedded (part of this program), official (Google's, which\n"+
			"need Java), or auto (official if they are installed)")
	flags.StringVar(&s.ready, "ready", "",
		"write addresses and credentials to this `file` as JSON, once everything serves")
	flags.BoolVar(&s.once, "once", false, "create an agent, delete it and exit")
	flags.BoolVar(&s.limits, "production-limits", false,
		"enforce the documented rate limits; without this flag they are 100 times higher")
	flags.BoolVar(&s.delivery, "production-delivery", false,
		"wait after failed deliveries as Pub/Sub does, up to 10 minutes; without this flag at most 10 seconds")
	flags.BoolVar(&s.payments, "payments", false,
		"take payments through a local Stripe; visiting its checkout page pays")
	flags.Func("catalog", "a `file` with an entry of the catalog of images, or the name of a recipe: "+
		strings.Join(images.Recipes(), ", ")+"; may be\nrepeated. The demo's agent runs the first one",
		func(name string) error {
			entries = append(entries, name)
			return nil
		})
	flags.BoolVar(&s.noDemo, "no-demo", false, "create no agent")
	flags.Func("env", "`KEY=VALUE`: a variable of the demo's agent; may be repeated", pairs(s.env, "KEY=VALUE"))
	readNode := nodeFlags(flags)
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf(
			"unknown command %q; want break, build, console, image, open, token, bench, load or no command",
			flags.Arg(0))
	}
	var err error
	if s.node, err = readNode(s.kubeconfig); err != nil {
		return s, err
	}
	switch err = s.catalog.addAll(entries, s.node != nil); {
	case err != nil:
		return s, err
	case s.kubeconfig != "" && len(entries) > 0:
		return s, errors.New("-catalog and -kubeconfig exclude each other: use the operator's tool there")
	case s.noDemo && (s.once || len(s.env) > 0):
		return s, errors.New("-no-demo excludes -once and -env, which are about the demo")
	case s.kubeconfig != "" && s.cluster == cluster.Real:
		return s, errors.New("-cluster real and -kubeconfig exclude each other")
	case s.node != nil:
		s.cluster = cluster.Real // whose API a kubelet needs
	}
	return s, nil
}

// up starts the cloud, runs the demo and stays up.
func up(ctx context.Context, args []string) (err error) {
	s, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	if s.node != nil { // before the cluster, which then finds most of its packages compiled
		if err := node.Supported(ctx, os.Stdout); err != nil {
			return err
		}
	}
	out := command.NewTerminal(os.Stdout)
	if err := s.catalog.build(ctx, out); err != nil {
		return err
	}
	if s.node != nil {
		s.node.Images = s.catalog.images
	}
	if s.cluster == cluster.Real {
		if _, err := cluster.Build(ctx, os.Stdout); err != nil { // cloud.Start shows no status line
			return err
		}
	}
	dir, err := os.MkdirTemp("", "agents-cloud-")
	if err != nil {
		return err
	}
	logs, err := command.LogTo(filepath.Join(dir, "functions.log"))
	if err != nil {
		return err
	}
	klog.SetSlogLogger(slog.Default()) // libraries of Kubernetes write to the terminal otherwise
	began := time.Now()
	out.Line("Starting the local cloud (logs: %s)", dir)
	c, err := cloud.Start(ctx, cloud.Options{
		Dir: dir, Addr: s.addr, Kubeconfig: s.kubeconfig, Progress: out, ProductionLimits: s.limits,
		ProductionDelivery: s.delivery,
		Emulators:          s.emulators,
		Payments:           s.payments,
		Cluster:            s.cluster,
		Node:               s.node,
		Catalog:            s.catalog.entries,
		Images:             s.catalog.programs,
		AttachFirestore:    os.Getenv("FIRESTORE_EMULATOR_HOST"), AttachPubSub: os.Getenv("PUBSUB_EMULATOR_HOST"),
	})
	if err != nil {
		return errors.Join(startFailure(ctx, dir, err), logs.Close())
	}
	defer func() {
		err = errors.Join(err, c.Close(), logs.Close())
		if err == nil {
			err = os.RemoveAll(dir) // the logs are kept only after a failure
		}
	}()
	out.Line("Ready after %s", time.Since(began).Round(100*time.Millisecond))
	if err := writeReadyFiles(s, c.Ready); err != nil {
		return err
	}
	return present(ctx, s, c, out)
}

// startFailure returns the error of a start that failed. One that was interrupted needs no logs, and its parts say only
// what they were doing.
func startFailure(ctx context.Context, dir string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return errors.Join(fmt.Errorf("start the local cloud: %w", context.Cause(ctx)), os.RemoveAll(dir))
}

// present prints the link to the console of a running cloud and runs the demo. Unless it runs once, it stays
// until ctx ends or a part of the cloud dies, also if the demo failed: the agent is there to look at.
func present(ctx context.Context, s settings, c *cloud.Cloud, out *command.Terminal) error {
	console := c.Issuer.Ticket(c.Ready.Admin(), c.Ready.ConsoleURL())
	if !s.once {
		s.printConsole(out, console)
	}
	api, err := client.New(c.Ready.BaseURL, client.StaticToken(c.Ready.APIKey))
	if err != nil {
		return err
	}
	d := demo{client: api, agents: c.Client, out: out, image: s.catalog.first(), env: s.env}
	id, dashboard := "", ""
	if !s.noDemo {
		id, err = d.run(ctx)
		switch {
		case s.once && err != nil:
			return err
		case s.once:
			return d.remove(ctx, id, c.Ready.Kubeconfig)
		case err == nil:
			dashboard, err = dashboardLink(ctx, c.Ready, id)
		}
		if err != nil && ctx.Err() == nil {
			d.explain(ctx, id, err)
		}
	}
	s.printHelp(out, c.Ready, id, dashboard, console)
	select {
	case <-ctx.Done():
		out.Line("Stopping")
		return nil
	case err := <-c.Died():
		return err
	}
}

// writeReadyFiles writes the cloud's addresses and credentials where other commands look for them.
func writeReadyFiles(s settings, facts cloud.Ready) error {
	latest, err := latestFile()
	if err == nil {
		err = facts.WriteFile(latest)
	}
	if err == nil && s.ready != "" {
		err = facts.WriteFile(s.ready)
	}
	return err
}

// commandOf returns a command about this cloud, which need not be the one that was started last.
func (s settings) commandOf(name string) string {
	if s.ready == "" {
		return "go run ./emulators " + name
	}
	return fmt.Sprintf("go run ./emulators %s -ready %q", name, s.ready)
}

// printConsole prints where to begin, before the demo.
func (s settings) printConsole(out *command.Terminal, link string) {
	out.Line("")
	out.Line("Console: %s", link)
	out.Line("The link signs you in as an admin. It works once, within 10 minutes.")
	out.Line("For a new one: %s", s.commandOf("console"))
	out.Line("")
}

// printHelp prints how to use the running cloud. It repeats the link to the console, which is above the progress of the
// demo.
func (s settings) printHelp(out *command.Terminal, r cloud.Ready, id, dashboard, console string) {
	out.Line("")
	if dashboard != "" {
		out.Line("Open the agent's dashboard in a browser. The link works once, within 60 s.")
		out.Line("For a new one: %s", s.commandOf("open"))
		out.Line("  %s", dashboard)
		out.Line("")
	}
	out.Line("  Console      %s", console)
	namespace := "-A"
	if id != "" {
		namespace = "-n agent-" + id
	}
	out.Line("  Kubernetes   kubectl --kubeconfig %s get all %s", r.Kubeconfig, namespace)
	out.Line("  Session      %s -organization %s -role admin", s.commandOf("token"), r.OrganizationID)
	out.Line("  Clients      %s/clients", r.BaseURL)
	out.Line("  Command line go run ./functions/cmd/agentctl login --base-url %s", r.BaseURL)
	out.Line("")
	out.Line("For programs, curl and agentctl:")
	out.Line("  export AGENTS_BASE_URL=%s", r.BaseURL)
	out.Line("  export AGENTS_API_KEY=%s", r.APIKey)
	const call = `  curl -H "Authorization: Bearer $AGENTS_API_KEY" `
	out.Line("%s$AGENTS_BASE_URL/api/v1/agents", call)
	if id != "" {
		out.Line("%s$AGENTS_BASE_URL/api/v1/agents/%s/metrics", call, id)
		out.Line("%s-X POST $AGENTS_BASE_URL/api/v1/agents/%s/credentials/reveal", call, id)
		out.Line("")
		out.Line("Break the agent, and see what its owner sees: %s crash-loop", s.commandOf("break"))
	}
	if u, err := url.Parse(dashboard); err == nil && dashboard != "" {
		out.Line("")
		out.Line("Browsers find the agent's address by themselves. For programs, name it in the Host header:")
		out.Line("  curl -H 'Host: %s' http://127.0.0.1:%s/health/ready", u.Hostname(), u.Port())
		out.Line("  curl --resolve %s:%s:127.0.0.1 http://%s/health/ready", u.Hostname(), u.Port(), u.Host)
	}
	out.Line("")
	out.Line("Press Ctrl-C to stop. Nothing is kept then.")
}
