//go:build unix

package process

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// guardScript runs its arguments, and kills the whole group when its standard input ends: a pipe whose other end only
// this process holds. On SIGTERM, which the whole group gets, the shell stays until the program has exited, so that a
// wait for the shell is a wait for the program. The numbers from 3 on are those of Options.Files.
const guardScript = `
exec 9<&0 </dev/null
trap : TERM
"$@" 9<&- &
child=$!
{ cat <&9 >/dev/null; kill -KILL 0; } >/dev/null 2>&1 &
watcher=$!
exec 9<&-
wait "$child"; code=$?
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
kill -KILL "$watcher" 2>/dev/null
exit "$code"
`

// wrapInShell runs cmd under a shell that kills it when this process dies, for systems whose kernel cannot.
func wrapInShell(cmd *exec.Cmd) (release func(), err error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create the pipe that guards the child: %w", err)
	}
	cmd.Args = append([]string{"sh", "-c", guardScript, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	cmd.Stdin = read
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() { _ = read.Close(); _ = write.Close() }, nil
}
