// Command containers runs one real Kubernetes node for the local cluster: a kubelet, containerd, gVisor's runsc and,
// where it is installed, runc. All of it lives in namespaces of one child process, so nothing of the host changes, and
// all of it is gone when that process is.
//
//	containers up -config FILE   runs the node until its standard input ends or SIGTERM
//	containers check -config FILE   says what this system lacks to run a node, if anything
//
// up prints a line "image NAME=REFERENCE" for each image and then, when the node takes pods, "ready". It runs itself
// again for the other parts of the node: init, PID 1 of the node's namespaces, and world, which plays everything beyond
// the node's network.
//
// # Network
//
//	host                              node                                    world
//	API server  <---- api.sock <----  127.0.0.1:6443, 10.77.255.1:443
//	            ----> node.sock ----> 10.77.255.1:10250, the kubelet
//	load balancer --> gateway.sock -------------------------------------->   35.191.0.10 --> a pod
//	            <---- host.sock <-----------------------------------------   203.0.113.20:80
//
// Addresses of Services lead to pods; that of the Service kubernetes leads to the way to the API server.
//
// A Unix socket leads from one network namespace into another, so the host needs no interface, route or firewall rule.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	if len(args) == 0 {
		return errors.New("want up or check")
	}
	name := args[0]
	flags := flag.NewFlagSet("containers "+name, flag.ContinueOnError)
	config := flags.String("config", "", "`file` with the node's configuration")
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	c, err := readConfig(*config)
	if err != nil {
		return err
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)).With("part", name))
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	switch name {
	case "up":
		return up(ctx, c, *config)
	case "check":
		return check(ctx, *config)
	case "try":
		return try(ctx, c)
	case "enter":
		return enter(*config)
	case "init":
		return initialize(ctx, c, *config)
	case "world":
		return world(ctx, c)
	}
	return fmt.Errorf("unknown command %q; want up or check", name)
}
