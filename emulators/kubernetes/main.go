// Command kubernetes runs a complete Kubernetes cluster without containers in one process: etcd, the API server, the
// controller manager, the scheduler, and a simulator of the nodes' kubelets and the volume provisioner. With
// -image, pods of that image run as processes of this machine.
//
// It ends on SIGINT or SIGTERM. If its standard input is a pipe, it also ends at the end of input, so that it does not
// outlive its parent. It does not build itself; package cluster does.
//
// It writes one line to standard output, "ready kubeconfig=<path>", once everything that tests rely on exists. Errors
// go to standard error and the parts' log to kubernetes.log in the state directory. A process runs only one cluster
// because the parts have global state.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// stopTimeout bounds an orderly stop, after which the process ends anyway: a parent must never wait for a stuck child.
const stopTimeout = 20 * time.Second

func main() {
	if err := command(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		os.Exit(1)
	}
}

// command parses args and runs the cluster until a signal arrives or stdin ends.
func command(args []string, stdin *os.File) error {
	s := settings{images: map[string]string{}}
	flags := flag.NewFlagSet("kubernetes", flag.ContinueOnError)
	flags.StringVar(&s.dir, "dir", "",
		"state `directory`: certificates, etcd's data, kubeconfig, log; a later run goes on from it")
	flags.StringVar(&s.addr, "addr", "127.0.0.1:0", "loopback `address` of the API server; port 0 picks a free one")
	flags.IntVar(&s.nodes, "nodes", 3, "`number` of simulated nodes")
	flags.StringVar(&s.nodeSocket, "node-socket", "", "Unix `socket` of an HTTP CONNECT proxy into the network of a node "+
		"that runs containers, in addition to the simulated nodes; see package realnode")
	flags.BoolVar(&s.noGVisor, "no-gvisor", false, "leave out the RuntimeClass gvisor")
	flags.StringVar(&s.fence, "fence", "",
		"YAML `file` of the admission policy that refuses lower generations, enforced before the cluster is ready")
	flags.Func("image", "`NAME=DIR`: pods of this image run as processes, whose programs are in the directory; may be "+
		"repeated", s.addImage)
	flags.IntVar(&s.verbosity, "v", 0, "verbosity `level` of kubernetes.log")
	flags.Func("crd", "YAML `file` of a CustomResourceDefinition to establish before the cluster is ready; may be "+
		"repeated", func(file string) error {
		s.crds = append(s.crds, file)
		return nil
	})
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if rest := flags.Args(); s.dir == "" || len(rest) > 0 {
		return fmt.Errorf("want -dir and no other arguments, not %q", strings.Join(rest, " "))
	}

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	// neither a terminal nor /dev/null is a parent
	if info, err := stdin.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	context.AfterFunc(ctx, func() {
		cancel() // restores the signals' default action: a second signal ends the process immediately
		time.AfterFunc(stopTimeout, func() {
			fmt.Fprintf(os.Stderr, "kubernetes: not stopped after %s, giving up\n", stopTimeout)
			os.Exit(1)
		})
	})
	return run(ctx, s, os.Stdout)
}
