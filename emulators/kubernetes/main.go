// Command kubernetes runs the control plane of a Kubernetes cluster in one process: etcd, the API server, the controller
// manager and the scheduler. It has no nodes: its parent simulates them as a client of the API. It does not build itself
// and makes no certificates; package cluster does.
//
// It ends on SIGINT or SIGTERM. If its standard input is a pipe, it also ends at the end of input, so that it does not
// outlive its parent.
//
// It inherits the socket of the API server and writes the line "ready" to standard output when it answers. Errors go to
// standard error and the parts' log to kubernetes.log in the state directory. A process runs only one control plane
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
	s := settings{}
	flags := flag.NewFlagSet("kubernetes", flag.ContinueOnError)
	flags.StringVar(&s.dir, "dir", "", "absolute state `directory`, which has the certificates and the kubeconfig: "+
		"etcd's data and the log are added; a later run goes on from it")
	flags.IntVar(&s.socket, "socket", 3, "`number` of the open file that is the API server's socket")
	flags.StringVar(&s.clientCA, "client-ca", "ca.crt", "`file` of the certificate authorities of clients")
	flags.StringVar(&s.kubeletCA, "kubelet-ca", "kubelet-ca.crt",
		"`file` of the certificate authorities of kubelets")
	flags.StringVar(&s.egress, "egress", "", "Unix `socket` of an HTTP CONNECT proxy, through which the API server "+
		"connects to kubelets and webhooks")
	flags.StringVar(&s.extender, "scheduler-extender", "", "`URL` of an extender that filters nodes by name")
	flags.IntVar(&s.verbosity, "v", 0, "verbosity `level` of kubernetes.log")
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
