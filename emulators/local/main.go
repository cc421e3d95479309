// Command local runs the whole deployment on one machine. It starts the local cloud, creates one agent through the
// public API, and stays up. The command emulators compiles and runs it:
//
//	go run ./emulators                        start, create an agent, stay up until Ctrl-C
//	go run ./emulators -once                  start, create an agent, delete it, exit
//	go run ./emulators -emulators official    start with the emulators of the Google Cloud SDK
//	go run ./emulators break [AGENT] FAULT    make an agent crash, or fail in another way, or heal it
//	go run ./emulators build                  build the real API server and programs ahead of time
//	go run ./emulators console                print a link that signs in to the web console
//	go run ./emulators image NAME@VERSION     build an image of an agent runtime, such as OpenClaw
//	go run ./emulators open                   print a link that opens the agent's dashboard in a browser
//	go run ./emulators token ...              print a session token for the running cloud
package main

import (
	"context"
	"flag"
	"fmt"

	"agents.example/controlplane/emulators/command"
)

func main() { command.Main(run) }

// usage is the help of the command without a subcommand, above its flags.
const usage = `Usage: go run ./emulators [flags]
       go run ./emulators break | build | console | image | open | token | bench | load [flags]

Starts the whole control plane on this machine, creates an agent and stays up until Ctrl-C.

Commands:
  break    make an agent crash, or fail in another way, or heal it
  build    build the real API server and programs ahead of time (about 7 minutes on 2 cores, once)
  console  print a link that signs in to the web console
  image    build an image of an agent runtime, such as OpenClaw
  open     print a link that opens an agent's dashboard in a browser
  token    print a session token for the running cloud
  bench    count what operations cost, and price a month
  load     measure what hostile clients take from others

Flags:
`

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return up(ctx, args)
	}
	switch args[0] {
	case "break":
		return breakAgent(ctx, args[1:])
	case "build":
		return build(ctx, args[1:])
	case "console":
		return console(ctx, args[1:])
	case "image":
		return buildImage(ctx, args[1:])
	case "open":
		return open(ctx, args[1:])
	case "token":
		return token(ctx, args[1:])
	default:
		return up(ctx, args)
	}
}

// readyFlag adds the flag by which a command finds a running cloud. Its value is for readFacts.
func readyFlag(flags *flag.FlagSet) *string {
	return flags.String("ready", "",
		"the `file` that the cloud wrote with its flag -ready (default: the cloud started last)")
}

// parseFlagsOnly parses the flags of a command that takes nothing else.
func parseFlagsOnly(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s takes no arguments besides flags, not %q", flags.Name(), flags.Arg(0))
	}
	return nil
}
